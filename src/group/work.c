/* work.c - calls under way: started in order, advanced together, finished in any order.
 *
 * Calls that use shared memory alone advance independently, so that a late peer of one stops no other. Calls that use links
 * share byte streams and take their turns in order. A handle's memory is kept for the next call. */
#include "group/group.h"

#include "coll/quick.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/memory.h"

#define SPIN_ROUNDS 20 /* times */
#define SPIN_POLLS 50  /* some 50 us */

static tdm_status take_idle(tdm_group *group, tdm_work **out)
{
    tdm_work *work = group->idle;
    if (work != NULL) {
        group->idle = work->next;
    } else {
        work = tdmi_calloc(1, sizeof *work, "work handle");
        if (work == NULL)
            return TDM_ERR_NO_MEMORY;
        work->group = group;
        work->next_made = group->made;
        group->made = work;
    }
    work->is_message = work->kept = work->rests = false;
    work->set = NULL;
    work->on_done = NULL;
    work->timeout_s = group->timeout_s;
    work->done = work->started = work->waited = false;
    work->next = NULL;
    *out = work;
    return TDM_OK;
}

static void give_idle(tdm_group *group, tdm_work *work)
{
    work->next = group->idle;
    group->idle = work;
}

void tdmi_group_free_work(tdm_group *group)
{
    while (group->made != NULL) {
        tdm_work *work = group->made;
        group->made = work->next_made;
        tdmi_run_free(&work->run);
        tdmi_free(work->slice);
        tdmi_free(work->counts);
        tdmi_free(work);
    }
}

/* The handle is in use, by whichever thread. */
static void give_out(tdm_group *group)
{
    group->out++;
    atomic_store_explicit(&group->quiet, false, memory_order_relaxed);
}

/* The last that a thread does before it gives the lock back. */
static void note_quiet(tdm_group *group)
{
    atomic_store_explicit(&group->quiet, group->out == 0 && !tdmi_group_is_busy(group), memory_order_release); /* pairs with quick.c */
}

static void append(tdm_group *group, tdm_work *work)
{
    give_out(group);
    tdm_work **at = &group->active;
    while (*at != NULL)
        at = &(*at)->next;
    *at = work;
    if (group->active == work)
        atomic_fetch_add_explicit(&group->world->busy, 1, memory_order_relaxed);
}

/* Takes *at out of the active list; its owner waits for it, or will. */
static void complete(tdm_group *group, tdm_work **at)
{
    tdm_work *work = *at;
    *at = work->next;
    tdmi_work_done(work);
    if (group->active == NULL)
        atomic_fetch_sub_explicit(&group->world->busy, 1, memory_order_relaxed);
    tdmi_group_publish_done(group, group->active != NULL ? group->active->run.number - 1 : group->number);
}

static void note_links(tdm_group *group, bool waits)
{
    if (waits == group->waits_for_links)
        return;
    group->waits_for_links = waits;
    tdmi_world *world = group->world;
    if (atomic_fetch_add(&world->link_busy, waits ? 1 : -1) == 0 && atomic_load(&world->waiters) > 0)
        tdmi_node_ring(world->node, world->rank); /* who sleeps where no link is heard looks again */
}

/* False: the group has failed. */
static bool advance_messages(tdm_group *group, bool *moved)
{
    tdm_status status = tdmi_messages_advance(group, moved);
    if (status == TDM_ERR_PEER_LOST)
        tdmi_group_lost(group);
    else if (status != TDM_OK)
        tdmi_group_fail(group, status);
    return status == TDM_OK;
}

/* Of a call that is not over. */
static void note_progress(tdm_group *group, tdm_work *work)
{
    if (!work->started && (work->by_engine || work->run.state >= TDMI_RUN_STEPPING)) {
        tdmi_recorder_started(&group->recorder, work->entry, !work->waited);
        work->started = true;
    }
    work->waited = true;
}

void tdmi_group_advance(tdm_group *group, bool epilogues, bool *moved)
{
    tdmi_turns turns = {.links = true, .stage = true, .epilogues = epilogues};
    bool waits_for_links = false;
    for (tdm_work **at = &group->active; *at != NULL;) {
        tdm_work *work = *at;
        bool over = false;
        tdm_status status = work->by_engine ? tdmi_engine_call_advance(work, &turns, &over, moved)
                                            : tdmi_run_advance(&work->run, &turns, &over, moved);
        if (status == TDM_ERR_PEER_LOST)
            tdmi_group_lost(group);
        else if (status != TDM_OK)
            tdmi_group_fail(group, status);
        if (status != TDM_OK)
            return;
        if (over) {
            tdmi_recorder_finished(&group->recorder, work->entry, TDMI_CALL_FINISHED);
            complete(group, at);
            continue;
        }
        note_progress(group, work);
        waits_for_links |= work->run.way != NULL && work->run.way->uses_links;
        at = &work->next;
    }
    if (tdmi_messages_busy(&group->messages) && !advance_messages(group, moved))
        return;
    note_links(group, waits_for_links || (tdmi_messages_busy(&group->messages) && !tdmi_group_meets_alone(group)));
}

static void record(tdm_group *group, tdm_work *work, int64_t now_ns)
{
    work->entry = tdmi_group_record_call(group, work->by_engine ? &work->asked.call : &work->run.plan->call,
                                         (work->by_engine ? &work->asked : &work->run.request)->epilogue != NULL, work->run.number, now_ns);
}

/* A call that its caller waits for while nothing else is under way: most end here, with the lock taken once and without a look
 * at the kernel's clock. What is noted of it is written while the others are awaited. False: the call goes on in wait.c. */
static bool spin(tdm_group *group, tdm_work *work, int64_t now_ns)
{
    bool over = false, recorded = false;
    for (int rounds = 0; rounds < SPIN_ROUNDS && !over; rounds++) {
        tdmi_turns turns = {.links = true, .stage = true, .polls = rounds > 0 ? SPIN_POLLS : 0, .epilogues = true};
        bool moved = false;
        const tdm_status status = tdmi_run_advance(&work->run, &turns, &over, &moved);
        if (!recorded)
            record(group, work, now_ns);
        recorded = true;
        if (status != TDM_OK)
            return false; /* the next advance says the same */
        if (over)
            break;
        note_progress(group, work);
        if (moved)
            rounds = 0;
        if (atomic_load_explicit(&group->world->busy, memory_order_relaxed) > 0 ||
            atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK)
            break;
    }
    if (!over)
        return false;
    tdmi_recorder_finished(&group->recorder, work->entry, TDMI_CALL_FINISHED);
    tdmi_group_publish_done(group, group->number);
    tdmi_run_end(&work->run);
    give_idle(group, work);
    note_quiet(group);
    return true;
}

static bool may_spin(const tdm_group *group)
{
    const tdmi_world *world = group->world;
    return group->active == NULL && !tdmi_messages_busy(&group->messages) && group->team.is_local && !world->crowded &&
           atomic_load_explicit(&world->busy, memory_order_relaxed) == 0;
}

/* The handle of a new call, or `again` for the call that it has kept. */
static tdm_status prepare(tdm_group *group, const tdmi_request *request, tdm_work *again, tdm_work **out)
{
    if (again != NULL) {
        again->done = again->started = again->waited = again->rests = false;
        again->next = NULL;
        *out = again;
        if (again->by_engine)
            return tdmi_engine_call_again(again, group->number + 1);
        tdmi_run_again(&again->run, group->number + 1);
        return TDM_OK;
    }
    tdm_status status = take_idle(group, out);
    if (status != TDM_OK)
        return status;
    status = tdmi_group_engine_takes(group, request) ? tdmi_engine_call_start(*out, group->number + 1, request)
                                                     : tdmi_run_start(&(*out)->run, &group->team, group->number + 1, request);
    if (status != TDM_OK)
        give_idle(group, *out);
    return status;
}

/* waits: its caller does nothing else; *out is NULL if the call is over. */
static tdm_status start(tdm_group *group, const tdmi_request *request, tdm_work *again, bool waits, tdm_work **out)
{
    tdm_work *work = NULL;
    pthread_mutex_lock(&group->lock);
    const int64_t now_ns = tdmi_quick_ns(&group->clock);
    tdmi_group_catch_up(group, now_ns);
    tdm_status status = tdmi_group_failure(group);
    if (status == TDM_OK)
        status = prepare(group, request, again, &work);
    if (status == TDM_OK) {
        bool moved = false;
        group->number++;
        const bool spins = waits && !work->by_engine && may_spin(group);
        if (spins && spin(group, work, now_ns)) {
            pthread_mutex_unlock(&group->lock);
            *out = NULL;
            return TDM_OK;
        }
        work->deadline_ns = now_ns + (int64_t)(work->timeout_s * 1e9);
        append(group, work);
        if (!spins)
            record(group, work, now_ns);
        if (group->asked > group->announced && group->number >= group->asked)
            tdmi_control_announce(group);
        tdmi_group_advance(group, true, &moved);
        *out = work;
    } else {
        tdmi_group_record_failure(group);
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

static tdm_status start_message(tdm_group *group, const tdmi_message *message, tdm_work **out)
{
    tdm_work *work = NULL;
    pthread_mutex_lock(&group->lock);
    tdmi_group_catch_up(group, tdmi_now_ns());
    tdm_status status = tdmi_group_failure(group);
    if (status == TDM_OK)
        status = tdmi_messages_prepare(group, message);
    if (status == TDM_OK)
        status = take_idle(group, &work);
    if (status == TDM_OK) {
        bool moved = false;
        give_out(group);
        work->is_message = true;
        work->message = *message;
        work->message.work = work;
        work->deadline_ns = tdmi_deadline_in(group->timeout_s);
        tdm_status begun = tdmi_messages_begin(group, &work->message);
        if (begun != TDM_OK)
            tdmi_group_fail(group, begun);
        else
            tdmi_group_advance(group, true, &moved);
        *out = work;
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* Waits and gives the handle back, unless it is kept. */
static tdm_status finish_message(tdm_work *work)
{
    tdm_group *group = work->group;
    tdmi_group_wait(work);
    pthread_mutex_lock(&group->lock);
    const bool done = work->done;
    if (!done)
        tdmi_messages_drop(group, &work->message);
    tdmi_group_say_end(group, work, done);
    give_idle(group, work);
    group->out--;
    note_quiet(group);
    pthread_mutex_unlock(&group->lock);
    return done ? TDM_OK : tdmi_group_failure(group);
}

static void let_go(tdm_group *group, tdm_work *work)
{
    if (work->by_engine)
        tdmi_engine_call_end(work);
    else if (work->set == NULL)
        tdmi_run_end(&work->run);
    give_idle(group, work);
}

static tdm_status finish(tdm_work *work)
{
    tdm_group *group = work->group;
    if (work->is_message)
        return finish_message(work);
    tdmi_group_wait(work);
    pthread_mutex_lock(&group->lock);
    const bool done = work->done;
    if (!done)
        tdmi_group_record_failure(group);
    tdmi_group_say_end(group, work, done);
    for (tdm_work **at = &group->active; !done && *at != NULL; at = &(*at)->next)
        if (*at == work) {
            complete(group, at);
            break;
        }
    work->rests = work->kept;
    if (!work->kept)
        let_go(group, work); /* until here the handle knows its plan */
    group->out--;
    note_quiet(group);
    pthread_mutex_unlock(&group->lock);
    return done ? TDM_OK : tdmi_group_failure(group);
}

static tdm_status finish_set(tdm_work *work)
{
    tdm_group *group = work->group;
    tdm_status status = tdmi_set_wait(group, work->set, work->kept);
    pthread_mutex_lock(&group->lock);
    work->rests = work->kept;
    if (!work->kept)
        give_idle(group, work);
    group->out--;
    note_quiet(group);
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* Work that has started: its caller waits for it here, or gets the handle. */
static tdm_status hand_out(tdm_work *work, tdm_work **work_out)
{
    tdmi_world *world = work->group->world;
    if (work_out == NULL)
        return finish(work);
    *work_out = work;
    if (atomic_load(&world->link_busy) > 0)
        tdmi_progress_call(world);
    return TDM_OK;
}

tdm_status tdmi_group_call(tdm_group *group, const tdmi_request *request, tdm_work **work_out)
{
    tdm_work *work = NULL;
    tdm_status status = tdmi_group_check_process(group);
    if (status == TDM_OK)
        status = start(group, request, NULL, work_out == NULL, &work);
    if (status != TDM_OK || work == NULL)
        return status;
    return hand_out(work, work_out);
}

tdm_status tdmi_group_go_on(tdm_group *group, const tdmi_request *request, uint64_t entry, int64_t now_ns)
{
    tdm_work *work = NULL;
    pthread_mutex_lock(&group->lock);
    const tdm_status status = prepare(group, request, NULL, &work);
    if (status == TDM_OK) {
        bool moved = false;
        group->number++;
        tdmi_quick_hand_over(&work->run);
        work->entry = entry;
        work->deadline_ns = now_ns + (int64_t)(work->timeout_s * 1e9);
        append(group, work);
        tdmi_group_advance(group, true, &moved);
    } else {
        tdmi_group_fail(group, status); /* the others think that it is made */
    }
    pthread_mutex_unlock(&group->lock);
    return status == TDM_OK ? finish(work) : status;
}

tdm_status tdmi_group_message(tdm_group *group, const tdmi_message *message, tdm_work **work_out)
{
    tdm_work *work = NULL;
    tdm_status status = tdmi_group_check_process(group);
    if (status == TDM_OK)
        status = start_message(group, message, &work);
    if (status != TDM_OK)
        return status;
    return hand_out(work, work_out);
}

tdm_status tdm_work_wait(tdm_work *work)
{
    tdm_status status = tdmi_group_check_process(work->group);
    if (status != TDM_OK)
        return status;
    return work->set != NULL ? finish_set(work) : finish(work);
}

tdm_status tdmi_group_hold_set(tdm_group *group, tdmi_set *set, tdm_work **work)
{
    pthread_mutex_lock(&group->lock);
    tdm_status status = take_idle(group, work);
    if (status == TDM_OK) {
        (*work)->set = set;
        give_out(group);
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* ---- kept calls ---- */

tdm_status tdm_work_keep(tdm_work *work)
{
    if (work->is_message)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_work_keep: a send or receive cannot be kept");
    if (work->by_engine && work->call != NULL && work->call->ops->again == NULL)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "tdm_work_keep: a call of engine %s cannot be kept", tdm_group_engine(work->group));
    work->kept = true;
    return work->set != NULL ? tdmi_set_keep(work->set) : TDM_OK;
}

tdm_status tdm_work_start(tdm_work *work)
{
    tdm_group *group = work->group;
    tdm_status status = tdmi_group_check_process(group);
    if (status != TDM_OK)
        return status;
    if (!work->kept)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_work_start: this call of group %s was not kept", group->name);
    if (!work->rests)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_work_start: this call of group %s is under way; wait for it first", group->name);
    if (group->set != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_work_start: group %s is coalescing; end that first", group->name);
    if (work->set != NULL) {
        pthread_mutex_lock(&group->lock);
        work->rests = false;
        give_out(group);
        pthread_mutex_unlock(&group->lock);
        return tdmi_set_start(group, work->set);
    }
    tdm_work *same;
    status = start(group, NULL, work, false, &same);
    if (status == TDM_OK && atomic_load(&group->world->link_busy) > 0)
        tdmi_progress_call(group->world);
    return status;
}

void tdm_work_free(tdm_work *work)
{
    if (work == NULL)
        return;
    tdm_group *group = work->group;
    if (!work->rests && tdm_work_wait(work) != TDM_OK)
        tdmi_error_set_text(""); /* whose handle goes nobody asks how it ended */
    if (work->set != NULL)
        tdmi_set_free(group, work->set);
    pthread_mutex_lock(&group->lock);
    let_go(group, work);
    pthread_mutex_unlock(&group->lock);
}
