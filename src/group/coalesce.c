/* coalesce.c - many small calls with one meeting: between tdm_coalesce_begin and tdm_coalesce_end calls that follow each other
 * and are alike but for their counts are packed into one, over one buffer.
 *
 *     allreduce a (3)   allreduce b (2)   allreduce c (1 MiB)   allreduce d (4)
 *     `-- one call of 5: [a a a b b] --'  `-- a call of its own   `-- one call of 4, which is d itself
 * Buffers with parts are packed part by part: [part 0 of a, part 0 of b, part 1 of a, ...]. What is alike and short follows from
 * the calls alone, so it is the same on all ranks; the packed call carries the number and a hash of the counts, which are
 * compared like everything else. A set keeps its memory for the next one.
 *
 * Threads: the owner of the group, as for calls; group.lock is taken by the calls underneath. */
#include "group/group.h"

#include "core/memory.h"

#include <string.h>

#define CALL_BYTES ((size_t)64 << 10)  /* of a call that is packed: longer ones gain less than the copy costs */
#define PACKED_BYTES ((size_t)1 << 20) /* of a packed call */
#define LINE_BYTES 128

/* Calls [first, first + count) of a set, made as one. */
typedef struct piece {
    size_t first, count;
    tdmi_call call;    /* packed */
    tdm_work *work;
    bool moved;        /* results are where the caller wants them */
    char *in, *out;    /* packed; in == out where the operation allows it. In `memory` */
    char *memory;      /* kept; in the arena where the ranks share memory */
    size_t nbytes;
} piece;

struct tdmi_set {
    tdmi_set *next;        /* in the group's list of idle sets */
    tdmi_set *next_made;   /* in the list of all sets the group ever made */
    tdm_group *group;
    tdmi_request *request; /* calls as they were made, of pieces that are packed */
    size_t request_count, request_capacity;
    piece *piece;
    size_t piece_count, piece_capacity;
    atomic_size_t left;    /* pieces that on_done waits for */
    tdm_done on_done;
    void *on_done_arg;
    tdm_status status;     /* of those that are over */
};

static tdmi_arena *arena_of(const tdm_group *group)
{
    return group->team.is_local && group->size > 1 ? tdmi_node_arena(group->world->node, group->world->rank) : NULL;
}

static void free_memory(const tdm_group *group, piece *p)
{
    if (p->memory != NULL && arena_of(group) != NULL)
        (void)tdmi_arena_give(arena_of(group), p->memory);
    else
        tdmi_free(p->memory);
    p->memory = NULL;
    p->nbytes = 0;
}

static tdm_status make_memory(const tdm_group *group, piece *p, size_t nbytes)
{
    if (nbytes <= p->nbytes)
        return TDM_OK;
    free_memory(group, p);
    void *block = NULL;
    tdm_status status = TDM_OK;
    if (arena_of(group) != NULL)
        status = tdmi_arena_take(arena_of(group), nbytes, &block);
    else if ((block = tdmi_aligned_alloc(LINE_BYTES, nbytes, "coalesced calls")) == NULL)
        status = TDM_ERR_NO_MEMORY;
    if (status != TDM_OK)
        return tdmi_fail_while(status, "making room for coalesced calls");
    p->memory = block;
    p->nbytes = nbytes;
    return TDM_OK;
}

/* ---- what is packed ---- */

static bool is_packable(const tdm_group *group, const tdmi_request *request)
{
    const tdmi_call *call = &request->call;
    return !call->uneven && call->coll != TDMI_COLL_BARRIER && (unsigned)call->op < TDM_OP_COUNT &&
           tdmi_call_bytes(call, group->size) <= CALL_BYTES;
}

static bool is_alike(const tdmi_call *a, const tdmi_call *b)
{
    return a->coll == b->coll && a->dtype == b->dtype && a->op == b->op && a->root == b->root;
}

static uint64_t hash_of(const tdmi_set *set, const piece *p)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < p->count; i++)
        hash = (hash ^ set->request[p->first + i].call.count) * 0x9e3779b97f4a7c15ull + i + 1;
    return hash;
}

/* Between the callers' buffers and the packed ones. */
static void move(const tdm_group *group, const tdmi_set *set, const piece *p, bool results)
{
    const int rank = group->rank, n = group->size;
    const tdmi_call *call = &p->call;
    const size_t size = tdm_dtype_size(call->dtype);
    const size_t whole = results ? tdmi_call_out_count(call, rank, n) : tdmi_call_in_count(call, rank, n);
    if (call->coll == TDMI_COLL_BROADCAST && (rank == call->root) == results)
        return; /* the root has the data, the others want it */
    const int parts = call->count > 0 ? (int)(whole / call->count) : 0;
    for (int part = 0; part < parts; part++) {
        char *packed = (results ? p->out : p->in) + (size_t)part * call->count * size;
        for (size_t i = 0; i < p->count; i++) {
            const tdmi_request *request = &set->request[p->first + i];
            const size_t nbytes = request->call.count * size, at = (size_t)part * nbytes;
            if (nbytes > 0 && results)
                memcpy((char *)request->out + at, packed, nbytes);
            else if (nbytes > 0)
                memcpy(packed, (const char *)request->in + at, nbytes);
            packed += nbytes;
        }
    }
}

static tdm_status lay_out(const tdm_group *group, piece *p)
{
    const size_t size = tdm_dtype_size(p->call.dtype);
    const size_t in = (tdmi_call_in_count(&p->call, group->rank, group->size) * size + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    const size_t out = tdmi_call_out_count(&p->call, group->rank, group->size) * size;
    const bool shared = p->call.coll == TDMI_COLL_ALLREDUCE || p->call.coll == TDMI_COLL_BROADCAST;
    tdm_status status = make_memory(group, p, shared ? in : in + out);
    p->in = p->memory;
    p->out = shared ? p->memory : p->memory + in;
    return status;
}

/* Starts the piece that is still open, if there is one. */
static tdm_status flush(tdm_group *group)
{
    tdmi_set *set = group->set;
    piece *p = set->piece_count > 0 ? &set->piece[set->piece_count - 1] : NULL;
    if (p == NULL || p->work != NULL)
        return TDM_OK;
    tdmi_request request = set->request[p->first];
    p->moved = p->count == 1;
    if (p->count > 1) {
        p->call.parts_hash = (uint64_t)p->count << 48 | hash_of(set, p) >> 16;
        tdm_status status = lay_out(group, p);
        if (status != TDM_OK) {
            set->piece_count--;
            return status;
        }
        move(group, set, p, false);
        request = (tdmi_request){.call = p->call, .in = p->in, .out = p->out};
    }
    tdm_status status = tdmi_group_call(group, &request, &p->work);
    if (status != TDM_OK)
        set->piece_count--;
    return status;
}

static tdm_status open_piece(tdmi_set *set, const tdmi_call *call)
{
    if (set->piece_count == set->piece_capacity) {
        const size_t capacity = set->piece_capacity == 0 ? 8 : 2 * set->piece_capacity;
        piece *grown = tdmi_realloc(set->piece, capacity * sizeof *grown, "coalesced calls");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        memset(grown + set->piece_capacity, 0, (capacity - set->piece_capacity) * sizeof *grown);
        set->piece = grown;
        set->piece_capacity = capacity;
    }
    piece *p = &set->piece[set->piece_count++];
    p->first = set->request_count;
    p->count = 0;
    p->work = NULL;
    p->call = *call;
    p->call.count = 0;
    return TDM_OK;
}

tdm_status tdmi_coalesce_add(tdm_group *group, const tdmi_request *request)
{
    tdmi_set *set = group->set;
    const tdmi_call *call = &request->call;
    const bool packable = is_packable(group, request);
    const piece *last = set->piece_count > 0 ? &set->piece[set->piece_count - 1] : NULL;
    tdm_status status = TDM_OK;
    if (set->request_count == set->request_capacity) {
        const size_t capacity = set->request_capacity == 0 ? 32 : 2 * set->request_capacity;
        tdmi_request *grown = tdmi_realloc(set->request, capacity * sizeof *grown, "coalesced calls");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        set->request = grown;
        set->request_capacity = capacity;
    }
    const bool joins = packable && last != NULL && last->work == NULL && is_alike(&last->call, call) &&
                       tdmi_call_bytes(&last->call, group->size) + tdmi_call_bytes(call, group->size) <= PACKED_BYTES;
    if (!joins) {
        status = flush(group);
        if (status == TDM_OK)
            status = open_piece(set, call);
    }
    if (status != TDM_OK)
        return status;
    piece *p = &set->piece[set->piece_count - 1];
    set->request[set->request_count++] = *request;
    p->count++;
    p->call.count += call->count;
    return packable ? TDM_OK : flush(group);
}

/* ---- the handle of a set ---- */

static void take_results(tdm_group *group, tdmi_set *set, piece *p)
{
    if (!p->moved)
        move(group, set, p, true);
    p->moved = true;
}

/* Waits for every piece; the first error counts. */
static tdm_status wait_all(tdm_group *group, tdmi_set *set)
{
    tdm_status first = TDM_OK;
    for (size_t i = 0; i < set->piece_count; i++) {
        tdm_status status = tdm_work_wait(set->piece[i].work);
        if (status == TDM_OK)
            take_results(group, set, &set->piece[i]);
        first = first == TDM_OK ? status : first;
    }
    return first;
}

static void give_back(tdm_group *group, tdmi_set *set)
{
    set->request_count = set->piece_count = 0;
    set->next = group->idle_sets;
    group->idle_sets = set;
}

tdm_status tdmi_set_wait(tdm_group *group, tdmi_set *set, bool keeps)
{
    tdm_status status = wait_all(group, set);
    if (!keeps)
        give_back(group, set);
    return status;
}

tdm_status tdmi_set_test(tdm_group *group, tdmi_set *set, bool *done)
{
    *done = true;
    for (size_t i = 0; i < set->piece_count && *done; i++) {
        tdm_status status = tdm_work_test(set->piece[i].work, done);
        if (status != TDM_OK)
            return status;
        if (*done)
            take_results(group, set, &set->piece[i]);
    }
    return TDM_OK;
}

/* ---- a callback when the last is over: results are in place then; runs where theirs run, the group's lock held ---- */

static void one_less(tdmi_set *set)
{
    if (atomic_fetch_sub(&set->left, 1) != 1)
        return;
    for (size_t i = 0; i < set->piece_count && set->status == TDM_OK; i++)
        take_results(set->group, set, &set->piece[i]);
    set->on_done(set->on_done_arg, set->status);
}

static void piece_done(void *arg, tdm_status status)
{
    tdmi_set *set = arg;
    set->status = set->status == TDM_OK ? status : set->status;
    one_less(set);
}

void tdmi_set_on_done(tdmi_set *set, tdm_done fn, void *arg)
{
    set->on_done = fn;
    set->on_done_arg = arg;
    set->status = TDM_OK;
    atomic_store(&set->left, set->piece_count + 1);
    for (size_t i = 0; i < set->piece_count; i++)
        tdm_work_on_done(set->piece[i].work, piece_done, set);
    one_less(set); /* those that were over before have counted; if it was the last, nobody else is at it */
}

/* ---- kept ---- */

tdm_status tdmi_set_keep(tdmi_set *set)
{
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < set->piece_count && status == TDM_OK; i++)
        status = tdm_work_keep(set->piece[i].work);
    return status;
}

tdm_status tdmi_set_start(tdm_group *group, tdmi_set *set)
{
    for (size_t i = 0; i < set->piece_count; i++) {
        piece *p = &set->piece[i];
        if (p->count > 1) {
            move(group, set, p, false);
            p->moved = false;
        }
        tdm_status status = tdm_work_start(p->work);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}

void tdmi_set_free(tdm_group *group, tdmi_set *set)
{
    for (size_t i = 0; i < set->piece_count; i++)
        tdm_work_free(set->piece[i].work);
    give_back(group, set);
}

tdm_work *tdmi_set_work(const tdmi_set *set, size_t index)
{
    return index < set->piece_count ? set->piece[index].work : NULL;
}

/* ---- begin and end ---- */

tdm_status tdm_coalesce_begin(tdm_group *group)
{
    if (group == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_coalesce_begin: the group is NULL");
    if (group->set != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_coalesce_begin: group %s is coalescing already; end that first", group->name);
    if (group->engine != NULL && !group->engine->ops->meets_alone)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "tdm_coalesce_begin: engine %s cannot gather calls: memory of a device is not copied",
                         tdm_group_engine(group));
    tdmi_set *set = group->idle_sets;
    if (set != NULL) {
        group->idle_sets = set->next;
    } else {
        set = tdmi_calloc(1, sizeof *set, "coalesced calls");
        if (set == NULL)
            return TDM_ERR_NO_MEMORY;
        set->group = group;
        set->next_made = group->sets;
        group->sets = set;
    }
    group->set = set;
    return TDM_OK;
}

tdm_status tdm_coalesce_end(tdm_group *group, tdm_work **work)
{
    if (group == NULL || group->set == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_coalesce_end: there was no tdm_coalesce_begin");
    tdmi_set *set = group->set;
    tdm_status status = flush(group);
    group->set = NULL;
    if (status == TDM_OK && work != NULL)
        status = tdmi_group_hold_set(group, set, work);
    if (status == TDM_OK && work != NULL)
        return TDM_OK;
    char text[TDMI_ERROR_TEXT_MAX];
    strcpy(text, status != TDM_OK ? tdm_error_text() : "");
    const tdm_status waited = wait_all(group, set);
    give_back(group, set);
    if (status != TDM_OK)
        tdmi_error_set_text(text);
    return status != TDM_OK ? status : waited;
}

void tdmi_coalesce_free(tdm_group *group)
{
    while (group->sets != NULL) {
        tdmi_set *set = group->sets;
        group->sets = set->next_made;
        for (size_t i = 0; i < set->piece_capacity; i++)
            free_memory(group, &set->piece[i]);
        tdmi_free(set->request);
        tdmi_free(set->piece);
        tdmi_free(set);
    }
}
