/* meet.c - publishing on the own board, waiting for the others' boards, and learning from them at the first meeting. */
#include "coll/meet.h"

#include "coll/history.h"
#include "core/cpu.h"

void tdmi_ring_all(const tdmi_team *team)
{
    for (int r = 0; r < team->n; r++)
        if (r != team->rank && team->board[r] != NULL)
            tdmi_node_ring(team->node, team->world_rank[r]);
}

void tdmi_publish(tdmi_run *run)
{
    run->phase++;
    run->met = 0;
    if (run->team->board == NULL)
        return;
    atomic_store_explicit(&tdmi_own_slot(run)->word, tdmi_slot_word(run->number, run->phase), memory_order_release);
    tdmi_ring_all(run->team);
}

static tdm_status compare_met(const tdmi_run *run)
{
    const tdmi_team *team = run->team;
    int first = 0;
    while (!tdmi_team_shares(team, first))
        first++;
    for (int r = first + 1; r < team->n; r++)
        if (tdmi_team_shares(team, r) && tdmi_history_of(run, r) != tdmi_history_of(run, first))
            return tdmi_history_mismatch(team, run->number, first, r);
    return TDM_OK;
}

static tdm_status resolve_place(tdmi_run *run, int rank, tdmi_place place, char **out)
{
    void *address = NULL;
    const bool none = place.owner == TDMI_NOWHERE || place.owner == TDMI_NOTHING;
    tdm_status status = none ? TDM_OK : tdmi_node_resolve(run->team->node, place, &address);
    *out = address;
    return status == TDM_OK ? TDM_OK : tdmi_fail_while(status, "looking for the buffers of rank %d", rank);
}

/* *far: it is an address in that rank's process. */
static tdm_status resolve_buffer(tdmi_run *run, int rank, tdmi_place place, char **out, bool *far)
{
    *far = place.owner != TDMI_NOWHERE && place.owner != TDMI_NOTHING && place.region == TDMI_PRIVATE;
    if (!*far)
        return resolve_place(run, rank, place, out);
    *out = (char *)(uintptr_t)place.offset;
    return TDM_OK;
}

/* Each rank compares what the others give to it with what it expects. */
static tdm_status compare_parts(const tdmi_run *run)
{
    const tdmi_team *team = run->team;
    const tdmi_call *call = &run->plan->call;
    for (int r = 0; r < team->n; r++) {
        const tdmi_row *row = (const tdmi_row *)(void *)run->peer_rows[r] + team->rank;
        const size_t expected = tdmi_call_expects(call, team->rank, r);
        if (row->count != expected)
            return tdmi_part_mismatch(team->name, run->number, call, run->label.text, r, row->count, team->rank, expected);
    }
    return TDM_OK;
}

static tdm_status learn_places(tdmi_run *run)
{
    const tdmi_team *team = run->team;
    const bool pairwise = tdmi_call_is_pairwise(&run->plan->call);
    tdm_status status = TDM_OK;
    for (int r = 0; r < team->n && status == TDM_OK; r++) {
        if (!tdmi_team_shares(team, r))
            continue;
        const tdmi_slot *slot = tdmi_slot_of(run, r);
        status = resolve_buffer(run, r, slot->in, &run->peer_in[r], &run->is_far[r]);
        if (status == TDM_OK)
            status = resolve_buffer(run, r, slot->out, &run->peer_out[r], &run->is_far[team->n + r]);
        if (status == TDM_OK && pairwise)
            status = resolve_place(run, r, slot->rows, &run->peer_rows[r]);
    }
    if (status == TDM_OK && pairwise)
        status = compare_parts(run);
    run->peer_in[team->rank] = (char *)(uintptr_t)run->request.in;
    run->peer_out[team->rank] = run->request.out;
    run->is_far[team->rank] = run->is_far[team->n + team->rank] = false;
    return status;
}

/* First meeting: everyone's call and buffers are known now, or the call of rank `from` alone. */
static tdm_status learn(tdmi_run *run, int from)
{
    tdm_status status = TDM_OK;
    if (from < 0)
        status = compare_met(run);
    else if (tdmi_history_of(run, from) != run->history)
        status = tdmi_history_mismatch(run->team, run->number, run->team->rank, from);
    if (status == TDM_OK && !run->plan->way.uses_slot)
        status = learn_places(run);
    run->resolved = status == TDM_OK;
    return status;
}

/* Of calls that use STAGE: where the others' is, and up to which call all are done with it. */
static tdm_status learn_stages(tdmi_run *run)
{
    tdmi_team *team = run->team;
    tdm_status status = TDM_OK;
    uint64_t done = UINT64_MAX;
    for (int r = 0; r < team->n; r++)
        if (tdmi_team_shares(team, r) && tdmi_slot_of(run, r)->done < done)
            done = tdmi_slot_of(run, r)->done;
    if (done > team->peers_done)
        team->peers_done = done;
    if (run->stage->known)
        return TDM_OK;
    for (int r = 0; r < team->n && status == TDM_OK; r++)
        if (r != team->rank && tdmi_team_shares(team, r))
            status = resolve_place(run, r, tdmi_slot_of(run, r)->stage, &run->stage->block[r]);
    run->stage->known = status == TDM_OK;
    return status;
}

/* Looks once, or until there are no polls left. */
static bool has_published(const tdmi_slot *slot, uint64_t word, int *polls)
{
    while (atomic_load_explicit(&slot->word, memory_order_acquire) < word) { /* pairs with tdmi_publish() */
        if ((*polls)-- <= 0)
            return false;
        tdmi_cpu_pause();
    }
    return true;
}

tdm_status tdmi_meet(tdmi_run *run, int from, int polls, bool *met)
{
    tdmi_team *team = run->team;
    *met = true;
    if (team->board == NULL) { /* no other rank is on this node */
        run->peer_in[team->rank] = (char *)(uintptr_t)run->request.in;
        run->peer_out[team->rank] = run->request.out;
        return TDM_OK;
    }
    const uint64_t word = tdmi_slot_word(run->number, run->phase - run->behind);
    for (; run->met < team->n && *met; run->met += *met ? 1 : 0)
        if (run->met != team->rank && (from < 0 ? tdmi_team_shares(team, run->met) : run->met == from))
            *met = has_published(tdmi_slot_of(run, run->met), word, &polls);
    if (!*met)
        return TDM_OK;
    if (!run->resolved) {
        tdm_status status = learn(run, from);
        if (status != TDM_OK)
            return status;
    }
    return run->stage != NULL ? learn_stages(run) : TDM_OK;
}
