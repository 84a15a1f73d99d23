/* set.c - the handle of coalesced calls: starting, waiting for, testing and keeping all pieces of a set. */
#include "group/set.h"

/* ---- calls that an engine starts together ---- */

static tdm_status gather(tdm_group *group, const tdmi_set *set, bool begins)
{
    bool any = false;
    for (size_t i = 0; i < set->piece_count; i++)
        any |= set->piece[i].gathered;
    if (!any)
        return TDM_OK;
    pthread_mutex_lock(&group->lock);
    tdm_status status = group->engine->ops->gather(group->engine, begins);
    if (status != TDM_OK)
        tdmi_group_fail(group, status);
    pthread_mutex_unlock(&group->lock);
    return status;
}

tdm_status tdmi_set_start_gathered(tdm_group *group, tdmi_set *set)
{
    tdm_status status = gather(group, set, true);
    if (status != TDM_OK)
        return status;
    for (size_t i = 0; i < set->piece_count && status == TDM_OK; i++)
        if (set->piece[i].gathered)
            status = tdmi_group_call(group, &set->request[set->piece[i].first], &set->piece[i].work);
    const tdm_status ended = gather(group, set, false);
    return status == TDM_OK ? ended : status;
}

/* ---- the handle of a set ---- */

static void take_results(tdm_group *group, tdmi_set *set, tdmi_piece *p)
{
    if (!p->moved)
        tdmi_set_move(group, set, p, true);
    p->moved = true;
}

tdm_status tdmi_set_wait_all(tdm_group *group, tdmi_set *set)
{
    tdm_status first = TDM_OK;
    for (size_t i = 0; i < set->piece_count; i++) {
        if (set->piece[i].work == NULL)
            continue; /* it could not start */
        tdm_status status = tdm_work_wait(set->piece[i].work);
        if (status == TDM_OK)
            take_results(group, set, &set->piece[i]);
        first = first == TDM_OK ? status : first;
    }
    return first;
}

void tdmi_set_give_back(tdm_group *group, tdmi_set *set)
{
    set->request_count = set->piece_count = 0;
    pthread_mutex_lock(&group->lock);
    set->next = group->idle_sets;
    group->idle_sets = set;
    pthread_mutex_unlock(&group->lock);
}

tdm_status tdmi_set_wait(tdm_group *group, tdmi_set *set, bool keeps)
{
    tdm_status status = tdmi_set_wait_all(group, set);
    if (!keeps)
        tdmi_set_give_back(group, set);
    return status;
}

tdm_status tdmi_set_test(tdm_group *group, tdmi_set *set, bool *done)
{
    *done = true;
    for (size_t i = 0; i < set->piece_count && *done; i++) {
        tdm_status status = tdm_work_test(set->piece[i].work, done);
        if (status != TDM_OK)
            return status;
        if (*done)
            take_results(group, set, &set->piece[i]);
    }
    return TDM_OK;
}

/* ---- a callback when the last is over: results are in place then; runs where theirs run, the group's lock held ---- */

static void one_less(tdmi_set *set)
{
    if (atomic_fetch_sub(&set->left, 1) != 1)
        return;
    for (size_t i = 0; i < set->piece_count && set->status == TDM_OK; i++)
        take_results(set->group, set, &set->piece[i]);
    set->on_done(set->on_done_arg, set->status);
}

static void piece_done(void *arg, tdm_status status)
{
    tdmi_set *set = arg;
    set->status = set->status == TDM_OK ? status : set->status;
    one_less(set);
}

void tdmi_set_on_done(tdmi_set *set, tdm_done fn, void *arg)
{
    set->on_done = fn;
    set->on_done_arg = arg;
    set->status = TDM_OK;
    atomic_store(&set->left, set->piece_count + 1);
    for (size_t i = 0; i < set->piece_count; i++)
        tdm_work_on_done(set->piece[i].work, piece_done, set);
    one_less(set); /* those that were over before have counted; if it was the last, nobody else is at it */
}

/* ---- kept ---- */

tdm_status tdmi_set_keep(tdmi_set *set)
{
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < set->piece_count && status == TDM_OK; i++)
        status = tdm_work_keep(set->piece[i].work);
    return status;
}

tdm_status tdmi_set_start(tdm_group *group, tdmi_set *set)
{
    tdm_status status = gather(group, set, true);
    for (size_t i = 0; i < set->piece_count && status == TDM_OK; i++) {
        tdmi_piece *p = &set->piece[i];
        if (p->count > 1) {
            tdmi_set_move(group, set, p, false);
            p->moved = false;
        }
        status = tdm_work_start(p->work);
    }
    const tdm_status ended = gather(group, set, false);
    return status == TDM_OK ? ended : status;
}

void tdmi_set_free(tdm_group *group, tdmi_set *set)
{
    for (size_t i = 0; i < set->piece_count; i++)
        tdm_work_free(set->piece[i].work);
    tdmi_set_give_back(group, set);
}

tdm_work *tdmi_set_work(const tdmi_set *set, size_t index)
{
    return index < set->piece_count ? set->piece[index].work : NULL;
}
