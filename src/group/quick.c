/* quick.c - a short call that its caller waits for, made before and with nothing else under way in the group: it needs no handle
 * and no lock. Where the others do not come within some microseconds it becomes a call like any other (work.c).
 *
 * Thread: the one that makes calls. While `quiet`, others take the group's lock to see that there is nothing to do, and touch nothing. */
#include "group/group.h"

#include "coll/quick.h"
#include "core/cpu.h"
#include "core/fork.h"

#define POLLS 1000 /* some 50 us */
#define POLLS_A_LOOK 25 /* at the boards, and pauses between */
#define PAUSES 8

/* Whether all that a call may need is at hand: from here on it cannot fail before it counts as made. */
static bool is_ready(const tdm_group *group, int64_t now_ns)
{
    return group->set == NULL && group->engine == NULL && group->world->forks == tdmi_fork_number() && group->idle != NULL &&
           group->idle->run.peers_capacity >= group->size && now_ns - group->heard_ns <= TDMI_CATCH_UP_NS &&
           atomic_load_explicit(&group->failure, memory_order_relaxed) == TDM_OK;
}

/* Whether buffers are where the plan needs some: collective.c says what is wrong with them. */
static bool has_buffers(const tdmi_plan *plan, const void *in, const void *out)
{
    return (in != NULL || !plan->way.takes_in) && (out != NULL || !plan->way.gives_out);
}

/* True if the slot may be written again. Who is so far ahead waits a little for half of the slots, for each look takes lines from
 * peers that are writing them. */
static bool has_slot(tdmi_team *team, uint64_t number, int looks)
{
    bool done = number <= TDMI_SLOTS || number - TDMI_SLOTS <= team->peers_done;
    if (done)
        return true;
    for (; looks > 0 && tdmi_team_done(team, number - TDMI_SLOTS / 2, &done) == TDM_OK && !done; looks--)
        for (int i = 0; i < PAUSES; i++)
            tdmi_cpu_pause();
    return done || (tdmi_team_done(team, number - TDMI_SLOTS, &done) == TDM_OK && done);
}

bool tdmi_group_quick(tdm_group *group, const tdmi_call *call, const void *in, void *out, tdm_status *status)
{
    tdmi_team *team = &group->team;
    const uint64_t number = group->number + 1;
    /* acquire; pairs with note_quiet in work.c */
    if (!atomic_load_explicit(&group->quiet, memory_order_acquire) || (unsigned)call->op >= TDM_OP_COUNT)
        return false;
    const int64_t now_ns = tdmi_quick_ns(&group->clock);
    int polls = group->world->crowded || atomic_load_explicit(&group->world->busy, memory_order_relaxed) > 0 ? 0 : POLLS;
    const tdmi_plan *plan = is_ready(group, now_ns) ? tdmi_plans_find(&team->plans, call, false, team->n) : NULL;
    if (plan == NULL || !plan->way.uses_slot || !has_buffers(plan, in, out) || !has_slot(team, number, polls / POLLS_A_LOOK))
        return false;
    const uint64_t history = tdmi_history_with(team->history, plan->digest);
    tdmi_quick_send(team, plan, number, history, team->label, in);
    const uint64_t entry = tdmi_group_record_call(group, &plan->call, false, number, now_ns); /* while the others come */
    const int before = polls;
    if (!tdmi_quick_met(team, plan, number, history, &polls)) {
        *status = tdmi_group_go_on(group, &(tdmi_request){.call = *call, .in = in, .out = out}, entry, now_ns);
        return true;
    }
    tdmi_quick_take(team, plan, number, in, out);
    group->number = number;
    team->history = history;
    if (polls == before)
        tdmi_recorder_finished_at_once(&group->recorder, entry);
    else
        tdmi_recorder_finished(&group->recorder, entry, TDMI_CALL_FINISHED);
    tdmi_group_publish_done(group, number);
    *status = TDM_OK;
    return true;
}
