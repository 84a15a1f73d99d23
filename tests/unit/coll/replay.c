/* replay.c - a small machine for step lists. */
#include "replay.h"

#include "coll/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
    struct message *next;
    size_t nbytes;
    unsigned char data[];
} message;

/* Who touched which bytes when: how often the rank had published, and what it had met of each rank. */
typedef struct touch {
    const unsigned char *begin, *end;
    int rank, published, *met; /* [n] */
    bool writes;
} touch;

typedef struct rank_state {
    int rank, call, published;
    int *met; /* [n] how often each rank had published when this one last met it */
    size_t step, back, awaited; /* up to here nothing of the background is left; nor may it be, by the list */
    bool posted, received, taken; /* of the exchange under way */
    tdmi_steps list;
    unsigned char *acc, *stage, *slot; /* stage: two blocks in turn; slot: one a call */
    int rotation[2];            /* of each turn */
    const replay_buffers *buffers; /* of the call under way; peers see them once published */
    const replay_buffers *seen;
} rank_state;

typedef struct machine {
    const tdmi_call *call; /* of rank 0: what all have in common */
    const tdmi_call *of_rank;
    int n, calls;
    const int *node;
    const replay_buffers *buffers;
    rank_state *ranks;
    message **links; /* [from * n + to] heads of queues */
    bool races;
    bool lazy; /* the background goes on only when nothing else can */
    touch *touches;
    size_t touch_count, touch_capacity;
    char failure[512];
} machine;

static char failure_text[512];

size_t replay_in_bytes(const tdmi_call *call, int rank, int n)
{
    return tdmi_call_in_count(call, rank, n) * tdm_dtype_size(call->dtype);
}

size_t replay_out_bytes(const tdmi_call *call, int rank, int n)
{
    return tdmi_call_out_count(call, rank, n) * tdm_dtype_size(call->dtype);
}

#define FAIL(m, ...)                                                                                                   \
    do {                                                                                                               \
        if ((m)->failure[0] == '\0')                                                                                   \
            snprintf((m)->failure, sizeof(m)->failure, __VA_ARGS__);                                                   \
    } while (0)

static tdm_dtype acc_dtype(const machine *m)
{
    return tdmi_call_acc_dtype(m->call);
}

static tdm_dtype dtype_of(const machine *m, tdmi_buffer buffer)
{
    return buffer == TDMI_BUFFER_ACC ? acc_dtype(m) : m->call->dtype;
}

/* Whether ranks are on one node. */
static bool shares(const machine *m, int a, int b)
{
    return m->node == NULL || m->node[a] == m->node[b];
}

static void note(machine *m, const rank_state *r, const void *begin, size_t nbytes, bool writes)
{
    if (!m->races || nbytes == 0)
        return;
    if (m->touch_count == m->touch_capacity) {
        m->touch_capacity = m->touch_capacity == 0 ? 1024 : 2 * m->touch_capacity;
        m->touches = realloc(m->touches, m->touch_capacity * sizeof *m->touches);
    }
    int *met = memcpy(malloc((size_t)m->n * sizeof *met), r->met, (size_t)m->n * sizeof *met);
    m->touches[m->touch_count++] = (touch){.begin = begin, .end = (const unsigned char *)begin + nbytes, .rank = r->rank,
                                           .published = r->published, .met = met, .writes = writes};
}

/* The bytes of a range in `owner`'s buffers, as `user` sees them; NULL and a failure where it leaves the buffer. */
static unsigned char *locate(machine *m, const rank_state *user, const rank_state *owner, tdmi_range range)
{
    const size_t size = tdm_dtype_size(dtype_of(m, range.buffer));
    const replay_buffers *buffers = user == owner ? owner->buffers : owner->seen;
    unsigned char *base = NULL;
    size_t limit = 0;
    switch (range.buffer) {
    case TDMI_BUFFER_IN: base = buffers->in, limit = replay_in_bytes(&m->of_rank[owner->rank], owner->rank, m->n); break;
    case TDMI_BUFFER_OUT: base = buffers->out, limit = replay_out_bytes(&m->of_rank[owner->rank], owner->rank, m->n); break;
    case TDMI_BUFFER_ACC: base = owner->acc, limit = owner->list.acc_count * size; break;
    case TDMI_BUFFER_SLOT:
        limit = TDMI_EAGER_BYTES;
        base = owner->slot + (size_t)user->call * limit;
        break;
    case TDMI_BUFFER_STAGE:
        limit = owner->list.stage_count * size;
        base = m->ranks[(owner->rank + user->rotation[user->call % 2]) % m->n].stage + (size_t)(user->call % 2) * limit;
    }
    if (!shares(m, user->rank, owner->rank)) {
        FAIL(m, "rank %d step %zu reaches into rank %d on another node", user->rank, user->step, owner->rank);
        return NULL;
    }
    if (range.count * size > limit || range.first * size > limit - range.count * size) {
        FAIL(m, "rank %d step %zu leaves buffer %d of rank %d: %zu + %zu elements of %zu bytes, limit %zu", user->rank, user->step,
             range.buffer, owner->rank, range.first, range.count, size, limit);
        return NULL;
    }
    return base + range.first * size;
}

/* The same for bytes that are read or written now. */
static unsigned char *reach(machine *m, const rank_state *user, const rank_state *owner, tdmi_range range, bool writes)
{
    unsigned char *bytes = locate(m, user, owner, range);
    if (bytes != NULL)
        note(m, user, bytes, range.count * tdm_dtype_size(dtype_of(m, range.buffer)), writes);
    return bytes;
}

static void copy(machine *m, const rank_state *r, const tdmi_step *step)
{
    if (step->kind == TDMI_STEP_COPY && locate(m, r, r, step->src) == locate(m, r, r, step->dst))
        return; /* in place: there is nothing to do */
    void *from = reach(m, r, r, step->src, false), *to = reach(m, r, r, step->dst, true);
    if (from == NULL || to == NULL)
        return;
    if (step->src.count != step->dst.count)
        FAIL(m, "rank %d step %zu copies %zu elements to %zu", r->rank, r->step, step->src.count, step->dst.count);
    else if (step->kind == TDMI_STEP_FINISH)
        tdmi_reduce_finish(m->call->dtype, m->call->op, m->n, from, to, step->src.count);
    else if (dtype_of(m, step->src.buffer) == dtype_of(m, step->dst.buffer))
        memmove(to, from, step->src.count * tdm_dtype_size(dtype_of(m, step->src.buffer)));
    else if (step->dst.buffer == TDMI_BUFFER_ACC)
        tdmi_reduce_widen(m->call->dtype, m->call->op, from, to, step->src.count);
    else
        FAIL(m, "rank %d step %zu narrows without finishing", r->rank, r->step);
}

static void reduce(machine *m, const rank_state *r, const tdmi_step *step)
{
    unsigned char *src = reach(m, r, r, step->src, false), *dst = reach(m, r, r, step->dst, true);
    if (src == NULL || dst == NULL)
        return;
    if (step->src.count != step->dst.count || dtype_of(m, step->src.buffer) != acc_dtype(m) ||
        dtype_of(m, step->dst.buffer) != acc_dtype(m))
        FAIL(m, "rank %d step %zu reduces what is not alike", r->rank, r->step);
    else
        tdmi_reduce_pair(acc_dtype(m), m->call->op, step->received_first ? src : dst, step->received_first ? dst : src, dst,
                         step->src.count);
}

static void copy_from(machine *m, rank_state *r, const tdmi_step *step)
{
    const rank_state *peer = &m->ranks[step->from];
    tdmi_range src = step->src;
    if (src.first == TDMI_PART_FOR_ME) {
        const tdmi_range theirs = tdmi_call_in_part(&m->of_rank[step->from], r->rank);
        src.first = theirs.first;
        if (theirs.count != src.count)
            FAIL(m, "rank %d step %zu expects %zu elements of rank %d, which has %zu for it", r->rank, r->step, src.count,
                 step->from, theirs.count);
    }
    if (peer == r && locate(m, r, r, src) == locate(m, r, r, step->dst))
        return;
    void *from = reach(m, r, peer, src, false), *to = reach(m, r, r, step->dst, true);
    if (from != NULL && to != NULL)
        memcpy(to, from, src.count * tdm_dtype_size(m->call->dtype));
}

static void reduce_from(machine *m, rank_state *r, const tdmi_step *step)
{
    const tdmi_step *next = step + 1;
    const void **in = malloc((size_t)m->n * sizeof *in);
    void **out = malloc((size_t)m->n * sizeof *out);
    if (r->step + 1 >= r->list.count || next->kind != TDMI_STEP_COPY_TO || next->dst.count != step->src.count) {
        FAIL(m, "rank %d step %zu: no COPY_TO of the same count behind REDUCE_FROM", r->rank, r->step);
        goto done;
    }
    if (step->own.count > 0 && step->own.count != step->src.count)
        FAIL(m, "rank %d step %zu reduces %zu elements with %zu own", r->rank, r->step, step->src.count, step->own.count);
    int ins = 0, outs = 0;
    for (int p = 0; p < m->n && m->failure[0] == '\0'; p++) {
        if (!shares(m, p, r->rank))
            continue;
        if (step->from < 0 || (p >= step->from && p < step->to))
            in[ins++] = p == r->rank && step->own.count > 0 ? reach(m, r, r, step->own, false)
                                                            : reach(m, r, &m->ranks[p], step->src, false);
        if (next->to == -1 || next->to == p)
            out[outs++] = reach(m, r, &m->ranks[p], next->dst, true);
    }
    if (next->dst.buffer == TDMI_BUFFER_ACC && next->to != r->rank)
        FAIL(m, "rank %d step %zu writes into the ACC of others", r->rank, r->step);
    if (m->failure[0] == '\0' && next->dst.buffer == TDMI_BUFFER_ACC)
        tdmi_reduce_unfinished(m->call->dtype, m->call->op, in, ins, out[0], step->src.count);
    else if (m->failure[0] == '\0')
        tdmi_reduce_tree(m->call->dtype, m->call->op, in, ins, out, outs, step->src.count, false);
    r->step++; /* the COPY_TO is done with it */
done:
    free(in);
    free(out);
}

static void refill(machine *m, const rank_state *r, const tdmi_step *step)
{
    void *from = reach(m, r, r, step->src, false), *to = reach(m, r, &m->ranks[step->to], step->dst, true);
    if (step->src.count != step->dst.count || step->dst.buffer != TDMI_BUFFER_STAGE)
        FAIL(m, "rank %d step %zu refills what is not alike", r->rank, r->step);
    else if (from != NULL && to != NULL)
        memcpy(to, from, step->src.count * tdm_dtype_size(m->call->dtype));
}

static void post(machine *m, rank_state *r, const tdmi_step *step)
{
    size_t nbytes = step->src.count * tdm_dtype_size(dtype_of(m, step->src.buffer));
    message *sent = malloc(sizeof *sent + nbytes), **tail = &m->links[r->rank * m->n + step->to];
    void *from = reach(m, r, r, step->src, false);
    if (from == NULL) {
        free(sent);
        return;
    }
    sent->next = NULL;
    sent->nbytes = nbytes;
    memcpy(sent->data, from, nbytes);
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = sent;
}

static void take(machine *m, rank_state *r, const tdmi_step *step)
{
    message **head = &m->links[step->from * m->n + r->rank], *got = *head;
    const tdm_dtype dtype = dtype_of(m, step->dst.buffer);
    void *to = reach(m, r, r, step->dst, true);
    if (to == NULL)
        return;
    const tdm_dtype wire = step->leaf ? m->call->dtype : dtype;
    if (got->nbytes != step->dst.count * tdm_dtype_size(wire)) {
        FAIL(m, "rank %d step %zu expects %zu bytes of rank %d, which sent %zu", r->rank, r->step,
             step->dst.count * tdm_dtype_size(wire), step->from, got->nbytes);
        return;
    }
    unsigned char *came = malloc(step->dst.count * tdm_dtype_size(dtype) + 1);
    if (wire != dtype)
        tdmi_reduce_widen(wire, m->call->op, got->data, came, step->dst.count);
    else
        memcpy(came, got->data, got->nbytes);
    if (step->kind == TDMI_STEP_EXCHANGE)
        memcpy(to, came, step->dst.count * tdm_dtype_size(dtype));
    else
        tdmi_reduce_pair(dtype, m->call->op, step->received_first ? came : to, step->received_first ? to : came, to,
                         step->dst.count);
    free(came);
    *head = got->next;
    free(got);
    m->ranks[step->from].taken = true;
}

/* What is sent may change only when it is sent, so it is not where received data goes. */
static bool lie_apart(tdmi_range a, tdmi_range b)
{
    return a.buffer != b.buffer || a.count == 0 || b.count == 0 || a.first + a.count <= b.first || b.first + b.count <= a.first;
}

/* One exchange as far as it goes; true when it is over. */
static bool exchange(machine *m, rank_state *r, const tdmi_step *step)
{
    if (step->to >= 0 && step->from >= 0 && !lie_apart(step->src, step->dst))
        FAIL(m, "rank %d step %zu receives into what it sends", r->rank, r->step);
    if (!r->posted) {
        r->posted = true;
        r->taken = step->to < 0;
        r->received = step->from < 0;
        if (step->to >= 0)
            post(m, r, step);
    }
    if (!r->received && m->links[step->from * m->n + r->rank] != NULL) {
        take(m, r, step);
        r->received = true;
    }
    if (!r->taken || !r->received)
        return false;
    r->posted = false;
    return true;
}

static bool met(const machine *m, rank_state *r, int from, int behind)
{
    for (int p = 0; p < m->n; p++)
        if (shares(m, p, r->rank) && (from < 0 || p == from) && m->ranks[p].published < r->published - behind)
            return false;
    for (int p = 0; p < m->n; p++)
        if (shares(m, p, r->rank) && (from < 0 || p == from))
            r->met[p] = r->published - behind;
    return true;
}

/* The caller reads and writes its buffers around a call. */
static void caller(machine *m, const rank_state *r, bool writes)
{
    note(m, r, r->buffers->in, replay_in_bytes(&m->of_rank[r->rank], r->rank, m->n), writes);
    note(m, r, r->buffers->out, replay_out_bytes(&m->of_rank[r->rank], r->rank, m->n), writes);
}

static void begin_call(machine *m, rank_state *r)
{
    r->buffers = &m->buffers[r->call * m->n + r->rank];
    r->step = r->back = r->awaited = 0;
    memset(r->acc, 0xa5, r->list.acc_count * tdm_dtype_size(acc_dtype(m)));
    caller(m, r, true);
}

static bool is_exchange(const tdmi_step *step)
{
    return step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE;
}

/* The first step of the background that was reached and is not over; NULL: there is none. */
static const tdmi_step *background(rank_state *r)
{
    while (r->back < r->step && !r->list.step[r->back].background)
        r->back++;
    return r->back < r->step ? &r->list.step[r->back] : NULL;
}

static bool overlap(machine *m, const rank_state *r, tdmi_range a, tdmi_range b)
{
    if (a.count == 0 || b.count == 0)
        return false;
    const unsigned char *x = locate(m, r, r, a), *y = locate(m, r, r, b);
    return x != NULL && y != NULL && x < y + b.count * tdm_dtype_size(dtype_of(m, b.buffer)) &&
           y < x + a.count * tdm_dtype_size(dtype_of(m, a.buffer));
}

/* What a step reads and writes of this rank's own. */
static tdmi_range read_by(const rank_state *r, const tdmi_step *step)
{
    static const tdmi_range nothing;
    if (step->kind == TDMI_STEP_REDUCE_FROM)
        return step->own;
    return (step->kind == TDMI_STEP_COPY_FROM && step->from != r->rank) || (is_exchange(step) && step->to < 0) ? nothing : step->src;
}

static tdmi_range written_by(const tdmi_step *step)
{
    static const tdmi_range nothing;
    if (step->kind == TDMI_STEP_REDUCE_FROM)
        return (step + 1)->dst;
    return is_exchange(step) && step->from < 0 ? nothing : step->dst;
}

/* A step may not touch what the background may still have to do with, even if by chance it is over. */
static void keep_apart(machine *m, rank_state *r, const tdmi_step *step)
{
    if (step->kind == TDMI_STEP_AWAIT && r->awaited < step->src.first)
        r->awaited = step->src.first;
    if (step->kind == TDMI_STEP_AWAIT || step->kind == TDMI_STEP_PUBLISH || step->kind == TDMI_STEP_MEET || step->kind == TDMI_STEP_ROTATE)
        return;
    for (size_t i = r->awaited; i < r->step; i++) {
        const tdmi_step *other = &r->list.step[i];
        if (other->background &&
            (overlap(m, r, written_by(step), written_by(other)) || overlap(m, r, written_by(step), read_by(r, other)) ||
             overlap(m, r, read_by(r, step), written_by(other))))
            FAIL(m, "rank %d step %zu touches what step %zu in the background does", r->rank, r->step, i);
    }
}

/* Takes one step that is not in the background, as far as it goes; *moved: not even that. True when it is over. */
static bool take_step(machine *m, rank_state *r, const tdmi_step *step, bool *moved)
{
    switch (step->kind) {
    case TDMI_STEP_COPY:
    case TDMI_STEP_FINISH: copy(m, r, step); break;
    case TDMI_STEP_REDUCE: reduce(m, r, step); break;
    case TDMI_STEP_EXCHANGE:
    case TDMI_STEP_EXCHANGE_REDUCE: {
        const bool was_posted = r->posted, was_received = r->received, over = exchange(m, r, step);
        *moved = over || was_posted != r->posted || was_received != r->received;
        return over;
    }
    case TDMI_STEP_PUBLISH:
        r->published++;
        r->seen = r->buffers;
        break;
    case TDMI_STEP_MEET:
        *moved = met(m, r, step->from, (int)step->behind);
        return *moved;
    case TDMI_STEP_AWAIT: *moved = background(r) == NULL || r->back >= step->src.first; return *moved;
    case TDMI_STEP_REDUCE_FROM: reduce_from(m, r, step); break;
    case TDMI_STEP_COPY_FROM: copy_from(m, r, step); break;
    case TDMI_STEP_REFILL: refill(m, r, step); break;
    case TDMI_STEP_ROTATE: r->rotation[r->call % 2]++; break;
    case TDMI_STEP_COPY_TO: FAIL(m, "rank %d step %zu: COPY_TO without REDUCE_FROM", r->rank, r->step);
    }
    return true;
}

static bool advance_background(machine *m, rank_state *r)
{
    const tdmi_step *step = background(r);
    bool moved = true;
    if (step == NULL)
        return false;
    if (!is_exchange(step) && step->kind != TDMI_STEP_COPY && step->kind != TDMI_STEP_REDUCE && step->kind != TDMI_STEP_FINISH)
        FAIL(m, "rank %d step %zu is none for the background", r->rank, r->back);
    else if (take_step(m, r, step, &moved))
        r->back++;
    return moved;
}

/* Advances a rank by one step; false if it waits or is done. */
static bool advance(machine *m, rank_state *r)
{
    if (r->call == m->calls)
        return false;
    if (!m->lazy && advance_background(m, r))
        return true;
    if (r->step == r->list.count && background(r) != NULL)
        return advance_background(m, r);
    if (r->step == r->list.count) {
        caller(m, r, false);
        if (++r->call < m->calls)
            begin_call(m, r);
        return true;
    }
    const tdmi_step *step = &r->list.step[r->step];
    bool moved = true;
    if (step->background) {
        r->step++;
        return true;
    }
    if (is_exchange(step) && background(r) != NULL)
        return advance_background(m, r);
    if (is_exchange(step))
        r->awaited = r->step;
    keep_apart(m, r, step);
    if (take_step(m, r, step, &moved))
        r->step++;
    return moved || advance_background(m, r);
}

/* x comes before y if x's rank published afterwards and y's rank had met that. */
static bool before(const touch *x, const touch *y)
{
    return y->met[x->rank] > x->published;
}

static void look_for_races(machine *m)
{
    for (size_t i = 0; i < m->touch_count; i++)
        for (size_t j = i + 1; j < m->touch_count; j++) {
            const touch *x = &m->touches[i], *y = &m->touches[j];
            if (x->rank != y->rank && (x->writes || y->writes) && x->begin < y->end && y->begin < x->end && !before(x, y) &&
                !before(y, x)) {
                FAIL(m, "race: rank %d, published %d times, %s what rank %d, published %d times, %s", x->rank, x->published,
                     x->writes ? "writes" : "reads", y->rank, y->published, y->writes ? "writes" : "reads");
                return;
            }
        }
}

static void run(machine *m, unsigned seed)
{
    uint32_t random = seed * 2654435761u + 1;
    while (m->failure[0] == '\0') {
        bool moved = false, done = true;
        for (int k = 0; k < m->n; k++) {
            random = random * 1664525u + 1013904223u;
            rank_state *r = &m->ranks[seed == 0 ? k : (int)((random >> 8) % (unsigned)m->n)];
            int burst = seed == 0 ? 1 : (int)(random >> 28);
            for (int i = 0; i <= burst && m->failure[0] == '\0' && advance(m, r); i++)
                moved = true;
        }
        for (int k = 0; k < m->n && !moved; k++)
            moved = advance(m, &m->ranks[k]);
        for (int k = 0; k < m->n; k++)
            done = done && m->ranks[k].call == m->calls;
        if (done)
            break;
        if (!moved)
            for (int k = 0; k < m->n; k++)
                if (m->ranks[k].call < m->calls)
                    FAIL(m, "deadlock: rank %d stays at call %d step %zu of %zu", k, m->ranks[k].call, m->ranks[k].step,
                         m->ranks[k].list.count);
    }
    for (int i = 0; i < m->n * m->n && m->failure[0] == '\0'; i++)
        if (m->links[i] != NULL)
            FAIL(m, "a message from rank %d to rank %d was never taken", i / m->n, i % m->n);
}

const char *replay(const tdmi_algorithm *algorithm, const tdmi_call *of_rank, const tdmi_topology *topology, int calls,
                   const replay_buffers *buffers, unsigned seed, bool races)
{
    const tdmi_call *call = of_rank;
    const int n = topology->n;
    machine m = {.call = call, .of_rank = of_rank, .n = n, .calls = calls, .node = topology->node, .buffers = buffers, .races = races,
                 .lazy = seed % 2 == 1};
    m.ranks = calloc((size_t)n, sizeof *m.ranks);
    m.links = calloc((size_t)(n * n), sizeof *m.links);
    for (int r = 0; r < n; r++) {
        rank_state *state = &m.ranks[r];
        state->rank = r;
        state->met = calloc((size_t)n, sizeof *state->met);
        tdmi_topology own = *topology;
        own.rank = r;
        state->list.backwards = seed % 2 == 1;
        algorithm->steps(&state->list, &of_rank[r], &own);
        if (state->list.status != TDM_OK)
            FAIL(&m, "the list of rank %d could not be made", r);
        if (state->list.stage_count * tdm_dtype_size(call->dtype) > TDMI_STAGE_BYTES)
            FAIL(&m, "rank %d needs %zu elements of STAGE", r, state->list.stage_count);
        state->acc = malloc(state->list.acc_count * tdm_dtype_size(acc_dtype(&m)) + 1);
        if (state->list.stage_count > 0)
            state->stage = malloc(2 * state->list.stage_count * tdm_dtype_size(call->dtype));
        state->slot = malloc((size_t)calls * TDMI_EAGER_BYTES);
        begin_call(&m, state);
    }
    run(&m, seed);
    if (m.failure[0] == '\0' && races)
        look_for_races(&m);
    for (int r = 0; r < n; r++) {
        tdmi_steps_free(&m.ranks[r].list);
        free(m.ranks[r].acc);
        free(m.ranks[r].stage);
        free(m.ranks[r].slot);
        free(m.ranks[r].met);
    }
    for (size_t i = 0; i < m.touch_count; i++)
        free(m.touches[i].met);
    for (int i = 0; i < n * n; i++)
        for (message *next; m.links[i] != NULL; m.links[i] = next) {
            next = m.links[i]->next;
            free(m.links[i]);
        }
    free(m.ranks);
    free(m.links);
    free(m.touches);
    snprintf(failure_text, sizeof failure_text, "%s", m.failure);
    return failure_text[0] != '\0' ? failure_text : NULL;
}
