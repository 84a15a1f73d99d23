/* handle.c - what a caller may want of a call under way besides waiting: a callback, another time-out; and that a child of
 * fork() keeps its hands off it. */
#include "group/group.h"

#include "core/clock.h"
#include "core/fork.h"

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
    if (work->on_done != NULL)
        call_back(work, tdmi_group_failure(work->group));
}

void tdmi_group_give_up(tdm_group *group)
{
    const tdm_status status = tdmi_group_failure(group);
    for (tdm_work *work = group->made; work != NULL; work = work->next_made)
        call_back(work, status); /* those that are over have none left */
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
