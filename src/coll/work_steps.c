/* work_steps.c - copies and sums, own and in the peers' buffers, in pieces. */
#include "coll/work_steps.h"

#include "coll/meet.h"
#include "coll/reduce.h"
#include "core/cpu.h"
#include "core/dtype.h"

#include <string.h>

#define PIECE_BYTES ((size_t)512 << 10)  /* of one rank's buffer at a time: about 0.1 ms */
#define BACK_BYTES ((size_t)32 << 10)    /* at a time, where a call goes through memory backwards */
#define TILE_BYTES ((size_t)16 << 10)    /* handed to an epilogue: stays in the first-level cache */
/* Results of larger buffers go past the cache, but not to STAGE: of what does not stay in the core's own cache. Stores that pass
 * by then take 20 to 35 % less time, however large the shared cache is (Sapphire Rapids, 4 MiB, out of place). */
#define STREAM_BYTES ((size_t)2 << 20)

tdm_dtype tdmi_work_dtype(const tdmi_run *run, tdmi_buffer buffer)
{
    const tdmi_call *call = &run->request.call;
    return buffer == TDMI_BUFFER_ACC ? tdmi_call_acc_dtype(call) : call->dtype;
}

/* Element `first` of a buffer of `rank`. */
static char *address(const tdmi_run *run, int rank, tdmi_buffer buffer, size_t first)
{
    const bool own = rank == run->team->rank;
    char *base = NULL;
    switch (buffer) {
    case TDMI_BUFFER_IN: base = own ? (char *)(uintptr_t)run->request.in : run->peer_in[rank]; break;
    case TDMI_BUFFER_OUT: base = own ? run->request.out : run->peer_out[rank]; break;
    case TDMI_BUFFER_ACC: base = run->acc; break;
    case TDMI_BUFFER_SLOT: base = tdmi_slot_data(run, rank); break;
    case TDMI_BUFFER_STAGE: base = run->stage->block[((unsigned)rank + run->rotation) % (unsigned)run->team->n]; break;
    }
    return base + first * tdmi_dtype_bytes(tdmi_work_dtype(run, buffer));
}

static char *own_address(const tdmi_run *run, tdmi_range range, size_t at)
{
    return address(run, run->team->rank, range.buffer, range.first + at);
}

char *tdmi_work_address(const tdmi_run *run, tdmi_range range)
{
    return own_address(run, range, 0);
}

/* Whether what is written there is too long to stay in a cache. */
static bool streams(const tdmi_run *run, tdmi_buffer to)
{
    const size_t nbytes = to == TDMI_BUFFER_OUT ? tdmi_call_bytes(&run->request.call, run->team->n) : 0;
    return nbytes > STREAM_BYTES && nbytes > tdmi_cpu_own_cache();
}

/* Elements of one type. */
static void move(const tdmi_run *run, tdmi_buffer buffer, void *to, const void *from, size_t count)
{
    const tdm_dtype dtype = tdmi_work_dtype(run, buffer);
    if (to == from)
        return;
    if (streams(run, buffer))
        tdmi_reduce_tree(dtype, TDM_SUM, &from, 1, &to, 1, count, true);
    else
        memcpy(to, from, count * tdmi_dtype_bytes(dtype));
}

static void copy(const tdmi_run *run, const tdmi_step *step, size_t at, size_t count)
{
    const tdmi_call *call = &run->request.call;
    const tdm_dtype from = tdmi_work_dtype(run, step->src.buffer), to = tdmi_work_dtype(run, step->dst.buffer);
    const char *src = own_address(run, step->src, at);
    char *dst = own_address(run, step->dst, at);
    if (from == to) {
        move(run, step->dst.buffer, dst, src, count);
    } else if (to == call->dtype) {
        tdmi_reduce_finish(call->dtype, TDM_SUM, 1, src, dst, count); /* rounds */
    } else {
        tdmi_reduce_widen(call->dtype, call->op, src, dst, count);
    }
}

static void reduce(const tdmi_run *run, const tdmi_step *step, size_t at, size_t count)
{
    char *dst = own_address(run, step->dst, at), *src = own_address(run, step->src, at);
    tdmi_reduce_pair(tdmi_work_dtype(run, step->dst.buffer), run->request.call.op, step->received_first ? src : dst,
                     step->received_first ? dst : src, dst, count);
}

/* Where the source of a COPY_FROM starts. */
static size_t first_of(const tdmi_run *run, const tdmi_step *step)
{
    if (step->src.first != TDMI_PART_FOR_ME)
        return step->src.first;
    const tdmi_row *rows = (const tdmi_row *)(void *)run->peer_rows[step->from];
    return (size_t)rows[run->team->rank].first;
}

/* Whether a peer's buffer is not mapped here, but only to be read from its process. */
static bool is_far(const tdmi_run *run, int rank, tdmi_buffer buffer)
{
    return (buffer == TDMI_BUFFER_IN && run->is_far[rank]) || (buffer == TDMI_BUFFER_OUT && run->is_far[run->team->n + rank]);
}

static tdm_status read_far(const tdmi_run *run, int rank, void *to, const void *from, size_t nbytes)
{
    return tdmi_node_read(run->team->node, run->team->world_rank[rank], to, from, nbytes);
}

/* A leaf of a sum: where its elements are, or a copy of them if they are far. */
static tdm_status find_leaf(const tdmi_run *run, const tdmi_step *reduce, int rank, size_t at, size_t count, const void **out)
{
    if (rank == run->team->rank && reduce->own.count > 0) {
        *out = own_address(run, reduce->own, at);
        return TDM_OK;
    }
    *out = address(run, rank, reduce->src.buffer, reduce->src.first + at);
    if (!is_far(run, rank, reduce->src.buffer))
        return TDM_OK;
    char *tile = run->far + (size_t)rank * TDMI_FAR_BYTES;
    const void *from = *out;
    *out = tile;
    return read_far(run, rank, tile, from, count * tdmi_dtype_bytes(run->request.call.dtype));
}

/* What is written, with a step that reads it, over what this rank has read of STAGE; NULL: nothing. */
static const void *refill_of(const tdmi_run *run, const tdmi_step *reader, size_t at)
{
    const tdmi_step *refill = reader->kind == TDMI_STEP_REDUCE_FROM ? reader + 2 : reader + 1;
    return reader->refilled ? own_address(run, refill->src, at) : NULL;
}

static tdm_status reduce_leaves(const tdmi_run *run, const tdmi_step *reduce, const tdmi_step *give, size_t at, size_t count)
{
    const tdmi_team *team = run->team;
    const tdmi_call *call = &run->request.call;
    const void *in[team->n];
    void *out[team->n], *used = NULL;
    int ins = 0, outs = 0;
    for (int r = 0; r < team->n; r++) {
        if (!tdmi_team_shares(team, r))
            continue;
        if (reduce->from < 0 || (r >= reduce->from && r < reduce->to)) {
            tdm_status status = find_leaf(run, reduce, r, at, count, &in[ins++]);
            if (status != TDM_OK)
                return status;
            if (reduce->src.buffer == TDMI_BUFFER_STAGE && r != team->rank)
                used = address(run, r, TDMI_BUFFER_STAGE, reduce->src.first + at);
        }
        if (give->to < 0 || give->to == r)
            out[outs++] = address(run, r, give->dst.buffer, give->dst.first + at);
    }
    if (give->dst.buffer == TDMI_BUFFER_ACC)
        tdmi_reduce_unfinished(call->dtype, call->op, in, ins, out[0], count);
    else if (ins == 2 && outs == 1 && used != NULL)
        tdmi_reduce_take(call->dtype, call->op, in, ins, out[0], used, refill_of(run, reduce, at), count,
                         streams(run, give->dst.buffer));
    else
        tdmi_reduce_tree(call->dtype, call->op, in, ins, out, outs, count, streams(run, give->dst.buffer));
    return TDM_OK;
}

static tdm_status reduce_to_all(const tdmi_run *run, const tdmi_step *reduce, const tdmi_step *give, size_t at, size_t count)
{
    const size_t tile = TDMI_FAR_BYTES >> tdmi_dtype_shift(run->request.call.dtype);
    bool far = false;
    for (int r = 0; r < run->team->n; r++)
        far = far || is_far(run, r, reduce->src.buffer);
    tdm_status status = TDM_OK;
    for (size_t done = 0, part; done < count && status == TDM_OK; done += part) {
        part = !far || count - done < tile ? count - done : tile;
        status = reduce_leaves(run, reduce, give, at + done, part);
    }
    return status;
}

static void reduce_to_epilogue(const tdmi_run *run, const tdmi_step *reduce, size_t at, size_t count)
{
    const tdmi_team *team = run->team;
    const tdmi_call *call = &run->request.call;
    const size_t size = tdmi_dtype_bytes(call->dtype), tile_count = TILE_BYTES / size;
    _Alignas(64) char tile[TILE_BYTES];
    void *out = tile;
    for (size_t done = 0; done < count; done += tile_count) {
        const size_t part = count - done < tile_count ? count - done : tile_count;
        const size_t first = reduce->src.first + at + done;
        const void *in[team->n];
        for (int r = 0; r < team->n; r++)
            in[r] = address(run, r, reduce->src.buffer, first);
        tdmi_reduce_tree(call->dtype, call->op, in, team->n, &out, 1, part, false);
        run->request.epilogue(run->request.epilogue_arg, first, part, tile);
    }
}

static tdm_status copy_from(const tdmi_run *run, const tdmi_step *step, size_t at, size_t count)
{
    char *src = address(run, step->from, step->src.buffer, first_of(run, step) + at), *dst = own_address(run, step->dst, at);
    if (is_far(run, step->from, step->src.buffer))
        return read_far(run, step->from, dst, src, count * tdmi_dtype_bytes(run->request.call.dtype));
    if (step->src.buffer == TDMI_BUFFER_STAGE)
        tdmi_reduce_take(run->request.call.dtype, TDM_SUM, (const void *[]){src}, 1, dst, src, refill_of(run, step, at), count,
                         streams(run, step->dst.buffer));
    else
        move(run, step->dst.buffer, dst, src, count); /* which is the own part in place if they are equal */
    return TDM_OK;
}

static void refill(const tdmi_run *run, const tdmi_step *step, size_t at, size_t count)
{
    memcpy(address(run, step->to, step->dst.buffer, step->dst.first + at), own_address(run, step->src, at),
           count * tdmi_dtype_bytes(run->request.call.dtype));
}

static tdm_status work(const tdmi_run *run, const tdmi_step *step, size_t at, size_t count)
{
    const tdmi_call *call = &run->request.call;
    switch (step->kind) {
    case TDMI_STEP_COPY: copy(run, step, at, count); break;
    case TDMI_STEP_REDUCE: reduce(run, step, at, count); break;
    case TDMI_STEP_FINISH:
        tdmi_reduce_finish(call->dtype, call->op, run->team->n, own_address(run, step->src, at), own_address(run, step->dst, at),
                           count);
        break;
    case TDMI_STEP_REDUCE_FROM:
        if (!tdmi_run_hands_on(run))
            return reduce_to_all(run, step, step + 1, at, count);
        reduce_to_epilogue(run, step, at, count);
        break;
    case TDMI_STEP_COPY_FROM: return copy_from(run, step, at, count);
    case TDMI_STEP_REFILL: refill(run, step, at, count); break;
    default: break; /* COPY_TO went with its REDUCE_FROM; the others are no work */
    }
    return TDM_OK;
}

/* Every other call goes through memory from its end: what the last one left in the cache, or whoever filled the buffer, is then used
 * before it is pushed out. 4 MiB of two ranks, twice what a core's own cache holds: a quarter less time. Not where somebody hears
 * of the pieces in turn, nor out of STAGE, which is in pieces already, nor where a piece is a system call; copies whose stores pass by
 * the cache are better off forwards. */
static bool goes_back(const tdmi_run *run, const tdmi_step *step)
{
    return run->number % 2 == 0 && step->src.buffer != TDMI_BUFFER_STAGE &&
           ((step->kind == TDMI_STEP_REDUCE_FROM && !tdmi_run_hands_on(run)) ||
            (step->kind == TDMI_STEP_COPY_FROM && !streams(run, step->dst.buffer) && !is_far(run, step->from, step->src.buffer)));
}

tdm_status tdmi_work_step(tdmi_run *run, const tdmi_step *step, bool *done)
{
    const unsigned shift = tdmi_dtype_shift(run->request.call.dtype);
    const size_t total = step->src.count, left = total - run->at;
    size_t count = left < PIECE_BYTES >> shift ? left : PIECE_BYTES >> shift;
    tdm_status status = TDM_OK;
    if (left > 0 && goes_back(run, step)) {
        const size_t strip = BACK_BYTES >> shift, least = count;
        for (count = 0; count < least && status == TDM_OK;) {
            const size_t end = left - count, part = (end - 1) % strip + 1;
            status = work(run, step, end - part, part);
            count += part;
        }
    } else {
        status = work(run, step, run->at, count);
    }
    run->at += count;
    *done = run->at == total;
    return status;
}
