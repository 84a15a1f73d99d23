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

/* Whoever meets one of these wants to see what the ranks did last. A text from another rank says it already. */
static void point_to_recordings(const tdm_group *group, tdm_status status)
{
    const tdmi_recorder *recorder = group->world->recorder;
    if (recorder == NULL || (status != TDM_ERR_MISMATCH && status != TDM_ERR_TIMEOUT && status != TDM_ERR_PEER_LOST) ||
        strstr(tdm_error_text(), "`tandem doctor ") != NULL)
        return;
    char text[TDMI_ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s", tdm_error_text());
    (void)tdmi_fail(status, "%s; `tandem doctor %s` compares the last calls of its ranks", text, tdmi_recorder_folder(recorder));
}

void tdmi_group_fail(tdm_group *group, tdm_status status)
{
    point_to_recordings(group, status);
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
        tdmi_world_tell(group->world);
        tdmi_poller_kick(group->world);
        tdmi_control_send_failure(group, status, group->failure_text);
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
    if (tdmi_group_check_process(group) != TDM_OK)
        return;
    (void)tdmi_fail(TDM_ERR_ABORTED, "group %s was aborted by rank %d: %s", group->name, group->rank, reason);
    tdmi_group_fail(group, TDM_ERR_ABORTED);
}

void tdmi_group_say_goodbye(tdm_group *group)
{
    tdmi_board *board = own_board(group);
    if (board != NULL)
        atomic_store_explicit(&board->left, 1, memory_order_release); /* after `done`; pairs with local_fate */
    tdmi_control_send_goodbye(group);
    wake_local(group);
}

/* Takes over the failure that a rank of this node wrote down. */
static bool hear_failure(tdm_group *group, const tdmi_board *board)
{
    const uint32_t failure = atomic_load_explicit(&board->failure, memory_order_acquire);
    if (failure == TDM_OK)
        return false;
    char text[TDMI_ERROR_TEXT_MAX];
    memcpy(text, board->failure_text, sizeof text);
    text[sizeof text - 1] = '\0';
    tdmi_error_set_text(text);
    tdmi_group_fail(group, (tdm_status)failure);
    return true;
}

typedef struct fate {
    bool died, left;
    uint64_t done; /* calls it finished, where it left */
} fate;

static fate local_fate(const tdm_group *group, int rank)
{
    const tdmi_board *board = group->team.board[rank];
    const tdmi_life life = tdmi_node_life(group->world->node, group->world_rank[rank]);
    fate f = {.left = atomic_load_explicit(&board->left, memory_order_acquire) != 0 || life == TDMI_LEFT};
    f.died = !f.left && life == TDMI_DIED;
    f.done = atomic_load_explicit(&board->done, memory_order_acquire);
    return f;
}

/* Its last bytes may be here already: calls get a turn with them before a death counts. */
static fate remote_fate(tdmi_control *control)
{
    const bool died = control->closed && !control->left;
    const fate f = {.died = died && control->mourned, .left = control->left, .done = control->done};
    control->mourned = died;
    return f;
}

/* Whether a message under way waits for a rank that has left. What one of this node had sent lies here and is read first; of a
 * rank on another node its stream says when that is over, but over UCX, which takes a second to close. */
static bool misses_message(tdm_group *group, int rank)
{
    bool moved = true;
    if (group->ucx != NULL && !group->is_local[rank])
        return tdmi_messages_need(group, rank) && tdmi_now_ns() - group->control[rank].left_ns > 2 * TDMI_NS_PER_S;
    while (group->is_local[rank] && tdmi_messages_need(group, rank)) {
        if (!moved)
            return true;
        moved = false;
        tdm_status status = tdmi_messages_advance(group, &moved);
        if (status != TDM_OK) {
            tdmi_group_fail(group, status);
            return false;
        }
    }
    return false;
}

/* A rank that is gone is missed by calls it did not finish, a dead one by all that is to come. What it had done before, the
 * others may still finish. */
static bool hear_departure(tdm_group *group, int rank, fate f)
{
    const bool missed = group->active != NULL && f.done < group->number;
    if (f.died && (missed || group->active == NULL))
        tdmi_group_fail(group, tdmi_fail(TDM_ERR_PEER_LOST, "rank %d of group %s (process %d on %s) died; see its log", rank,
                                         group->name, group->pid[rank], group->host_name + (size_t)rank * TDMI_HOST_NAME_BYTES));
    else if (f.left && !missed && misses_message(group, rank))
        tdmi_group_fail(group, tdmi_fail(TDM_ERR_PEER_LOST, "rank %d left group %s; rank %d has a message from or to it under way", rank,
                                         group->name, group->rank));
    else if (f.left && missed)
        tdmi_group_fail(group, tdmi_fail(TDM_ERR_PEER_LOST, "rank %d left group %s after %llu calls; call %llu needs it", rank,
                                         group->name, (unsigned long long)f.done, (unsigned long long)group->number));
    return atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK;
}

/* What became of the others. True if the group is dead. */
static bool hear_all(tdm_group *group)
{
    group->heard_ns = tdmi_now_ns();
    if (group->team.board != NULL)
        tdmi_node_listen(group->world->node);
    tdmi_control_hear(group);
    if (atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK)
        return true;
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && group->team.board != NULL && group->team.board[r] != NULL &&
            hear_failure(group, group->team.board[r]))
            return true;
    for (int r = 0; r < group->size; r++) {
        fate f = {0};
        if (r != group->rank && group->is_local[r])
            f = local_fate(group, r);
        else if (tdmi_control_reaches(group, r))
            f = remote_fate(&group->control[r]);
        if (hear_departure(group, r, f))
            return true;
    }
    return false;
}

/* A rank that only gave in its last calls has waited for nobody: whether they were the others' calls too it may not know yet. */
void tdmi_group_look_back(tdm_group *group)
{
    if (group->team.board == NULL || atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK)
        return;
    pthread_mutex_lock(&group->lock);
    const tdm_status status = tdmi_history_check(&group->team, group->number);
    if (status != TDM_OK)
        tdmi_group_fail(group, status);
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && group->team.board[r] != NULL &&
            atomic_load_explicit(&group->team.board[r]->failure, memory_order_relaxed) == TDM_ERR_MISMATCH)
            (void)hear_failure(group, group->team.board[r]);
    if (tdmi_group_failure(group) != TDM_OK) {
        tdmi_group_record_failure(group);
        log_error(TDM_LOG_GROUP, "%s", tdm_error_text());
    }
    pthread_mutex_unlock(&group->lock);
}

void tdmi_group_catch_up(tdm_group *group, int64_t now_ns)
{
    if (group->size > 1 && now_ns - group->heard_ns > TDMI_CATCH_UP_NS)
        (void)hear_all(group);
}

void tdmi_group_lost(tdm_group *group)
{
    char text[TDMI_ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s", tdm_error_text());
    for (int i = 0; i < 20; i++) { /* 100 ms: news travel on another connection */
        if (hear_all(group))
            return;
        nanosleep(&(struct timespec){.tv_nsec = 5 * TDMI_NS_PER_MS}, NULL);
    }
    tdmi_error_set_text(text);
    tdmi_group_fail(group, TDM_ERR_PEER_LOST);
}

void tdmi_group_call_text(const tdm_work *work, char *text, size_t nbytes)
{
    char call[160], label[TDMI_LABEL_BYTES + 4];
    uint8_t signature[TDMI_SIGNATURE_BYTES];
    if (work->by_engine)
        tdmi_agreement_sign(work, -1, signature);
    else
        tdmi_signature_write(&work->run.plan->call, work->run.plan->fused, NULL, work->group->rank, -1, signature);
    tdmi_signature_text(signature, call, sizeof call);
    tdmi_label_text(work->run.label.text, label);
    snprintf(text, nbytes, "%s%s", call, label);
}

int tdmi_group_missing(const tdm_work *work, bool *missing)
{
    return work->by_engine ? tdmi_engine_call_missing(work, missing) : tdmi_run_missing(&work->run, missing);
}

static void time_out(tdm_group *group, const tdm_work *work)
{
    bool missing[group->size];
    char ranks[256], call[TDMI_CALL_TEXT_BYTES], excuses[TDMI_ERROR_TEXT_MAX / 2];
    const int count = tdmi_group_missing(work, missing);
    tdmi_ranks_text(missing, group->size, ranks, sizeof ranks);
    tdmi_group_excuses(group, missing, work->run.number, excuses, sizeof excuses);
    tdmi_group_call_text(work, call, sizeof call);
    const unsigned long long number = work->run.number;
    tdmi_group_fail(group, count > 0 ? tdmi_fail(TDM_ERR_TIMEOUT, "call %llu of group %s, %s: rank%s %s did not arrive within %g s%s",
                                                 number, group->name, call, count == 1 ? "" : "s", ranks, work->timeout_s, excuses)
                                     : tdmi_fail(TDM_ERR_TIMEOUT, "call %llu of group %s, %s: all ranks arrived, but it was not over "
                                                 "within %g s", number, group->name, call, work->timeout_s));
}

/* Whom a call waits for is asked once it has waited for long, so that the answer is there when its time is up. */
static void ask_who_is_there(tdm_group *group, const tdm_work *work)
{
    const int64_t patience_ns = (int64_t)(work->timeout_s * 0.5e9);
    const int64_t ask_at = work->deadline_ns - (patience_ns > TDMI_NS_PER_S ? patience_ns : patience_ns / 2);
    if (!tdmi_deadline_passed(ask_at))
        return;
    if (group->control != NULL && work->run.number > group->announced)
        tdmi_control_announce(group);
}

void tdmi_group_check(tdm_group *group)
{
    if (atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK || hear_all(group)) {
        tdmi_group_give_up(group);
        return;
    }
    tdmi_group_say_where(group);
    tdm_status late = tdmi_messages_late(group);
    if (late != TDM_OK) {
        tdmi_group_fail(group, late);
        return;
    }
    for (const tdm_work *work = group->active; work != NULL; work = work->next) {
        tdmi_group_record_arrivals(group, work);
        tdm_status status = work->run.plan == NULL ? TDM_OK : tdmi_run_compare(&work->run);
        if (status == TDM_ERR_PEER_LOST)
            return; /* the call itself will meet it, and say why */
        if (status != TDM_OK) {
            tdmi_group_fail(group, status);
            return;
        }
        ask_who_is_there(group, work);
        if (work->run.plan != NULL)
            tdmi_group_warn_of_stopped(group, work, group->heard_ns);
        if (tdmi_deadline_passed(work->deadline_ns)) {
            time_out(group, work);
            return;
        }
    }
}
