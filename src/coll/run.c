/* run.c - the life of a call: arriving on the board, agreeing on the way to take, then step after step.
 *
 * A rank arrives by writing the call's signature and the places of its buffers into its slot. Whether every rank's buffers
 * can be reached is known only when all have arrived; a plan that depends on it (`agrees`) is settled then, on all ranks
 * alike, at no extra meeting where the answer is yes. */
#include "coll/run.h"

#include "coll/exchange.h"
#include "coll/history.h"
#include "coll/meet.h"
#include "coll/quick.h"
#include "coll/run_start.h"
#include "coll/slice.h"
#include "coll/work_steps.h"
#include "core/dtype.h"

#define WORK_COUNT ((size_t)32 << 10) /* elements that are moved or summed between two looks at what goes on in the background */

/* ---- states ---- */

/* Where others find their parts of IN. */
static void write_rows(const tdmi_run *run, tdmi_slot *slot)
{
    const tdmi_team *team = run->team;
    const tdmi_call *call = &run->plan->call;
    tdmi_row *rows = team->rows + run->number % TDMI_SLOTS * (size_t)team->n;
    uint64_t first = 0;
    for (int r = 0; r < team->n; r++) {
        rows[r] = (tdmi_row){.first = first, .count = tdmi_call_gives(call, team->rank, r)};
        first += rows[r].count;
    }
    slot->rows = tdmi_node_locate(team->node, rows, (size_t)team->n * sizeof *rows);
}

/* Where peers find a caller's buffer: mapped, else by its address if they can read that. */
static tdmi_place place_of(const tdmi_team *team, const void *address, size_t nbytes)
{
    tdmi_place place = tdmi_node_locate(team->node, address, nbytes);
    if (place.owner == TDMI_NOWHERE && team->reads)
        place = (tdmi_place){.owner = (uint32_t)team->world_rank[team->rank], .region = TDMI_PRIVATE,
                             .offset = (uint64_t)(uintptr_t)address};
    return place;
}

static bool is_mapped(tdmi_place place)
{
    return place.owner == TDMI_NOTHING || (place.owner != TDMI_NOWHERE && place.region != TDMI_PRIVATE);
}

static void write_places(const tdmi_run *run, tdmi_slot *slot)
{
    const tdmi_team *team = run->team;
    const tdmi_call *call = &run->plan->call;
    const size_t size = tdmi_dtype_bytes(call->dtype);
    tdmi_place in = {.owner = TDMI_NOTHING}, out = in;
    if (tdmi_call_is_pairwise(call))
        write_rows(run, slot);
    if (tdmi_run_in_count(run) > 0)
        in = place_of(team, run->request.in, tdmi_run_in_count(run) * size);
    if (tdmi_run_out_count(run) > 0)
        out = place_of(team, run->request.out, tdmi_run_out_count(run) * size);
    slot->in = in;
    slot->out = out;
}

/* What a rank says about its own part in two arrays. */
static tdm_status check_own_part(const tdmi_run *run)
{
    const tdmi_call *call = &run->plan->call;
    const int rank = run->team->rank;
    if (!tdmi_call_is_pairwise(call) || tdmi_call_gives(call, rank, rank) == tdmi_call_expects(call, rank, rank))
        return TDM_OK;
    return tdmi_part_mismatch(run->team->name, run->number, call, run->label.text, rank, tdmi_call_gives(call, rank, rank), rank,
                              tdmi_call_expects(call, rank, rank));
}

/* Writes the slot; *done is false while a rank still needs the old call in it. */
static tdm_status arrive(tdmi_run *run, bool *done)
{
    tdmi_team *team = run->team;
    const tdmi_plan *plan = run->plan;
    *done = true;
    if (team->board != NULL) {
        const tdm_status status = run->number > TDMI_SLOTS ? tdmi_team_done(team, run->number - TDMI_SLOTS, done) : TDM_OK;
        if (!*done)
            return status;
        if (plan->way.uses_slot) {
            tdmi_quick_send(team, plan, run->number, run->history, &run->label, run->request.in);
            tdmi_quick_hand_over(run);
            return TDM_OK;
        }
        tdmi_slot *slot = tdmi_own_slot(run);
        atomic_store_explicit(&team->board[team->rank]->started, run->number, memory_order_release); /* pairs with history.c */
        tdmi_slot_open(slot, run->history, plan->signature, &run->label);
        write_places(run, slot);
        if (!plan->agrees) /* else it publishes now */
            atomic_store_explicit(&slot->word, tdmi_slot_word(run->number, 0), memory_order_release);
    }
    if (plan->agrees) {
        tdmi_publish(run);
        run->state = TDMI_RUN_AGREEING;
    } else {
        run->state = TDMI_RUN_STAGING;
    }
    return TDM_OK;
}

/* All ranks have met: are all their buffers within reach? Equal on all ranks, for it is read from what all have written. */
static tdm_status agree(tdmi_run *run)
{
    const tdmi_team *team = run->team;
    bool reach = true;
    for (int r = 0; r < team->n; r++) {
        const tdmi_slot *slot = tdmi_slot_of(run, r);
        reach = reach && is_mapped(slot->in) && is_mapped(slot->out);
    }
    if (reach) {
        run->way = &run->plan->way;
        run->step = 2; /* PUBLISH and MEET have happened */
        run->state = TDMI_RUN_STEPPING;
        return TDM_OK;
    }
    if (run->plan->otherwise.algorithm == NULL) { /* forced to one that cannot: the choice says it best */
        const tdmi_algorithm *none;
        return tdmi_select(&run->plan->call, &team->topology, tdmi_team_reach(team) & ~TDMI_NEEDS_READ, &none, NULL);
    }
    run->way = &run->plan->otherwise;
    if ((run->way->algorithm->needs & TDMI_NEEDS_READ) != 0)
        run->step = 2; /* it begins alike */
    run->state = TDMI_RUN_STAGING;
    tdmi_run_use_padded(run);
    return TDM_OK;
}

/* Takes what the way needs: its turn with the links, a stage block. *done is false while an earlier call or a peer uses it. */
static tdm_status take_turn(tdmi_run *run, const tdmi_turns *turns, bool *done)
{
    tdmi_team *team = run->team;
    *done = (!run->way->uses_links || turns->links) && (!run->way->uses_stage || turns->stage);
    if (*done && run->way->uses_stage && team->n > 1) {
        tdmi_stage *stage = &team->stage[team->stage[0].call <= team->stage[1].call ? 0 : 1];
        const tdm_status status = tdmi_team_done(team, stage->call, done);
        if (!*done)
            return status;
        stage->call = run->number;
        run->stage = stage;
        run->rotation = stage->rotation;
        stage->rotation = (stage->rotation + run->way->rotations) % (unsigned)team->n;
        tdmi_slot *slot = tdmi_own_slot(run);
        slot->done = atomic_load_explicit(&team->board[team->rank]->done, memory_order_relaxed);
        if (!stage->known)
            slot->stage = tdmi_node_locate(team->node, stage->own, TDMI_STAGE_BYTES);
    }
    if (!*done)
        return TDM_OK;
    if (run->way->uses_links)
        tdmi_exchange_begin(run);
    run->state = TDMI_RUN_STEPPING;
    return TDM_OK;
}

static const tdmi_steps *list_of(const tdmi_run *run)
{
    return tdmi_way_steps(run->way, run->number);
}

static bool is_exchange(const tdmi_step *step)
{
    return step->kind == TDMI_STEP_EXCHANGE || step->kind == TDMI_STEP_EXCHANGE_REDUCE;
}

static bool has_background(tdmi_run *run)
{
    while (run->back < run->step && !list_of(run)->step[run->back].background)
        run->back++;
    return run->back < run->step;
}

/* Does a piece of what goes on beside the current step. */
static tdm_status background_on(tdmi_run *run, bool *moved)
{
    bool done;
    tdm_status status;
    run->worked = 0;
    if (!has_background(run))
        return TDM_OK;
    const tdmi_step *step = &list_of(run)->step[run->back];
    if (is_exchange(step)) {
        status = tdmi_exchange_step(run, step, &done, moved);
    } else {
        const size_t at = run->at;
        run->at = run->back_at;
        status = tdmi_work_step(run, step, &done);
        run->back_at = run->at;
        run->at = at;
        *moved = true;
    }
    if (status == TDM_OK && done) {
        run->back++;
        run->back_at = run->sent = run->received = run->summed = 0;
        *moved = true;
    }
    return status;
}

/* *waits: for a peer. *paused: a piece of a long step is done, and others may have a turn. */
static tdm_status step_on(tdmi_run *run, const tdmi_turns *turns, bool *waits, bool *paused)
{
    const tdmi_step *step = &list_of(run)->step[run->step];
    bool done = true, moved = false;
    tdm_status status = TDM_OK;
    if (step->background) {
        /* reached: background_on() takes it from here */
    } else if (step->kind == TDMI_STEP_PUBLISH) {
        tdmi_publish(run);
    } else if (step->kind == TDMI_STEP_MEET) {
        run->behind = step->behind;
        status = tdmi_meet(run, step->from, has_background(run) ? 0 : turns->polls, &done);
        *waits = !done;
    } else if (step->kind == TDMI_STEP_AWAIT || (is_exchange(step) && has_background(run))) {
        done = !has_background(run) || (step->kind == TDMI_STEP_AWAIT && run->back >= step->src.first);
        *waits = !done;
    } else if (step->kind == TDMI_STEP_ROTATE) {
        run->rotation = (run->rotation + 1) % (unsigned)run->team->n;
    } else if (is_exchange(step)) {
        status = tdmi_exchange_step(run, step, &done, &moved);
        *waits = !done && !moved;
        *paused = !done && moved;
    } else if (tdmi_run_hands_on(run) && !turns->epilogues) {
        done = false;
        *waits = true;
    } else {
        status = tdmi_work_step(run, step, &done);
        run->worked += step->src.count;
        *paused = !done;
    }
    if (status == TDM_OK && done) {
        run->step += 1 + (step->kind == TDMI_STEP_REDUCE_FROM && !tdmi_run_hands_on(run)) + step->refilled; /* COPY_TO, REFILL */
        run->at = 0;
        run->met = 0;
        if (is_exchange(step) && !step->background)
            run->sent = run->received = run->summed = 0;
    }
    return status;
}

/* The current step and what goes on beside it. */
static tdm_status both_on(tdmi_run *run, const tdmi_turns *turns, bool *waits, bool *paused)
{
    const size_t count = list_of(run)->count;
    bool moved = false;
    tdm_status status = run->step < count ? step_on(run, turns, waits, paused) : TDM_OK;
    if (status != TDM_OK || (run->step < count && !*waits && !*paused && run->worked < WORK_COUNT))
        return status;
    status = background_on(run, &moved);
    if (run->step == count)
        *waits = has_background(run);
    *paused |= moved;
    *waits &= !moved;
    return status;
}

/* False while the caller's thread is needed for it. */
static bool finish(tdmi_run *run, const tdmi_turns *turns)
{
    size_t first, count;
    if (tdmi_run_is_padded(run)) {
        if (!turns->epilogues)
            return false;
        tdmi_slice(run->plan->call.count, run->plan->call.dtype, run->team->rank, run->team->n, &first, &count);
        if (count > 0)
            run->request.epilogue(run->request.epilogue_arg, first, count, run->request.out);
    }
    run->state = TDMI_RUN_OVER;
    return true;
}

/* What calls behind this one have to wait for. */
static void keep_turns(const tdmi_run *run, tdmi_turns *turns)
{
    const tdmi_plan *plan = run->plan;
    if (run->way == NULL) {
        turns->links &= !plan->way.uses_links && !plan->otherwise.uses_links;
        turns->stage &= !plan->way.uses_stage && !plan->otherwise.uses_stage;
    } else {
        turns->links &= !run->way->uses_links;
        turns->stage &= !run->way->uses_stage || run->state >= TDMI_RUN_STEPPING;
    }
}

tdm_status tdmi_run_advance(tdmi_run *run, tdmi_turns *turns, bool *over, bool *moved)
{
    tdm_status status = TDM_OK;
    bool waits = false, paused = false, met = true;
    while (status == TDM_OK && !waits && !paused && run->state != TDMI_RUN_OVER) {
        switch (run->state) {
        case TDMI_RUN_ARRIVING:
            status = check_own_part(run);
            if (status == TDM_OK)
                status = arrive(run, &met);
            waits = !met;
            break;
        case TDMI_RUN_AGREEING:
            status = tdmi_meet(run, -1, turns->polls, &met);
            waits = !met;
            if (status == TDM_OK && met)
                status = agree(run);
            break;
        case TDMI_RUN_STAGING:
            status = take_turn(run, turns, &met);
            waits = !met;
            break;
        case TDMI_RUN_STEPPING:
            if (run->step < list_of(run)->count || has_background(run))
                status = both_on(run, turns, &waits, &paused);
            else if (run->way->uses_links)
                run->state = TDMI_RUN_SETTLING;
            else
                waits = !finish(run, turns);
            break;
        case TDMI_RUN_SETTLING:
            status = tdmi_exchange_settle(run, &met);
            waits = !met || (status == TDM_OK && !finish(run, turns));
            break;
        case TDMI_RUN_OVER: break;
        }
        *moved |= !waits;
    }
    *over = run->state == TDMI_RUN_OVER;
    if (!*over)
        keep_turns(run, turns);
    return status;
}

/* ---- for messages ---- */

int tdmi_run_missing(const tdmi_run *run, bool *missing)
{
    const tdmi_team *team = run->team;
    int count = 0;
    for (int r = 0; r < team->n; r++) {
        bool here = r == team->rank;
        if (!here && team->board != NULL && team->board[r] != NULL)
            here = atomic_load_explicit(&team->board[r]->started, memory_order_acquire) >= run->number;
        else if (!here)
            here = team->arrived[r] >= run->number;
        missing[r] = !here;
        count += !here;
    }
    return count;
}

tdm_status tdmi_run_compare(const tdmi_run *run)
{
    const tdmi_team *team = run->team;
    if (run->state == TDMI_RUN_ARRIVING)
        return TDM_OK;
    if (run->way != NULL && run->way->uses_links && run->state != TDMI_RUN_STAGING) {
        tdm_status status = tdmi_exchange_compare(run);
        if (status != TDM_OK)
            return status;
    }
    int first = -1;
    for (int r = 0; team->board != NULL && r < team->n; r++) {
        if (team->board[r] == NULL ||
            atomic_load_explicit(&tdmi_slot_of(run, r)->word, memory_order_acquire) >> TDMI_PHASE_BITS != run->number)
            continue;
        if (first < 0)
            first = r;
        else if (tdmi_history_of(run, r) != tdmi_history_of(run, first))
            return tdmi_history_mismatch(team, run->number, first, r);
    }
    return TDM_OK;
}
