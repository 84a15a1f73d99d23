/* handle.c - what a caller may want of a call under way besides waiting: whether it is over, a callback, another time-out, what it
 * does and why; and that a child of fork() keeps its hands off it. */
#include "group/group.h"

#include "coll/explain.h"
#include "core/clock.h"
#include "core/fork.h"

#include <stdio.h>

#define CHECK_NS (5 * TDMI_NS_PER_MS) /* between two looks for failures by a rank that only tests */

static void call_back(tdm_work *work, tdm_status status)
{
    const tdm_done fn = work->on_done;
    work->on_done = NULL;
    if (fn != NULL)
        fn(work->on_done_arg, status);
}

void tdmi_work_done(tdm_work *work)
{
    work->done = true;
    tdmi_world_tell(work->group->world);
    if (work->on_done != NULL)
        call_back(work, tdmi_group_failure(work->group));
}

void tdmi_group_give_up(tdm_group *group)
{
    const tdm_status status = tdmi_group_failure(group);
    for (tdm_work *work = group->made; work != NULL; work = work->next_made)
        call_back(work, status); /* those that are over have none left */
}

tdm_status tdm_work_test(tdm_work *work, bool *done)
{
    tdm_group *group = work->group;
    bool moved = false;
    tdm_status status = tdmi_group_check_process(group);
    if (status != TDM_OK || work->set != NULL)
        return status != TDM_OK ? status : tdmi_set_test(group, work->set, done);
    pthread_mutex_lock(&group->lock);
    if (!work->done && tdmi_group_failure(group) == TDM_OK)
        tdmi_group_advance(group, true, &moved);
    *done = work->done;
    pthread_mutex_unlock(&group->lock);
    if (*done)
        return TDM_OK;
    tdmi_world_advance(group->world, group, true, &moved);
    if (!moved) {
        pthread_mutex_lock(&group->lock);
        if (tdmi_now_ns() - group->heard_ns > CHECK_NS)
            tdmi_group_check(group);
        pthread_mutex_unlock(&group->lock);
    }
    status = tdmi_group_failure(group);
    *done = status != TDM_OK;
    if (*done) {
        pthread_mutex_lock(&group->lock);
        tdmi_group_record_failure(group);
        pthread_mutex_unlock(&group->lock);
    }
    return status;
}

void tdm_work_on_done(tdm_work *work, tdm_done fn, void *arg)
{
    tdm_group *group = work->group;
    if (tdmi_group_check_process(group) != TDM_OK)
        return;
    if (work->set != NULL) {
        tdmi_set_on_done(work->set, fn, arg);
        return;
    }
    pthread_mutex_lock(&group->lock);
    work->on_done = fn;
    work->on_done_arg = arg;
    if (work->done)
        call_back(work, TDM_OK);
    else if (atomic_load_explicit(&group->failure, memory_order_acquire) != TDM_OK)
        tdmi_group_give_up(group);
    pthread_mutex_unlock(&group->lock);
}

void tdm_work_set_timeout(tdm_work *work, double timeout_s)
{
    tdm_group *group = work->group;
    if (tdmi_group_check_process(group) != TDM_OK)
        return;
    for (size_t i = 0; work->set != NULL && tdmi_set_work(work->set, i) != NULL; i++)
        tdm_work_set_timeout(tdmi_set_work(work->set, i), timeout_s);
    pthread_mutex_lock(&group->lock);
    work->timeout_s = timeout_s;
    work->deadline_ns = tdmi_deadline_in(timeout_s);
    pthread_mutex_unlock(&group->lock);
}

void tdm_group_set_timeout(tdm_group *group, double timeout_s)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return;
    pthread_mutex_lock(&group->lock);
    group->timeout_s = timeout_s;
    pthread_mutex_unlock(&group->lock);
}

tdm_status tdmi_group_check_process(const tdm_group *group)
{
    if (group->world->forks == tdmi_fork_number())
        return TDM_OK;
    return tdmi_fail(TDM_ERR_INVALID, "group %s was made by the parent of this process; a child of fork() has no part in it: make a new "
                     "group here, or use the parent's only there", group->name);
}

static const char *algorithm_name(const tdmi_way *way)
{
    return way == NULL ? NULL : way->algorithm != NULL ? way->algorithm->name : "fused";
}

const char *tdm_work_algorithm(tdm_work *work)
{
    if (work->set != NULL)
        return tdmi_set_work(work->set, 0) != NULL ? tdm_work_algorithm(tdmi_set_work(work->set, 0)) : NULL;
    pthread_mutex_lock(&work->group->lock);
    const char *name = work->is_message ? NULL : work->by_engine ? tdm_group_engine(work->group) : algorithm_name(work->run.way);
    pthread_mutex_unlock(&work->group->lock);
    return name;
}

/* What becomes of memory from malloc inside this node. */
static size_t explain_reading(const tdmi_world *world, char *text, size_t capacity, size_t length)
{
    const bool full = length >= capacity;
    const int more = snprintf(full ? NULL : text + length, full ? 0 : capacity - length, "        memory from malloc: %s\n", world->reading);
    return length + (more > 0 ? (size_t)more : 0);
}

size_t tdm_work_explain(tdm_work *work, char *text, size_t capacity)
{
    const tdmi_run *run = &work->run;
    size_t length = 0;
    for (size_t i = 0; work->set != NULL && tdmi_set_work(work->set, i) != NULL; i++)
        length += tdm_work_explain(tdmi_set_work(work->set, i), length < capacity ? text + length : NULL,
                                   length < capacity ? capacity - length : 0);
    if (work->set != NULL)
        return length;
    pthread_mutex_lock(&work->group->lock);
    if (!work->is_message && run->way != NULL)
        length = tdmi_explain(&run->request.call, algorithm_name(run->way), run->way->why, &run->way->steps, work->group->rank,
                              work->group->size, text, capacity);
    if (length > 0 && work->group->local_size > 1)
        length = explain_reading(work->group->world, text, capacity, length);
    pthread_mutex_unlock(&work->group->lock);
    return length;
}
