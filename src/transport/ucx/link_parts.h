/* link_parts.h - what link.c and stream.c share: the inside of a link. */
#ifndef TDMI_TRANSPORT_UCX_LINK_PARTS_H
#define TDMI_TRANSPORT_UCX_LINK_PARTS_H

#include "transport/ucx/port.h"

#define TDMI_UCX_SLOTS 8
#define TDMI_UCX_SLOT_BYTES ((size_t)32 << 10)
#define TDMI_UCX_REPORT_MESSAGES (TDMI_UCX_SLOTS / 2)
#define TDMI_UCX_REPORT_BYTES ((size_t)64 << 10)

typedef struct slot {
    void *request; /* NULL: none under way */
    size_t nbytes;
    uint8_t *data; /* [TDMI_UCX_SLOT_BYTES] */
} slot;

typedef struct ucx_link {
    tdmi_link base;
    tdmi_ucx_port *port;
    const tdmi_ucx_library *ucx;
    int peer;
    tdmi_ucx_purpose purpose;
    ucp_ep_h ep;
    ucs_status_t broken; /* UCS_OK: it is not */
    /* sending: messages sent - acked <= TDMI_UCX_SLOTS are under way */
    slot out[TDMI_UCX_SLOTS];
    uint64_t sent, acked, acked_nbytes, sent_nbytes;
    ucp_tag_t data_tag, report_tag;
    /* receiving */
    slot in[TDMI_UCX_SLOTS];
    uint64_t taken, taken_nbytes; /* whole messages given out */
    size_t at;                    /* bytes given out of the next */
    uint64_t reported, reported_nbytes;
    void *report_request;         /* of report_out */
    uint8_t report_out[16], report_in[16]; /* messages and bytes taken */
    void *report_in_request;
    bool said_hello, heard_hello;
} ucx_link;

/* ---- stream.c ---- */
/* TDM_ERR_PEER_LOST. */
tdm_status tdmi_ucx_broke(ucx_link *link, ucs_status_t status);
/* *over: the request is done and freed; *request is NULL then. */
ucs_status_t tdmi_ucx_look(ucx_link *link, void **request, bool *over);
ucs_status_t tdmi_ucx_post(ucx_link *link, void *buffer, size_t nbytes, ucp_tag_t tag, void **request);
/* Of what comes to this end; kind 0: data, 1: reports. */
ucp_tag_t tdmi_ucx_own_tag(const ucx_link *link, int kind);
ucs_status_t tdmi_ucx_hear_reports(ucx_link *link);
/* What was taken has left when its requests are done; until then it moves only while somebody calls UCX. */
ucs_status_t tdmi_ucx_flush_sent(ucx_link *link, bool *flushed);
tdm_status tdmi_ucx_send_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved);
tdm_status tdmi_ucx_receive_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved);
tdm_status tdmi_ucx_flush_link(tdmi_link *base, bool *flushed);

#endif
