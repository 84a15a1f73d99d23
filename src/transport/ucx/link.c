/* link.c - a byte stream made of tagged UCX messages.
 *
 *     sender    out[0..7]  --- data, 1 to 32 KiB each --->  in[0..7], posted    receiver
 *               acked      <--- "I have taken k" ---------  taken
 *
 * Bytes are copied into a slot and are the sender's no longer; the receiver always has eight receives posted, and the sender
 * never has more than eight messages under way, so nothing arrives unexpected and a slow receiver holds its sender up. A
 * receiver reports after four messages or 64 KiB. Tags are a port's secret and the sender's rank, even for data, odd for
 * reports. The first message of a link is its greeting. */
#include "transport/ucx/port.h"

#include "core/clock.h"
#include "core/memory.h"
#include "transport/bytes.h"

#include <string.h>

#define SLOTS 8
#define SLOT_BYTES ((size_t)32 << 10)
#define REPORT_MESSAGES (SLOTS / 2)
#define REPORT_BYTES ((size_t)64 << 10)
#define LINGER_S 1.0

static const char greeting[8] = "TNDU\1\0\0"; /* magic, version */

typedef struct slot {
    void *request; /* NULL: none under way */
    size_t nbytes;
    uint8_t *data; /* [SLOT_BYTES] */
} slot;

typedef struct ucx_link {
    tdmi_link base;
    tdmi_ucx_port *port;
    const tdmi_ucx_library *ucx;
    int peer;
    ucp_ep_h ep;
    ucs_status_t broken; /* UCS_OK: it is not */
    /* sending: messages sent - acked <= SLOTS are under way */
    slot out[SLOTS];
    uint64_t sent, acked, acked_nbytes, sent_nbytes;
    ucp_tag_t data_tag, report_tag;
    /* receiving */
    slot in[SLOTS];
    uint64_t taken, taken_nbytes; /* whole messages given out */
    size_t at;                    /* bytes given out of the next */
    uint64_t reported, reported_nbytes;
    void *report_request;         /* of report_out */
    uint8_t report_out[16], report_in[16]; /* messages and bytes taken */
    void *report_in_request;
    bool said_hello, heard_hello;
} ucx_link;

static tdm_status broke(ucx_link *link, ucs_status_t status)
{
    if (link->broken == UCS_OK)
        link->broken = status;
    return tdmi_fail(TDM_ERR_PEER_LOST, "the UCX connection broke: %s", link->ucx->ucs_status_string(link->broken));
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    ((ucx_link *)arg)->broken = status;
}

/* *over: the request is done and freed; *request is NULL then. */
static ucs_status_t look(ucx_link *link, void **request, bool *over)
{
    ucs_status_t status = UCS_OK;
    *over = true;
    if (*request == NULL)
        return UCS_OK;
    status = link->ucx->ucp_request_check_status(*request);
    *over = status != UCS_INPROGRESS;
    if (!*over)
        return UCS_OK;
    link->ucx->ucp_request_free(*request);
    *request = NULL;
    return status;
}

static ucs_status_t post(ucx_link *link, void *buffer, size_t nbytes, ucp_tag_t tag, void **request)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    void *posted = link->ucx->ucp_tag_recv_nbx(link->port->worker, buffer, nbytes, tag, UINT64_MAX, &param);
    if (UCS_PTR_IS_ERR(posted))
        return UCS_PTR_STATUS(posted);
    *request = posted;
    return UCS_OK;
}

static ucs_status_t send_message(ucx_link *link, const void *buffer, size_t nbytes, ucp_tag_t tag, void **request)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    void *started = link->ucx->ucp_tag_send_nbx(link->ep, buffer, nbytes, tag, &param);
    if (UCS_PTR_IS_ERR(started))
        return UCS_PTR_STATUS(started);
    *request = started; /* NULL: done */
    return UCS_OK;
}

static ucp_tag_t own_tag(const ucx_link *link, int kind)
{
    return tdmi_get_u64(link->port->address) ^ ((uint64_t)link->peer << 1 | (unsigned)kind);
}

/* ---- sending ---- */

static ucs_status_t hear_reports(ucx_link *link)
{
    for (;;) {
        bool over;
        ucs_status_t status = look(link, &link->report_in_request, &over);
        if (status != UCS_OK || !over)
            return status;
        const uint64_t acked = tdmi_get_u64(link->report_in);
        if (acked > link->sent || acked < link->acked)
            return UCS_ERR_INVALID_PARAM; /* the other end is out of its mind */
        link->acked = acked;
        link->acked_nbytes = tdmi_get_u64(link->report_in + 8);
        status = post(link, link->report_in, sizeof link->report_in, own_tag(link, 1), &link->report_in_request);
        if (status != UCS_OK)
            return status;
    }
}

/* *room: the next slot is free, its bytes gone. */
static ucs_status_t find_room(ucx_link *link, bool *room)
{
    ucs_status_t status = UCS_OK;
    *room = false;
    if (link->sent - link->acked >= SLOTS)
        status = hear_reports(link);
    if (status == UCS_OK && link->sent - link->acked < SLOTS)
        status = look(link, &link->out[link->sent % SLOTS].request, room);
    return status;
}

static size_t fill(slot *to, const struct iovec *parts, int count, size_t skip)
{
    to->nbytes = 0;
    for (int i = 0; i < count && to->nbytes < SLOT_BYTES; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
            continue;
        }
        size_t part = parts[i].iov_len - skip, room = SLOT_BYTES - to->nbytes;
        part = part < room ? part : room;
        memcpy(to->data + to->nbytes, (const char *)parts[i].iov_base + skip, part);
        to->nbytes += part;
        skip = 0;
    }
    return to->nbytes;
}

static tdm_status send_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    ucx_link *link = (ucx_link *)base;
    ucs_status_t status = UCS_OK;
    bool room = true, progressed = false;
    *moved = 0;
    while (status == UCS_OK) {
        status = find_room(link, &room);
        if (status == UCS_OK && !room && !progressed) {
            link->ucx->ucp_worker_progress(link->port->worker);
            progressed = true;
            continue;
        }
        slot *to = &link->out[link->sent % SLOTS];
        if (status != UCS_OK || !room || fill(to, parts, count, *moved) == 0)
            break;
        status = send_message(link, to->data, to->nbytes, link->data_tag, &to->request);
        if (status == UCS_OK) {
            link->sent++;
            link->sent_nbytes += to->nbytes;
            *moved += to->nbytes;
        }
    }
    if (status == UCS_OK)
        status = link->broken;
    return status == UCS_OK ? TDM_OK : broke(link, status);
}

/* What was taken has left when its requests are done; until then it moves only while somebody calls UCX. */
static ucs_status_t flush_sent(ucx_link *link, bool *flushed)
{
    ucs_status_t status = look(link, &link->report_request, flushed);
    for (int i = 0; i < SLOTS && status == UCS_OK && *flushed; i++)
        status = look(link, &link->out[i].request, flushed);
    return status;
}

static tdm_status flush_link(tdmi_link *base, bool *flushed)
{
    ucx_link *link = (ucx_link *)base;
    ucs_status_t status = flush_sent(link, flushed);
    if (status == UCS_OK && !*flushed)
        link->ucx->ucp_worker_progress(link->port->worker);
    return status == UCS_OK ? TDM_OK : broke(link, status);
}

/* ---- receiving ---- */

/* Tells the sender how far this end has come, once it is worth a message. One that finds the last still under way waits for
 * the next occasion. */
static ucs_status_t report(ucx_link *link)
{
    bool over;
    if (link->taken - link->reported < REPORT_MESSAGES && link->taken_nbytes - link->reported_nbytes < REPORT_BYTES)
        return UCS_OK;
    ucs_status_t status = look(link, &link->report_request, &over);
    if (status != UCS_OK || !over)
        return status;
    tdmi_put_u64(link->report_out, link->taken);
    tdmi_put_u64(link->report_out + 8, link->taken_nbytes);
    link->reported = link->taken;
    link->reported_nbytes = link->taken_nbytes;
    return send_message(link, link->report_out, sizeof link->report_out, link->report_tag, &link->report_request);
}

/* *came: the next message is whole in its slot. */
static ucs_status_t next_message(ucx_link *link, bool *came)
{
    slot *from = &link->in[link->taken % SLOTS];
    ucp_tag_recv_info_t info;
    *came = from->request == NULL; /* looked at before */
    if (*came)
        return UCS_OK;
    ucs_status_t status = link->ucx->ucp_tag_recv_request_test(from->request, &info);
    if (status == UCS_INPROGRESS)
        return UCS_OK;
    link->ucx->ucp_request_free(from->request);
    from->request = NULL;
    from->nbytes = status == UCS_OK ? info.length : 0;
    *came = status == UCS_OK;
    return status;
}

static ucs_status_t finish_message(ucx_link *link)
{
    slot *from = &link->in[link->taken % SLOTS];
    link->taken++;
    link->taken_nbytes += from->nbytes;
    link->at = 0;
    ucs_status_t status = post(link, from->data, SLOT_BYTES, own_tag(link, 0), &from->request);
    return status == UCS_OK ? report(link) : status;
}

static size_t drain(ucx_link *link, const struct iovec *parts, int count, size_t skip)
{
    const slot *from = &link->in[link->taken % SLOTS];
    size_t taken = 0;
    for (int i = 0; i < count && link->at < from->nbytes; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
            continue;
        }
        size_t part = parts[i].iov_len - skip, left = from->nbytes - link->at;
        part = part < left ? part : left;
        memcpy((char *)parts[i].iov_base + skip, from->data + link->at, part);
        link->at += part;
        taken += part;
        skip = 0;
    }
    return taken;
}

static tdm_status receive_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    ucx_link *link = (ucx_link *)base;
    ucs_status_t status = UCS_OK;
    bool came, progressed = false;
    size_t wanted = 0;
    for (int i = 0; i < count; i++)
        wanted += parts[i].iov_len;
    *moved = 0;
    while (*moved < wanted && status == UCS_OK) {
        status = next_message(link, &came);
        if (status == UCS_OK && !came) {
            if (progressed || *moved > 0)
                break;
            link->ucx->ucp_worker_progress(link->port->worker);
            progressed = true;
            continue;
        }
        if (status != UCS_OK)
            break;
        *moved += drain(link, parts, count, *moved);
        if (link->at == link->in[link->taken % SLOTS].nbytes)
            status = finish_message(link);
    }
    if (*moved > 0)
        return TDM_OK; /* what broke meanwhile is met by the next call */
    if (status == UCS_OK)
        status = report(link);
    if (status == UCS_OK)
        status = link->broken;
    return status == UCS_OK ? TDM_OK : broke(link, status);
}

/* The port's descriptor serves all its links. */
static int fd_of(const tdmi_link *base, int index)
{
    (void)base, (void)index;
    return -1;
}

/* ---- beginning and end ---- */

tdm_status tdmi_ucx_link_greet(tdmi_link *base, bool *greeted)
{
    ucx_link *link = (ucx_link *)base;
    const struct iovec out = {(char *)(uintptr_t)greeting, sizeof greeting};
    char heard[sizeof greeting];
    const struct iovec in = {heard, sizeof heard};
    size_t moved = 0;
    bool flushed = false;
    tdm_status status = TDM_OK;
    if (!link->said_hello) {
        status = send_parts(base, &out, 1, &moved);
        link->said_hello = moved > 0;
    }
    if (status == TDM_OK && !link->heard_hello) {
        status = receive_parts(base, &in, 1, &moved);
        link->heard_hello = moved > 0;
        if (link->heard_hello && (moved != sizeof heard || memcmp(heard, greeting, sizeof heard) != 0))
            status = tdmi_fail(TDM_ERR_PEER_LOST, "the other end greets as another version of Tandem would");
    }
    if (status == TDM_OK && link->said_hello)
        status = flush_link(base, &flushed);
    *greeted = link->heard_hello && flushed;
    return status;
}

/* Ends a request for good. */
static void drop(ucx_link *link, void **request, bool cancel, int64_t deadline_ns)
{
    bool over = false;
    if (*request != NULL && cancel)
        link->ucx->ucp_request_cancel(link->port->worker, *request);
    while (look(link, request, &over) == UCS_OK && !over && !tdmi_deadline_passed(deadline_ns))
        link->ucx->ucp_worker_progress(link->port->worker);
    if (*request != NULL)
        link->ucx->ucp_request_free(*request);
    *request = NULL;
}

/* Over TCP, what a peer sends to a connection that is closed can destroy what it has not read yet. So this end waits until the
 * peer has most of it, and the rest fits where nothing can happen to it. */
static void linger(ucx_link *link, int64_t deadline_ns)
{
    bool flushed = false;
    ucs_status_t status = UCS_OK;
    while (status == UCS_OK && link->broken == UCS_OK && !tdmi_deadline_passed(deadline_ns)) {
        status = flush_sent(link, &flushed);
        if (status == UCS_OK)
            status = hear_reports(link);
        if (flushed && link->sent_nbytes - link->acked_nbytes <= REPORT_BYTES)
            return;
        link->ucx->ucp_worker_progress(link->port->worker);
    }
}

static void close_link(tdmi_link *base)
{
    ucx_link *link = (ucx_link *)base;
    const int64_t deadline_ns = tdmi_deadline_in(LINGER_S);
    if (link->ep != NULL) {
        const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
        if (!link->port->given_up && link->said_hello)
            linger(link, deadline_ns);
        void *closing = link->ucx->ucp_ep_close_nbx(link->ep, &param);
        if (!UCS_PTR_IS_ERR(closing))
            drop(link, &closing, false, deadline_ns);
    }
    drop(link, &link->report_request, false, deadline_ns);
    drop(link, &link->report_in_request, true, deadline_ns);
    for (int i = 0; i < SLOTS; i++) {
        drop(link, &link->out[i].request, false, deadline_ns);
        drop(link, &link->in[i].request, true, deadline_ns);
    }
    link->port->link[link->peer] = NULL;
    tdmi_free(link->out[0].data);
    tdmi_free(link);
}

static const tdmi_link_ops ops = {
    .name = "ucx", .send = send_parts, .receive = receive_parts, .flush = flush_link, .fd = fd_of, .close = close_link};

/* That a peer is gone is heard from UCX where it can tell; its shared memory cannot, and does not need to: the control
 * connection can. */
static ucs_status_t connect_to(ucx_link *link, const uint8_t *address)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(const void *)(address + TDMI_UCX_SECRET),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = link}};
    ucs_status_t status = link->ucx->ucp_ep_create(link->port->worker, &params, &link->ep);
    if (status != UCS_ERR_UNREACHABLE)
        return status;
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    return link->ucx->ucp_ep_create(link->port->worker, &params, &link->ep);
}

static tdm_status prepare(ucx_link *link, const uint8_t *address)
{
    uint8_t *data = tdmi_aligned_alloc(4096, 2 * SLOTS * SLOT_BYTES, "ucx link");
    if (data == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < SLOTS; i++) {
        link->out[i].data = data + (size_t)i * SLOT_BYTES;
        link->in[i].data = data + (size_t)(SLOTS + i) * SLOT_BYTES;
    }
    ucs_status_t status = post(link, link->report_in, sizeof link->report_in, own_tag(link, 1), &link->report_in_request);
    for (int i = 0; i < SLOTS && status == UCS_OK; i++)
        status = post(link, link->in[i].data, SLOT_BYTES, own_tag(link, 0), &link->in[i].request);
    if (status == UCS_OK)
        status = connect_to(link, address);
    return status == UCS_OK ? TDM_OK : tdmi_fail(TDM_ERR_SYSTEM, "transport ucx: no way to rank %d: %s; UCX_TLS and UCX_NET_DEVICES "
                                                 "say what it may use", link->peer, link->ucx->ucs_status_string(status));
}

tdm_status tdmi_ucx_link_create(tdmi_ucx_port *port, int peer, const void *address, size_t nbytes, tdmi_link **out)
{
    if (nbytes <= TDMI_UCX_SECRET)
        return tdmi_fail(TDM_ERR_MISMATCH, "the UCX address of rank %d is damaged", peer);
    ucx_link *link = tdmi_calloc(1, sizeof *link, "ucx link");
    if (link == NULL)
        return TDM_ERR_NO_MEMORY;
    *link = (ucx_link){.base.ops = &ops, .port = port, .ucx = port->ucx, .peer = peer};
    link->data_tag = tdmi_get_u64(address) ^ (uint64_t)port->rank << 1;
    link->report_tag = link->data_tag ^ 1;
    port->link[peer] = &link->base;
    tdm_status status = prepare(link, address);
    if (status != TDM_OK) {
        close_link(&link->base);
        return status;
    }
    *out = &link->base;
    return TDM_OK;
}
