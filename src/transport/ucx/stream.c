/* stream.c - a byte stream made of tagged UCX messages.
 *
 *     sender    out[0..7]  --- data, 1 to 32 KiB each --->  in[0..7], posted    receiver
 *               acked      <--- "I have taken k" ---------  taken
 *
 * Bytes are copied into a slot and are the sender's no longer; the receiver always has eight receives posted, and the sender
 * never has more than eight messages under way, so nothing arrives unexpected and a slow receiver holds its sender up. A
 * receiver reports after four messages or 64 KiB. Tags are a port's secret, the sender's rank and the link's purpose, even
 * for data, odd for reports. The first message of a link is its greeting. */
#include "transport/ucx/link_parts.h"

#include "transport/bytes.h"

#include <string.h>

tdm_status tdmi_ucx_broke(ucx_link *link, ucs_status_t status)
{
    if (link->broken == UCS_OK)
        link->broken = status;
    return tdmi_fail(TDM_ERR_PEER_LOST, "the UCX connection broke: %s", link->ucx->ucs_status_string(link->broken));
}

ucs_status_t tdmi_ucx_look(ucx_link *link, void **request, bool *over)
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

ucs_status_t tdmi_ucx_post(ucx_link *link, void *buffer, size_t nbytes, ucp_tag_t tag, void **request)
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

ucp_tag_t tdmi_ucx_own_tag(const ucx_link *link, int kind)
{
    return tdmi_get_u64(link->port->address) ^ ((uint64_t)link->peer << 2 | (uint64_t)link->purpose << 1 | (unsigned)kind);
}

/* ---- sending ---- */

ucs_status_t tdmi_ucx_hear_reports(ucx_link *link)
{
    for (;;) {
        bool over;
        ucs_status_t status = tdmi_ucx_look(link, &link->report_in_request, &over);
        if (status != UCS_OK || !over)
            return status;
        const uint64_t acked = tdmi_get_u64(link->report_in);
        if (acked > link->sent || acked < link->acked)
            return UCS_ERR_INVALID_PARAM; /* the other end is out of its mind */
        link->acked = acked;
        link->acked_nbytes = tdmi_get_u64(link->report_in + 8);
        status = tdmi_ucx_post(link, link->report_in, sizeof link->report_in, tdmi_ucx_own_tag(link, 1), &link->report_in_request);
        if (status != UCS_OK)
            return status;
    }
}

/* *room: the next slot is free, its bytes gone. */
static ucs_status_t find_room(ucx_link *link, bool *room)
{
    ucs_status_t status = UCS_OK;
    *room = false;
    if (link->sent - link->acked >= TDMI_UCX_SLOTS)
        status = tdmi_ucx_hear_reports(link);
    if (status == UCS_OK && link->sent - link->acked < TDMI_UCX_SLOTS)
        status = tdmi_ucx_look(link, &link->out[link->sent % TDMI_UCX_SLOTS].request, room);
    return status;
}

static size_t fill(slot *to, const struct iovec *parts, int count, size_t skip)
{
    to->nbytes = 0;
    for (int i = 0; i < count && to->nbytes < TDMI_UCX_SLOT_BYTES; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
            continue;
        }
        size_t part = parts[i].iov_len - skip, room = TDMI_UCX_SLOT_BYTES - to->nbytes;
        part = part < room ? part : room;
        memcpy(to->data + to->nbytes, (const char *)parts[i].iov_base + skip, part);
        to->nbytes += part;
        skip = 0;
    }
    return to->nbytes;
}

tdm_status tdmi_ucx_send_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
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
        slot *to = &link->out[link->sent % TDMI_UCX_SLOTS];
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
    return status == UCS_OK ? TDM_OK : tdmi_ucx_broke(link, status);
}

ucs_status_t tdmi_ucx_flush_sent(ucx_link *link, bool *flushed)
{
    ucs_status_t status = tdmi_ucx_look(link, &link->report_request, flushed);
    for (int i = 0; i < TDMI_UCX_SLOTS && status == UCS_OK && *flushed; i++)
        status = tdmi_ucx_look(link, &link->out[i].request, flushed);
    return status;
}

tdm_status tdmi_ucx_flush_link(tdmi_link *base, bool *flushed)
{
    ucx_link *link = (ucx_link *)base;
    ucs_status_t status = tdmi_ucx_flush_sent(link, flushed);
    if (status == UCS_OK && !*flushed)
        link->ucx->ucp_worker_progress(link->port->worker);
    return status == UCS_OK ? TDM_OK : tdmi_ucx_broke(link, status);
}

/* ---- receiving ---- */

/* Tells the sender how far this end has come, once it is worth a message. One that finds the last still under way waits for
 * the next occasion. */
static ucs_status_t report(ucx_link *link)
{
    bool over;
    if (link->taken - link->reported < TDMI_UCX_REPORT_MESSAGES && link->taken_nbytes - link->reported_nbytes < TDMI_UCX_REPORT_BYTES)
        return UCS_OK;
    ucs_status_t status = tdmi_ucx_look(link, &link->report_request, &over);
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
    slot *from = &link->in[link->taken % TDMI_UCX_SLOTS];
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
    slot *from = &link->in[link->taken % TDMI_UCX_SLOTS];
    link->taken++;
    link->taken_nbytes += from->nbytes;
    link->at = 0;
    ucs_status_t status = tdmi_ucx_post(link, from->data, TDMI_UCX_SLOT_BYTES, tdmi_ucx_own_tag(link, 0), &from->request);
    return status == UCS_OK ? report(link) : status;
}

static size_t drain(ucx_link *link, const struct iovec *parts, int count, size_t skip)
{
    const slot *from = &link->in[link->taken % TDMI_UCX_SLOTS];
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

tdm_status tdmi_ucx_receive_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
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
        if (link->at == link->in[link->taken % TDMI_UCX_SLOTS].nbytes)
            status = finish_message(link);
    }
    if (*moved > 0)
        return TDM_OK; /* what broke meanwhile is met by the next call */
    if (status == UCS_OK)
        status = report(link);
    if (status == UCS_OK)
        status = link->broken;
    return status == UCS_OK ? TDM_OK : tdmi_ucx_broke(link, status);
}
