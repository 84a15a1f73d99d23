/* run_start.c - what a call needs before it begins: its plan, scratch, room in the arena, copies of its input. All of it is made
 * before the call counts as made, and kept, so that a call that was made before allocates nothing. */
#include "coll/run_start.h"

#include "coll/history.h"
#include "coll/reduce.h"
#include "coll/slice.h"
#include "core/dtype.h"
#include "core/memory.h"

#include <string.h>

size_t tdmi_run_in_count(const tdmi_run *run)
{
    const tdmi_call *call = &run->request.call;
    return run->request.epilogue != NULL ? call->count : tdmi_call_in_count(call, run->team->rank, run->team->n);
}

size_t tdmi_run_out_count(const tdmi_run *run)
{
    const tdmi_call *call = &run->request.call;
    return run->request.epilogue != NULL ? 0 : tdmi_call_out_count(call, run->team->rank, run->team->n);
}

static tdm_status make_peer_arrays(tdmi_run *run, int n)
{
    if (n <= run->peers_capacity)
        return TDM_OK;
    char **arrays = tdmi_realloc(run->peer_in, (size_t)n * 3 * sizeof *arrays, "coll run");
    if (arrays == NULL)
        return TDM_ERR_NO_MEMORY;
    run->peer_in = arrays;
    bool *is_far = tdmi_realloc(run->is_far, (size_t)n * 2 * sizeof *is_far, "coll run");
    if (is_far == NULL)
        return TDM_ERR_NO_MEMORY;
    run->is_far = is_far;
    memset(is_far, 0, (size_t)n * 2 * sizeof *is_far);
    run->peer_out = arrays + n;
    run->peer_rows = arrays + 2 * n;
    run->peers_capacity = n;
    return TDM_OK;
}

static tdm_status grow(char **block, size_t *have, size_t need, const char *label)
{
    if (need <= *have)
        return TDM_OK;
    tdmi_free(*block);
    *have = 0;
    *block = tdmi_aligned_alloc(4096, need, label);
    if (*block == NULL)
        return TDM_ERR_NO_MEMORY;
    *have = need;
    return TDM_OK;
}

/* Scratch for a way that may be taken, before the call counts as made: later there would be peers to disappoint. */
static tdm_status make_scratch(tdmi_run *run, const tdmi_way *way)
{
    const tdmi_call *call = &run->request.call;
    const size_t acc = way->steps.acc_count * tdmi_dtype_bytes(tdmi_call_acc_dtype(call));
    if (way->uses_links && run->team->segment == NULL) {
        run->team->segment = tdmi_aligned_alloc(4096, TDMI_SEGMENT_BYTES, "coll segment");
        if (run->team->segment == NULL)
            return TDM_ERR_NO_MEMORY;
    }
    return grow(&run->acc, &run->acc_nbytes, acc, "coll accumulator");
}

/* The same for tiles of what is read from peers' processes. */
static tdm_status make_far(tdmi_run *run, const tdmi_way *way)
{
    if (way->algorithm == NULL || (way->algorithm->needs & TDMI_NEEDS_READ) == 0)
        return TDM_OK;
    return grow(&run->far, &run->far_nbytes, (size_t)run->team->n * TDMI_FAR_BYTES, "coll read from peers");
}

/* Both in one block, which is as large as a huge page; not a whole number of pages apart, so that their addresses do not agree
 * modulo 4096. */
static tdm_status make_stages(tdmi_team *team)
{
    const size_t apart = TDMI_STAGE_BYTES + 1408;
    void *blocks;
    if (team->stage[0].own != NULL)
        return TDM_OK;
    for (int i = 0; i < 2; i++) {
        if (team->stage[i].block == NULL)
            team->stage[i].block = tdmi_calloc((size_t)team->n, sizeof *team->stage[i].block, "coll stage");
        if (team->stage[i].block == NULL)
            return TDM_ERR_NO_MEMORY;
    }
    tdm_status status = tdmi_arena_take(tdmi_node_arena(team->node, team->world_rank[team->rank]), apart + TDMI_STAGE_BYTES, &blocks);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "making the staging blocks of group %s", team->name);
    for (int i = 0; i < 2; i++)
        team->stage[i].own = team->stage[i].block[team->rank] = (char *)blocks + (size_t)i * apart;
    return TDM_OK;
}

static tdm_status make_rows(tdmi_team *team)
{
    void *rows;
    if (team->rows != NULL || team->board == NULL)
        return TDM_OK;
    tdm_status status = tdmi_arena_take(tdmi_node_arena(team->node, team->world_rank[team->rank]),
                                        TDMI_SLOTS * (size_t)team->n * sizeof *team->rows, &rows);
    if (status == TDM_OK)
        team->rows = rows;
    return status;
}

static tdmi_arena *arena_of(const tdmi_team *team)
{
    return team->node != NULL && team->is_local ? tdmi_node_arena(team->node, team->world_rank[team->rank]) : NULL;
}

static void free_prepared(tdmi_run *run)
{
    tdmi_arena *arena = run->prepared != NULL ? arena_of(run->team) : NULL;
    if (arena != NULL)
        (void)tdmi_arena_give(arena, run->prepared);
    else
        tdmi_free(run->prepared);
    run->prepared = NULL;
    run->prepared_nbytes = 0;
}

/* A place for the premultiplied input, where peers reach it if they can reach anything. */
static tdm_status make_prepared(tdmi_run *run, size_t nbytes)
{
    tdmi_arena *arena = arena_of(run->team);
    void *block;
    if (nbytes <= run->prepared_nbytes)
        return TDM_OK;
    free_prepared(run);
    if (arena == NULL)
        return grow(&run->prepared, &run->prepared_nbytes, nbytes, "premultiplied input");
    tdm_status status = tdmi_arena_take(arena, nbytes, &block);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "making room for the input of a premultiplied sum");
    run->prepared = block;
    run->prepared_nbytes = nbytes;
    return TDM_OK;
}

/* The padded copy of a fused call lies in front, the own slice behind. */
static size_t padded_bytes(const tdmi_run *run)
{
    const tdmi_call *call = &run->request.call;
    const int n = run->team->n;
    return tdmi_slice_each(call->count, call->dtype, n) * ((size_t)n + 1) * tdmi_dtype_bytes(call->dtype);
}

static void pad(tdmi_run *run)
{
    const tdmi_call *call = &run->request.call;
    const size_t size = tdmi_dtype_bytes(call->dtype), whole = padded_bytes(run) / size / ((size_t)run->team->n + 1);
    if (call->count == 0)
        return;
    memcpy(run->padded, run->request.in, call->count * size);
    memset(run->padded + call->count * size, 0, (whole * (size_t)run->team->n - call->count) * size);
    run->request.in = run->padded;
    run->request.out = run->padded + whole * (size_t)run->team->n * size;
}

/* An alltoall in place would overwrite what is still to be sent: unless it has gone with the slot, the call reads a copy, from before its
 * buffers are published. So peers that reach into buffers find the copy. */
static bool is_copied(const tdmi_run *run)
{
    return run->plan->call.coll == TDMI_COLL_ALLTOALL && run->team->n > 1 && run->request.in == run->request.out &&
           !run->plan->way.uses_slot;
}

static void use_copy(tdmi_run *run)
{
    const size_t nbytes = tdmi_run_in_count(run) * tdmi_dtype_bytes(run->plan->call.dtype);
    if (nbytes > 0)
        run->request.in = memcpy(run->padded, run->request.in, nbytes);
}

bool tdmi_run_is_padded(const tdmi_run *run)
{
    return run->request.epilogue != NULL && !tdmi_run_hands_on(run);
}

void tdmi_run_use_padded(tdmi_run *run)
{
    if (tdmi_run_is_padded(run))
        pad(run);
}

/* Everything is made: the call begins. */
static void begin(tdmi_run *run, uint64_t number)
{
    const tdmi_plan *plan = run->plan;
    run->number = number;
    tdmi_label_copy(run->team->label, &run->label);
    run->history = run->team->history = tdmi_history_with(run->team->history, plan->digest);
    run->way = plan->agrees ? NULL : &plan->way;
    run->state = TDMI_RUN_ARRIVING;
    run->step = run->at = run->back = run->back_at = run->worked = 0;
    run->sent = run->received = run->summed = 0;
    run->settled = 0;
    run->phase = 0;
    run->behind = 0;
    run->met = 0;
    run->resolved = false;
    run->stage = NULL;
    run->request.in = run->in;
    if (tdmi_op_prepares(run->op) && tdmi_run_in_count(run) > 0) {
        tdmi_op_prepare(plan->call.dtype, run->op, run->in, run->prepared, tdmi_run_in_count(run));
        run->request.in = run->prepared;
    }
    if (is_copied(run))
        use_copy(run);
    if (run->way != NULL)
        tdmi_run_use_padded(run);
}

void tdmi_run_again(tdmi_run *run, uint64_t number)
{
    begin(run, number);
}

/* All that the plan may need. */
static tdm_status make_memory(tdmi_run *run)
{
    tdmi_team *team = run->team;
    const tdmi_plan *plan = run->plan;
    tdm_status status = make_peer_arrays(run, team->n);
    if (status == TDM_OK)
        status = make_scratch(run, &plan->way);
    if (status == TDM_OK && plan->agrees)
        status = make_scratch(run, &plan->otherwise);
    if (status == TDM_OK)
        status = make_far(run, plan->agrees ? &plan->otherwise : &plan->way);
    if (status == TDM_OK && (plan->way.uses_stage || plan->otherwise.uses_stage))
        status = make_stages(team);
    if (status == TDM_OK && tdmi_call_is_pairwise(&plan->call))
        status = make_rows(team);
    if (status == TDM_OK && plan->fused && (plan->agrees || plan->way.algorithm != NULL))
        status = grow(&run->padded, &run->padded_nbytes, padded_bytes(run), "fused reduce-scatter");
    if (status == TDM_OK)
        run->ready = plan->number;
    return status;
}

tdm_status tdmi_run_start(tdmi_run *run, tdmi_team *team, uint64_t number, const tdmi_request *request)
{
    const bool fused = request->epilogue != NULL;
    tdmi_plan *plan;
    tdmi_call call = request->call;
    call.op = tdmi_op_base(call.op);
    tdm_status status = tdmi_plans_get(&team->plans, &call, fused, &team->topology, tdmi_team_reach(team),
                                       team->is_local, &plan);
    if (status != TDM_OK)
        return status;
    run->team = team;
    run->request = *request;
    run->request.call = call.on_device ? tdmi_barrier_call() : plan->call; /* whose arrays live on */
    run->op = request->call.op;
    run->in = request->in;
    run->plan = plan;
    if (run->ready != plan->number)
        status = make_memory(run);
    const size_t in_nbytes = tdmi_run_in_count(run) * tdmi_dtype_bytes(call.dtype);
    if (status == TDM_OK && tdmi_op_prepares(run->op))
        status = make_prepared(run, in_nbytes);
    if (status == TDM_OK && is_copied(run))
        status = grow(&run->padded, &run->padded_nbytes, in_nbytes, "alltoall in place");
    if (status == TDM_OK && !tdmi_op_hold(run->op)) /* freed since the arguments were checked */
        status = tdmi_op_check(call.dtype, run->op, tdmi_coll_name(call.coll), "native");
    if (status != TDM_OK)
        return status;
    plan->users++;
    begin(run, number);
    return TDM_OK;
}

void tdmi_run_end(tdmi_run *run)
{
    run->plan->users--;
    run->plan = NULL;
    tdmi_op_release(run->op);
}

void tdmi_run_free(tdmi_run *run)
{
    tdmi_free(run->peer_in);
    tdmi_free(run->is_far);
    tdmi_free(run->far);
    tdmi_free(run->acc);
    tdmi_free(run->padded);
    free_prepared(run);
    *run = (tdmi_run){0};
}
