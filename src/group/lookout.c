/* lookout.c - tdm_progress: threads of the caller that advance the rank's calls and sleep until there is news.
 *
 * News is a count, `world.news`: whoever ends a call, fails a group or wakes adds one and then, if somebody is in tdm_progress, rings this
 * rank's own bell. Who sleeps has said so first and looks at the count afterwards, so one of the two sees the other.
 * The progress thread of links stands aside meanwhile, as for a thread that waits. */
#include "group/group.h"

#include "core/clock.h"

#include <tandem/progress.h>

#define SLEEP_NS (20 * TDMI_NS_PER_MS) /* between two looks for failures */

void tdmi_world_tell(tdmi_world *world)
{
    atomic_fetch_add(&world->news, 1);
    if (atomic_load(&world->lookouts) == 0)
        return;
    tdmi_node_ring(world->node, world->rank);
    tdmi_poller_kick(world);
}

static bool has_news(tdmi_world *world, uint32_t seen)
{
    return atomic_load(&world->news) != seen;
}

/* Sleeps unless something moves or there is news after the sleep was announced. */
static void sleep_once(tdmi_world *world, uint32_t seen, int64_t most_ns)
{
    const bool links = atomic_load(&world->link_busy) > 0;
    const uint32_t heard = tdmi_node_sleep_begin(world->node, links ? TDMI_SLEEP_EPOLL : TDMI_SLEEP_FUTEX);
    bool moved = false;
    tdmi_world_advance(world, NULL, false, &moved);
    if (moved || has_news(world, seen) || (links && !tdmi_links_arm(world)))
        return;
    if (links)
        tdmi_poller_sleep(world, TDMI_SLEEPER_WAITER, (int)(most_ns / TDMI_NS_PER_MS) + 1);
    else
        tdmi_node_sleep(world->node, heard, most_ns);
}

static void look_out(tdmi_world *world, uint32_t seen, int64_t end_ns)
{
    int64_t checked = tdmi_now_ns();
    for (;;) {
        bool moved = false;
        tdmi_world_advance(world, NULL, false, &moved);
        const int64_t now = tdmi_now_ns();
        if (has_news(world, seen) || now >= end_ns)
            return;
        if (now - checked >= SLEEP_NS) {
            tdmi_world_check(world);
            checked = now;
        }
        if (!moved)
            sleep_once(world, seen, end_ns - now < SLEEP_NS ? end_ns - now : SLEEP_NS);
    }
}

tdm_status tdm_progress(tdm_group *group, uint32_t *seen, double seconds)
{
    tdm_status status = tdmi_group_check_process(group);
    if (status != TDM_OK)
        return status;
    tdmi_world *world = group->world;
    atomic_fetch_add(&world->lookouts, 1);
    atomic_fetch_add(&world->waiters, 1);
    look_out(world, *seen, tdmi_deadline_in(seconds));
    atomic_fetch_sub(&world->lookouts, 1);
    tdmi_world_stop_waiting(world);
    *seen = atomic_load(&world->news);
    return TDM_OK;
}

void tdm_progress_wake(tdm_group *group)
{
    if (tdmi_group_check_process(group) == TDM_OK)
        tdmi_world_tell(group->world);
}
