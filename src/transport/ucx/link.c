/* link.c - the life of a link: connecting, greeting, closing. The first message of a link is its greeting. */
#include "transport/ucx/link_parts.h"

#include "core/clock.h"
#include "core/memory.h"
#include "transport/bytes.h"

#include <string.h>

#define LINGER_S 1.0

static const char greeting[8] = "TNDU\2\0\0"; /* magic, version */

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    ((ucx_link *)arg)->broken = status;
}

/* The port's descriptor serves all its links. */
static int fd_of(const tdmi_link *base, int index)
{
    (void)base, (void)index;
    return -1;
}

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
        status = tdmi_ucx_send_parts(base, &out, 1, &moved);
        link->said_hello = moved > 0;
    }
    if (status == TDM_OK && !link->heard_hello) {
        status = tdmi_ucx_receive_parts(base, &in, 1, &moved);
        link->heard_hello = moved > 0;
        if (link->heard_hello && (moved != sizeof heard || memcmp(heard, greeting, sizeof heard) != 0))
            status = tdmi_fail(TDM_ERR_PEER_LOST, "the other end greets as another version of Tandem would");
    }
    if (status == TDM_OK && link->said_hello)
        status = tdmi_ucx_flush_link(base, &flushed);
    *greeted = link->heard_hello && flushed;
    return status;
}

/* Ends a request for good. */
static void drop(ucx_link *link, void **request, bool cancel, int64_t deadline_ns)
{
    bool over = false;
    if (*request != NULL && cancel)
        link->ucx->ucp_request_cancel(link->port->worker, *request);
    while (tdmi_ucx_look(link, request, &over) == UCS_OK && !over && !tdmi_deadline_passed(deadline_ns))
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
        status = tdmi_ucx_flush_sent(link, &flushed);
        if (status == UCS_OK)
            status = tdmi_ucx_hear_reports(link);
        if (flushed && link->sent_nbytes - link->acked_nbytes <= TDMI_UCX_REPORT_BYTES)
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
    for (int i = 0; i < TDMI_UCX_SLOTS; i++) {
        drop(link, &link->out[i].request, false, deadline_ns);
        drop(link, &link->in[i].request, true, deadline_ns);
    }
    link->port->link[link->peer * TDMI_UCX_PURPOSES + (int)link->purpose] = NULL;
    tdmi_free(link->out[0].data);
    tdmi_free(link);
}

static const tdmi_link_ops ops = {
    .name = "ucx", .send = tdmi_ucx_send_parts, .receive = tdmi_ucx_receive_parts, .flush = tdmi_ucx_flush_link, .fd = fd_of, .close = close_link};

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
    uint8_t *data = tdmi_aligned_alloc(4096, 2 * TDMI_UCX_SLOTS * TDMI_UCX_SLOT_BYTES, "ucx link");
    if (data == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < TDMI_UCX_SLOTS; i++) {
        link->out[i].data = data + (size_t)i * TDMI_UCX_SLOT_BYTES;
        link->in[i].data = data + (size_t)(TDMI_UCX_SLOTS + i) * TDMI_UCX_SLOT_BYTES;
    }
    ucs_status_t status = tdmi_ucx_post(link, link->report_in, sizeof link->report_in, tdmi_ucx_own_tag(link, 1), &link->report_in_request);
    for (int i = 0; i < TDMI_UCX_SLOTS && status == UCS_OK; i++)
        status = tdmi_ucx_post(link, link->in[i].data, TDMI_UCX_SLOT_BYTES, tdmi_ucx_own_tag(link, 0), &link->in[i].request);
    if (status == UCS_OK)
        status = connect_to(link, address);
    return status == UCS_OK ? TDM_OK : tdmi_fail(TDM_ERR_SYSTEM, "transport ucx: no way to rank %d: %s; UCX_TLS and UCX_NET_DEVICES "
                                                 "say what it may use", link->peer, link->ucx->ucs_status_string(status));
}

tdm_status tdmi_ucx_link_create(tdmi_ucx_port *port, int peer, tdmi_ucx_purpose purpose, const void *address, size_t nbytes, tdmi_link **out)
{
    if (nbytes <= TDMI_UCX_SECRET)
        return tdmi_fail(TDM_ERR_MISMATCH, "the UCX address of rank %d is damaged", peer);
    ucx_link *link = tdmi_calloc(1, sizeof *link, "ucx link");
    if (link == NULL)
        return TDM_ERR_NO_MEMORY;
    *link = (ucx_link){.base.ops = &ops, .port = port, .ucx = port->ucx, .peer = peer, .purpose = purpose};
    link->data_tag = tdmi_get_u64(address) ^ ((uint64_t)port->rank << 2 | (uint64_t)purpose << 1);
    link->report_tag = link->data_tag ^ 1;
    port->link[peer * TDMI_UCX_PURPOSES + purpose] = &link->base;
    tdm_status status = prepare(link, address);
    if (status != TDM_OK) {
        close_link(&link->base);
        return status;
    }
    *out = &link->base;
    return TDM_OK;
}
