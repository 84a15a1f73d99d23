/* exchange.c - sends and receives of one step at once, summing what arrives segment by segment while more is under way. */
#include "coll/exchange.h"

#include "coll/reduce.h"
#include "coll/work_steps.h"

#include <string.h>

#define PIECE_BYTES ((size_t)1 << 20) /* at one go, so that other calls and threads get a turn */
#define TILE_BYTES ((size_t)16 << 10) /* of a leaf in the accumulate type: stays in the first-level cache */

static void sign(const tdmi_run *run, int peer, uint8_t signature[TDMI_SIGNATURE_BYTES])
{
    tdmi_signature_write(&run->plan->call, run->plan->fused, run->way->algorithm, run->team->rank, peer, signature);
}

void tdmi_exchange_begin(tdmi_run *run)
{
    uint8_t signature[TDMI_SIGNATURE_BYTES];
    for (int i = 0; i < run->way->link_peer_count; i++) {
        sign(run, run->way->link_peers[i], signature);
        tdmi_channel_sign(run->team->channel[run->way->link_peers[i]], run->number, signature, &run->label);
    }
}

static tdm_status while_talking(const tdmi_run *run, int peer, tdm_status status)
{
    return status == TDM_OK ? status : tdmi_fail_while(status, "rank %d of group %s talked to rank %d in call %llu", run->team->rank,
                                                       run->team->name, peer, (unsigned long long)run->number);
}

/* *agrees: the signature of `peer` came and is that of this call. */
static tdm_status hear(const tdmi_run *run, int peer, bool *agrees)
{
    tdmi_team *team = run->team;
    tdmi_channel *channel = team->channel[peer];
    tdm_status status = tdmi_channel_hear(channel, run->number, agrees);
    if (status != TDM_OK || !*agrees)
        return while_talking(run, peer, status);
    uint8_t own[TDMI_SIGNATURE_BYTES];
    sign(run, peer, own);
    if (team->arrived[peer] < run->number)
        team->arrived[peer] = run->number;
    return tdmi_signature_equal(own, channel->signature)
               ? TDM_OK
               : tdmi_signature_mismatch(team->name, run->number, (tdmi_said){team->rank, own, run->label.text},
                                         (tdmi_said){peer, channel->signature, channel->label});
}

static tdm_status send_some(tdmi_run *run, const tdmi_step *step, size_t nbytes, bool *moved)
{
    const char *from = tdmi_work_address(run, step->src);
    size_t sent = 0, left = nbytes - run->sent;
    tdm_status status = tdmi_channel_send(run->team->channel[step->to], run->number, from + run->sent,
                                          left < PIECE_BYTES ? left : PIECE_BYTES, &sent);
    run->sent += sent;
    *moved |= sent > 0;
    return while_talking(run, step->to, status);
}

/* Of the elements that come: a leaf is narrower than where it goes. */
static tdm_dtype wire_dtype(const tdmi_run *run, const tdmi_step *step)
{
    return step->leaf ? run->request.call.dtype : tdmi_work_dtype(run, step->dst.buffer);
}

/* Whether what comes goes through the segment, because it is summed or widened. */
static bool uses_segment(const tdmi_run *run, const tdmi_step *step)
{
    return step->kind == TDMI_STEP_EXCHANGE_REDUCE || wire_dtype(run, step) != tdmi_work_dtype(run, step->dst.buffer);
}

static void sum(const tdmi_run *run, const tdmi_step *step, const void *came, char *dst, size_t count)
{
    const tdm_dtype dtype = tdmi_work_dtype(run, step->dst.buffer);
    const tdm_op op = run->request.call.op;
    if (step->received_first)
        tdmi_reduce_pair(dtype, op, came, dst, dst, count);
    else
        tdmi_reduce_pair(dtype, op, dst, came, dst, count);
}

static void take_leaf(const tdmi_run *run, const tdmi_step *step, const char *came, char *dst, size_t count)
{
    const tdmi_call *call = &run->request.call;
    const size_t size = tdm_dtype_size(call->dtype), wide = tdm_dtype_size(tdmi_call_acc_dtype(call)), most = TILE_BYTES / wide;
    _Alignas(64) char tile[TILE_BYTES];
    if (step->kind == TDMI_STEP_EXCHANGE) {
        tdmi_reduce_widen(call->dtype, call->op, came, dst, count);
        return;
    }
    for (size_t done = 0; done < count; done += most) {
        const size_t part = count - done < most ? count - done : most;
        tdmi_reduce_widen(call->dtype, call->op, came + done * size, tile, part);
        sum(run, step, tile, dst + done * wide, part);
    }
}

/* Takes the whole elements that have arrived in the segment: [run->summed, run->received). */
static void empty_segment(tdmi_run *run, const tdmi_step *step, size_t size, bool finished)
{
    const size_t in_segment = run->received - run->summed, count = in_segment / size;
    if (count == 0 || (in_segment < TDMI_SEGMENT_BYTES && !finished))
        return;
    const size_t dst_size = tdm_dtype_size(tdmi_work_dtype(run, step->dst.buffer));
    char *dst = tdmi_work_address(run, step->dst) + run->summed / size * dst_size;
    if (dst_size != size)
        take_leaf(run, step, run->team->segment, dst, count);
    else
        sum(run, step, run->team->segment, dst, count);
    run->summed += count * size;
}

static tdm_status receive_some(tdmi_run *run, const tdmi_step *step, size_t size, size_t nbytes, bool *moved)
{
    bool agrees;
    tdm_status status = hear(run, step->from, &agrees);
    if (status != TDM_OK || !agrees)
        return status;
    const bool sums = uses_segment(run, step);
    const size_t enough = run->received + PIECE_BYTES;
    while (run->received < nbytes && run->received < enough) {
        char *to = sums ? run->team->segment + (run->received - run->summed) : tdmi_work_address(run, step->dst) + run->received;
        size_t wanted = nbytes - run->received, room = sums ? TDMI_SEGMENT_BYTES - (run->received - run->summed) : PIECE_BYTES;
        size_t got = 0;
        status = tdmi_channel_receive(run->team->channel[step->from], run->number, to, wanted < room ? wanted : room, &got);
        if (status != TDM_OK || got == 0)
            break;
        run->received += got;
        *moved = true;
        if (sums)
            empty_segment(run, step, size, run->received == nbytes);
    }
    return while_talking(run, step->from, status);
}

tdm_status tdmi_exchange_step(tdmi_run *run, const tdmi_step *step, bool *over, bool *moved)
{
    const size_t src_size = tdm_dtype_size(tdmi_work_dtype(run, step->src.buffer));
    const size_t dst_size = tdm_dtype_size(wire_dtype(run, step));
    const size_t to_send = step->to >= 0 ? step->src.count * src_size : 0;
    const size_t to_receive = step->from >= 0 ? step->dst.count * dst_size : 0;
    tdm_status status = TDM_OK;
    if (run->sent < to_send)
        status = send_some(run, step, to_send, moved);
    if (status == TDM_OK && run->received < to_receive)
        status = receive_some(run, step, dst_size, to_receive, moved);
    *over = status == TDM_OK && run->sent == to_send && run->received == to_receive;
    return status;
}

tdm_status tdmi_exchange_settle(tdmi_run *run, bool *over)
{
    *over = false;
    for (int i = 0; i < run->way->link_peer_count; i++) { /* all go out before any is waited for */
        const int peer = run->way->link_peers[i];
        bool flushed;
        tdm_status status = tdmi_channel_flush(run->team->channel[peer], &flushed);
        if (status != TDM_OK || !flushed)
            return while_talking(run, peer, status);
    }
    for (; run->settled < run->way->link_peer_count; run->settled++) {
        bool agrees;
        tdm_status status = hear(run, run->way->link_peers[run->settled], &agrees);
        if (status != TDM_OK || !agrees)
            return status;
    }
    *over = true;
    return TDM_OK;
}

tdm_status tdmi_exchange_compare(const tdmi_run *run)
{
    for (int i = 0; i < run->way->link_peer_count; i++) {
        bool agrees, flushed; /* a signature leaves with the first data: where both wait to receive it must go alone */
        tdm_status status = while_talking(run, run->way->link_peers[i], tdmi_channel_flush(run->team->channel[run->way->link_peers[i]], &flushed));
        if (status == TDM_OK)
            status = hear(run, run->way->link_peers[i], &agrees);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}
