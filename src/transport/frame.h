/* frame.h - the header in front of everything that travels on a link or a control connection. Wire: docs/wire.md */
#ifndef TDMI_TRANSPORT_FRAME_H
#define TDMI_TRANSPORT_FRAME_H

#include "core/error.h"

#define TDMI_FRAME_HEAD 16
#define TDMI_FRAME_DATA_MAX ((size_t)256 << 10) /* bytes of payload in one frame: a segment */
#define TDMI_FRAME_TEXT_MAX 1024
#define TDMI_FRAME_MESSAGE_HEAD 40 /* bytes of a MESSAGE frame in front of the message's own */

typedef enum {
    TDMI_FRAME_DATA = 1,  /* on links: bytes of call `number` */
    TDMI_FRAME_SIGNATURE, /* on links: which call `number` is, and its label; before its data */
    TDMI_FRAME_ARRIVED,   /* on control connections: the sender has started call `number` */
    TDMI_FRAME_FAILURE,   /* the group is dead; number: tdm_status, payload: text */
    TDMI_FRAME_GOODBYE,   /* the sender leaves after call `number` */
    TDMI_FRAME_MESSAGE,   /* on message streams: message `number` of the sender, with its bytes if it is short */
    TDMI_FRAME_PULL,      /* send the bytes of your message `number`: DATA frames */
    TDMI_FRAME_TAKEN,     /* the bytes of your message `number` were read where they lie */
    TDMI_FRAME_CREDIT,    /* `number` more of your short messages were taken */
    TDMI_FRAME_ELSEWHERE  /* payload: the call of another group that the sender waits in, as text; none: it waits no more */
} tdmi_frame_type;

typedef struct tdmi_frame {
    tdmi_frame_type type;
    uint32_t nbytes; /* of payload behind the header */
    uint64_t number;
} tdmi_frame;

void tdmi_frame_write(const tdmi_frame *frame, uint8_t out[TDMI_FRAME_HEAD]);
/* False: no frame of ours. */
bool tdmi_frame_read(const uint8_t in[TDMI_FRAME_HEAD], tdmi_frame *out);
/* TDM_ERR_PEER_LOST, with a text that says what came where no such frame may be. */
tdm_status tdmi_frame_refuse(const uint8_t in[TDMI_FRAME_HEAD]);

#endif
