/* lanes.c - the cut into lanes and pieces, the way through STAGE, and lists along a lane. */
#include "coll/lanes.h"

#define SEGMENT_BYTES ((size_t)256 << 10) /* of all lanes in STAGE at a time; there are two */
#define PIECE_BYTES ((size_t)1 << 20)     /* of what a leader sends and receives: a shorter one would wait for messages */
#define PIECES_MAX 8 /* more would win little, but wait for more messages */
#define LANE_BYTES ((size_t)4 << 10)      /* a shorter slice is not worth a lane */

static size_t pieces_of(size_t nbytes)
{
    const size_t pieces = nbytes / PIECE_BYTES;
    return pieces < 1 ? 1 : pieces > PIECES_MAX ? PIECES_MAX : pieces;
}

tdmi_lanes tdmi_lanes_of(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology, size_t data, int blocks)
{
    tdmi_lanes w = {.s = s, .call = call, .layout = tdmi_layout_of(topology), .pieces = 1};
    const size_t size = tdm_dtype_size(call->dtype), wanted = data / (size_t)blocks * size / LANE_BYTES + 1;
    w.count = wanted < (size_t)w.layout.smallest ? (int)wanted : w.layout.smallest;
    w.length = SEGMENT_BYTES / size / (size_t)w.count;
    w.length = w.length > 0 ? w.length : 1;
    if (w.layout.nodes > 1)
        w.pieces = pieces_of(data * size / (size_t)w.count);
    return w;
}

bool tdmi_lanes_leads(const tdmi_lanes *w)
{
    return w->layout.index < w->count;
}

int tdmi_lanes_leader(const tdmi_lanes *w, int lane)
{
    return tdmi_layout_rank(&w->layout, w->layout.node, lane);
}

int tdmi_lanes_peer(const tdmi_lanes *w, int node)
{
    return tdmi_layout_rank(&w->layout, node, w->layout.index);
}

/* ---- blocks, slices, pieces, stretches ---- */

tdmi_range tdmi_lanes_window(const tdmi_lanes *w, int block, int lane, size_t piece)
{
    const tdmi_parts *p = &w->parts;
    const size_t begin = p->at[p->first[block]], end = p->at[p->first[block + 1]];
    const tdmi_range slice = tdmi_chunk(TDMI_BUFFER_OUT, end - begin, w->count, lane);
    tdmi_range window = tdmi_chunk(TDMI_BUFFER_OUT, slice.count, (int)w->pieces, (int)piece);
    window.first += begin + slice.first;
    return window;
}

size_t tdmi_lanes_before(const tdmi_lanes *w, int block, int lane, size_t piece)
{
    size_t sum = 0;
    for (int b = 0; b < block; b++)
        sum += tdmi_lanes_window(w, b, lane, piece).count;
    return sum;
}

static bool is_picked(const tdmi_lanes *w, tdmi_blocks blocks, int block)
{
    return blocks == TDMI_BLOCKS_ALL || (blocks == TDMI_BLOCKS_OWN) == (block == w->layout.node);
}

/* What there is from element `begin` of all parts on, in this block and before `end`. */
static tdmi_stretch stretch_from(const tdmi_lanes *w, int block, size_t begin, size_t end)
{
    const tdmi_parts *p = &w->parts;
    int part = p->first[block];
    while (p->at[part + 1] <= begin)
        part++;
    const size_t in_part = begin - p->at[part];
    size_t count = (p->at[part + 1] < end ? p->at[part + 1] : end) - begin;
    if (p->grain > 0 && count > p->grain - in_part % p->grain)
        count = p->grain - in_part % p->grain;
    return (tdmi_stretch){.block = block, .rank = p->rank[part], .in_part = in_part, .count = count};
}

bool tdmi_lanes_stretch(const tdmi_lanes *w, tdmi_blocks blocks, int lane, size_t piece, size_t segment, size_t at, tdmi_stretch *out)
{
    size_t skip = segment * w->length + at; /* of what is picked */
    if (at >= w->length)
        return false;
    for (int b = 0; b < w->parts.blocks; b++) {
        const tdmi_range window = tdmi_lanes_window(w, b, lane, piece);
        if (!is_picked(w, blocks, b))
            continue;
        if (skip < window.count) {
            const size_t left = window.count - skip, room = w->length - at;
            *out = stretch_from(w, b, window.first + skip, window.first + skip + (left < room ? left : room));
            out->in_window = skip;
            return true;
        }
        skip -= window.count;
    }
    return false;
}

size_t tdmi_lanes_segments(const tdmi_lanes *w, tdmi_blocks blocks, size_t piece)
{
    size_t longest = 0;
    for (int lane = 0; lane < w->count; lane++) {
        size_t sum = 0;
        for (int b = 0; b < w->parts.blocks; b++)
            sum += is_picked(w, blocks, b) ? tdmi_lanes_window(w, b, lane, piece).count : 0;
        longest = sum > longest ? sum : longest;
    }
    return (longest + w->length - 1) / w->length;
}

/* ---- inside a node ---- */

tdmi_range tdmi_lanes_stage(const tdmi_lanes *w, int lane, size_t at, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_STAGE, (w->meetings % 2 * (size_t)w->count + (size_t)lane) * w->length + at, count);
}

void tdmi_lanes_meet(tdmi_lanes *w)
{
    w->s->stage_count = 2 * (size_t)w->count * w->length;
    tdmi_steps_meet(w->s);
    w->meetings++;
}

static void put(const tdmi_lanes *w, tdmi_range src, tdmi_range dst)
{
    if (src.buffer == TDMI_BUFFER_ACC && tdmi_coll_reduces(w->call->coll))
        tdmi_steps_finish(w->s, w->call, src, dst);
    else if (src.buffer != dst.buffer || src.first != dst.first)
        tdmi_steps_copy(w->s, src, dst);
}

/* Whether anything goes from one rank to another: all ranks of the node must see it alike. */
static bool must_meet(const tdmi_lanes *w, tdmi_blocks blocks, size_t piece, tdmi_flow_of *flow_of, const void *arg)
{
    tdmi_stretch st;
    for (size_t k = 0; k < tdmi_lanes_segments(w, blocks, piece) && w->layout.local > 1; k++)
        for (int lane = 0; lane < w->count; lane++)
            for (size_t at = 0; tdmi_lanes_stretch(w, blocks, lane, piece, k, at, &st); at += st.count) {
                const tdmi_flow flow = flow_of(w, lane, &st, arg);
                if (flow.to != flow.from)
                    return true;
            }
    return false;
}

void tdmi_lanes_move(tdmi_lanes *w, tdmi_blocks blocks, size_t piece, tdmi_flow_of *flow_of, const void *arg)
{
    const bool meets = must_meet(w, blocks, piece, flow_of, arg);
    const int rank = w->layout.topology->rank;
    tdmi_stretch st;
    for (size_t k = 0; k < tdmi_lanes_segments(w, blocks, piece); k++) {
        const tdmi_lanes before = *w;
        for (int lane = 0; lane < w->count; lane++)
            for (size_t at = 0; tdmi_lanes_stretch(w, blocks, lane, piece, k, at, &st); at += st.count) {
                const tdmi_flow flow = flow_of(w, lane, &st, arg);
                if (flow.from == rank && flow.to != rank && meets)
                    put(w, flow.src, tdmi_lanes_stage(w, lane, at, st.count));
                if (flow.from == rank && (flow.to == rank || flow.to < 0))
                    put(w, flow.src, flow.dst);
            }
        if (!meets)
            continue;
        tdmi_lanes_meet(w);
        for (int lane = 0; lane < w->count; lane++)
            for (size_t at = 0; tdmi_lanes_stretch(w, blocks, lane, piece, k, at, &st); at += st.count) {
                const tdmi_flow flow = flow_of(w, lane, &st, arg);
                if (flow.from != rank && (flow.to == rank || flow.to < 0))
                    tdmi_steps_copy_from(w->s, flow.from, tdmi_lanes_stage(&before, lane, at, st.count), flow.dst);
            }
    }
}

/* ---- between nodes ---- */

void tdmi_lanes_need(tdmi_lanes *w, size_t acc)
{
    w->s->acc_count = acc > w->s->acc_count ? acc : w->s->acc_count;
}

static void place(const tdmi_along *along, tdmi_range *range)
{
    if (range->buffer == TDMI_BUFFER_ACC) {
        range->first += along->acc;
    } else {
        range->buffer = along->data.buffer;
        range->first += along->data.first;
    }
}

void tdmi_lanes_along(tdmi_lanes *w, const tdmi_along *along)
{
    const tdmi_topology nodes = tdmi_layout_lane(&w->layout);
    tdmi_steps list = {0};
    along->algorithm->steps(&list, along->call, &nodes);
    for (size_t i = 0; i < list.count; i++) {
        tdmi_step step = list.step[i];
        if ((step.kind == TDMI_STEP_COPY && step.src.buffer == TDMI_BUFFER_IN) || (step.kind == TDMI_STEP_FINISH && !along->finishes))
            continue;
        step.to = step.to < 0 ? -1 : tdmi_lanes_peer(w, step.to);
        step.from = step.from < 0 ? -1 : tdmi_lanes_peer(w, step.from);
        step.leaf = false; /* what a node gives is a sum */
        place(along, &step.src);
        place(along, &step.dst);
        tdmi_steps_add(w->s, step);
    }
    if (list.status != TDM_OK)
        w->s->status = list.status;
    tdmi_lanes_need(w, along->acc + list.acc_count);
    tdmi_steps_free(&list);
}
