/* failure.c - how a group ends before its time: a failure here is written where peers look and they are woken; a peer's
 * failure, death or departure becomes a failure here. The first one stays, with its text, on every rank. */
#include "group/group.h"

#include "core/clock.h"
#include "core/log.h"
#include "group/rendezvous.h"

#include <stdio.h>
#include <string.h>

static tdmi_board *own_board(const tdm_group *group)
{
    return group->team.board != NULL ? group->team.board[group->rank] : NULL;
}

static void wake_local(const tdm_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (group->is_local[r])
            tdmi_node_ring(group->world->node, group->world_rank[r]); /* own sleepers too */
}

void tdmi_group_fail(tdm_group *group, tdm_status status)
{
    pthread_mutex_lock(&group->failure_lock);
    const bool first = atomic_load_explicit(&group->failure, memory_order_relaxed) == TDM_OK;
    if (first) {
        snprintf(group->failure_text, sizeof group->failure_text, "%s", tdm_error_text());
        atomic_store_explicit(&group->failure, (int)status, memory_order_release); /* pairs with tdmi_group_failure */
        tdmi_board *board = own_board(group);
        if (board != NULL) {
            memcpy(board->failure_text, group->failure_text, sizeof board->failure_text);
            atomic_store_explicit(&board->failure, (uint32_t)status, memory_order_release); /* pairs with hear_failures */
        }
    }
    pthread_mutex_unlock(&group->failure_lock);
    if (first) {
        log_debug(TDM_LOG_GROUP, "group %s failed on rank %d: %s", group->name, group->rank, group->failure_text);
        wake_local(group);
    }
}

tdm_status tdmi_group_failure(tdm_group *group)
{
    const tdm_status status = (tdm_status)atomic_load_explicit(&group->failure, memory_order_acquire);
    if (status != TDM_OK)
        tdmi_error_set_text(group->failure_text);
    return status;
}

void tdm_group_abort(tdm_group *group, const char *reason)
{
    (void)tdmi_fail(TDM_ERR_ABORTED, "group %s was aborted by rank %d: %s", group->name, group->rank, reason);
    tdmi_group_fail(group, TDM_ERR_ABORTED);
}

void tdmi_group_say_goodbye(tdm_group *group)
{
    tdmi_board *board = own_board(group);
    if (board != NULL)
        atomic_store_explicit(&board->left, 1, memory_order_release); /* after `done`; pairs with hear_departures */
    wake_local(group);
}

static bool hear_failures(tdm_group *group)
{
    for (int r = 0; r < group->size; r++) {
        tdmi_board *board = r != group->rank ? group->team.board[r] : NULL;
        const uint32_t failure = board != NULL ? atomic_load_explicit(&board->failure, memory_order_acquire) : TDM_OK;
        if (failure == TDM_OK)
            continue;
        char text[TDMI_ERROR_TEXT_MAX];
        memcpy(text, board->failure_text, sizeof text);
        text[sizeof text - 1] = '\0';
        tdmi_error_set_text(text);
        tdmi_group_fail(group, (tdm_status)failure);
        return true;
    }
    return false;
}

/* A rank that left is missed only by calls it did not finish. */
static bool hear_departures(tdm_group *group)
{
    for (int r = 0; r < group->size; r++) {
        tdmi_board *board = r != group->rank ? group->team.board[r] : NULL;
        if (board == NULL)
            continue;
        const tdmi_life life = tdmi_node_life(group->world->node, group->world_rank[r]);
        const bool left = atomic_load_explicit(&board->left, memory_order_acquire) != 0 || life == TDMI_LEFT;
        const uint64_t done = atomic_load_explicit(&board->done, memory_order_acquire);
        if (!left && life == TDMI_DIED) {
            tdmi_group_fail(group, tdmi_fail(TDM_ERR_PEER_LOST, "rank %d of group %s (process %d on %s) died; see its log", r,
                                             group->name, tdmi_node_pid(group->world->node, group->world_rank[r]),
                                             group->host_name + (size_t)r * 72));
            return true;
        }
        if (left && group->active != NULL && done < group->number) {
            tdmi_group_fail(group, tdmi_fail(TDM_ERR_PEER_LOST, "rank %d left group %s after %llu calls; this rank waits for it in "
                                             "call %llu", r, group->name, (unsigned long long)done,
                                             (unsigned long long)(done + 1)));
            return true;
        }
    }
    return false;
}

static void time_out(tdm_group *group, const tdm_work *work)
{
    bool missing[group->size];
    char ranks[256], call[160];
    uint8_t signature[TDMI_SIGNATURE_BYTES];
    const int count = tdmi_run_missing(&work->run, missing);
    tdmi_ranks_text(missing, group->size, ranks, sizeof ranks);
    tdmi_signature_write(&work->run.plan->call, work->run.plan->fused, NULL, signature);
    tdmi_signature_text(signature, call, sizeof call);
    const unsigned long long number = work->run.number;
    tdmi_group_fail(group, count > 0 ? tdmi_fail(TDM_ERR_TIMEOUT, "call %llu of group %s, %s: rank%s %s did not arrive within %g s",
                                                 number, group->name, call, count == 1 ? "" : "s", ranks, group->timeout_s)
                                     : tdmi_fail(TDM_ERR_TIMEOUT, "call %llu of group %s, %s: all ranks arrived, but it was not over "
                                                 "within %g s", number, group->name, call, group->timeout_s));
}

void tdmi_group_check(tdm_group *group)
{
    if (atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK)
        return;
    if (group->team.board != NULL) {
        tdmi_node_listen(group->world->node);
        if (hear_failures(group) || hear_departures(group))
            return;
    }
    for (const tdm_work *work = group->active; work != NULL; work = work->next) {
        tdm_status status = tdmi_run_compare(&work->run);
        if (status != TDM_OK) {
            tdmi_group_fail(group, status);
            return;
        }
        if (tdmi_deadline_passed(work->deadline_ns)) {
            time_out(group, work);
            return;
        }
    }
}
