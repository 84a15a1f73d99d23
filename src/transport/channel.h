/* channel.h - calls over one link: each call's signature first, then its data in frames. Never blocks.
 * The link's order is the order of calls; the channel keeps them apart and notices when the two ends do not agree. */
#ifndef TDMI_TRANSPORT_CHANNEL_H
#define TDMI_TRANSPORT_CHANNEL_H

#include "core/label.h"
#include "transport/frame.h"
#include "transport/link.h"

#define TDMI_CHANNEL_SIGNATURE 24 /* bytes */
#define TDMI_CHANNEL_BUFFER 8192

typedef struct tdmi_channel {
    tdmi_link *link;
    /* sending */
    uint8_t head[2 * TDMI_FRAME_HEAD + TDMI_CHANNEL_SIGNATURE + TDMI_LABEL_BYTES]; /* not sent yet: a signature, a data header */
    size_t head_at, head_nbytes;
    size_t frame_left; /* payload of the open data frame that is not sent yet */
    uint64_t payload_sent;
    /* receiving */
    uint8_t in[TDMI_CHANNEL_BUFFER];
    size_t in_at, in_nbytes;
    tdmi_frame frame;         /* the one being received */
    size_t frame_taken;       /* payload of it that was given out */
    bool in_frame;            /* frame is valid and not over */
    uint64_t signature_call;  /* number of the call whose signature came last */
    uint8_t signature[TDMI_CHANNEL_SIGNATURE];
    char label[TDMI_LABEL_BYTES]; /* that came with it */
} tdmi_channel;

/* Takes the link. */
tdm_status tdmi_channel_create(tdmi_link *link, tdmi_channel **out);
void tdmi_channel_destroy(tdmi_channel *channel); /* closes the link; NULL is fine */

/* Puts the signature, with the label, in front of the next data; sent with it, or by a flush. Once a call. */
void tdmi_channel_sign(tdmi_channel *channel, uint64_t call, const uint8_t signature[TDMI_CHANNEL_SIGNATURE], const tdmi_label *label);
/* Sends what it can of data [nbytes]; *moved: bytes taken. */
tdm_status tdmi_channel_send(tdmi_channel *channel, uint64_t call, const void *data, size_t nbytes, size_t *moved);
tdm_status tdmi_channel_flush(tdmi_channel *channel, bool *flushed);
/* Receives what there is of call's data, nbytes at most. After its signature came. */
tdm_status tdmi_channel_receive(tdmi_channel *channel, uint64_t call, void *data, size_t nbytes, size_t *moved);
/* Looks for the peer's signature of this call; *came: it is in channel->signature. */
tdm_status tdmi_channel_hear(tdmi_channel *channel, uint64_t call, bool *came);

#endif
