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
#include "group/set.h"

#include "core/memory.h"

#include <string.h>

#define CALL_BYTES ((size_t)64 << 10)  /* of a call that is packed: longer ones gain less than the copy costs */
#define PACKED_BYTES ((size_t)1 << 20) /* of a packed call */
#define LINE_BYTES 128

static tdmi_arena *arena_of(const tdm_group *group)
{
    return group->team.is_local && group->size > 1 ? tdmi_node_arena(group->world->node, group->world->rank) : NULL;
}

static void free_memory(const tdm_group *group, tdmi_piece *p)
{
    if (p->memory != NULL && arena_of(group) != NULL)
        (void)tdmi_arena_give(arena_of(group), p->memory);
    else
        tdmi_free(p->memory);
    p->memory = NULL;
    p->nbytes = 0;
}

static tdm_status make_memory(const tdm_group *group, tdmi_piece *p, size_t nbytes)
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

/* Memory of a device is not copied here. */
static bool is_gathered(const tdm_group *group, const tdmi_request *request)
{
    return group->engine != NULL && group->engine->ops->gather != NULL && tdmi_group_engine_takes(group, request);
}

static bool is_packable(const tdm_group *group, const tdmi_request *request)
{
    const tdmi_call *call = &request->call;
    return !is_gathered(group, request) && !call->uneven && call->coll != TDMI_COLL_BARRIER && (unsigned)call->op < TDM_OP_COUNT &&
           tdmi_call_bytes(call, group->size) <= CALL_BYTES;
}

static bool is_alike(const tdmi_call *a, const tdmi_call *b)
{
    return a->coll == b->coll && a->dtype == b->dtype && a->op == b->op && a->root == b->root;
}

static uint64_t hash_of(const tdmi_set *set, const tdmi_piece *p)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < p->count; i++)
        hash = (hash ^ set->request[p->first + i].call.count) * 0x9e3779b97f4a7c15ull + i + 1;
    return hash;
}

void tdmi_set_move(const tdm_group *group, const tdmi_set *set, const tdmi_piece *p, bool results)
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

static tdm_status lay_out(const tdm_group *group, tdmi_piece *p)
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
    tdmi_piece *p = set->piece_count > 0 ? &set->piece[set->piece_count - 1] : NULL;
    if (p == NULL || p->work != NULL || p->gathered)
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
        tdmi_set_move(group, set, p, false);
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
        tdmi_piece *grown = tdmi_realloc(set->piece, capacity * sizeof *grown, "coalesced calls");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        memset(grown + set->piece_capacity, 0, (capacity - set->piece_capacity) * sizeof *grown);
        set->piece = grown;
        set->piece_capacity = capacity;
    }
    tdmi_piece *p = &set->piece[set->piece_count++];
    p->first = set->request_count;
    p->count = 0;
    p->work = NULL;
    p->gathered = false;
    p->call = *call;
    p->call.count = 0;
    return TDM_OK;
}

tdm_status tdmi_coalesce_add(tdm_group *group, const tdmi_request *request)
{
    tdmi_set *set = group->set;
    const tdmi_call *call = &request->call;
    const bool packable = is_packable(group, request);
    const tdmi_piece *last = set->piece_count > 0 ? &set->piece[set->piece_count - 1] : NULL;
    tdm_status status = TDM_OK;
    if (set->request_count == set->request_capacity) {
        const size_t capacity = set->request_capacity == 0 ? 32 : 2 * set->request_capacity;
        tdmi_request *grown = tdmi_realloc(set->request, capacity * sizeof *grown, "coalesced calls");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        set->request = grown;
        set->request_capacity = capacity;
    }
    const bool joins = packable && last != NULL && last->work == NULL && !last->gathered && is_alike(&last->call, call) &&
                       tdmi_call_bytes(&last->call, group->size) + tdmi_call_bytes(call, group->size) <= PACKED_BYTES;
    if (!joins) {
        status = flush(group);
        if (status == TDM_OK)
            status = open_piece(set, call);
    }
    if (status != TDM_OK)
        return status;
    tdmi_piece *p = &set->piece[set->piece_count - 1];
    set->request[set->request_count++] = *request;
    p->count++;
    p->call.count += call->count;
    p->gathered = is_gathered(group, request);
    p->moved = p->gathered;
    return packable ? TDM_OK : flush(group);
}

/* ---- begin and end ---- */

tdm_status tdm_coalesce_begin(tdm_group *group)
{
    if (group == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_coalesce_begin: the group is NULL");
    if (group->set != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_coalesce_begin: group %s is coalescing already; end that first", group->name);
    pthread_mutex_lock(&group->lock);
    tdmi_set *set = group->idle_sets;
    if (set != NULL)
        group->idle_sets = set->next;
    pthread_mutex_unlock(&group->lock);
    if (set == NULL) {
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
    if (status == TDM_OK)
        status = tdmi_set_start_gathered(group, set);
    group->set = NULL;
    if (status == TDM_OK && work != NULL)
        status = tdmi_group_hold_set(group, set, work);
    if (status == TDM_OK && work != NULL)
        return TDM_OK;
    char text[TDMI_ERROR_TEXT_MAX];
    strcpy(text, status != TDM_OK ? tdm_error_text() : "");
    const tdm_status waited = tdmi_set_wait_all(group, set);
    tdmi_set_give_back(group, set);
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
