/* wait.c - how a rank waits: it works on whatever can advance, spins for about twice the time the call should take, then
 * sleeps until a peer rings. Where ranks outnumber cores it yields a few times instead of spinning. Now and then it looks
 * for failures: every millisecond awake, every 20 asleep. */
#include "group/group.h"

#include "core/clock.h"
#include "core/cpu.h"

#include <sched.h>

#define CHECK_AWAKE_NS (1 * TDMI_NS_PER_MS)
#define CHECK_ASLEEP_NS (20 * TDMI_NS_PER_MS)
#define SPIN_LEAST_NS 40000ll
#define SPIN_MOST_NS (20 * TDMI_NS_PER_MS)
#define POLLS_A_LOOK 32 /* at the work for one at the clock */
#define YIELDS 4

void tdmi_world_advance(tdmi_world *world, const tdm_group *except, bool epilogues, bool *moved)
{
    if (atomic_load_explicit(&world->busy, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&world->lock);
    for (tdm_group *group = world->groups; group != NULL; group = group->next) {
        if (group == except || pthread_mutex_trylock(&group->lock) != 0)
            continue; /* locked: someone else advances it */
        if (tdmi_group_is_busy(group) && atomic_load_explicit(&group->failure, memory_order_relaxed) == TDM_OK)
            tdmi_group_advance(group, epilogues, moved);
        pthread_mutex_unlock(&group->lock);
    }
    pthread_mutex_unlock(&world->lock);
}

void tdmi_world_check(tdmi_world *world)
{
    pthread_mutex_lock(&world->lock);
    for (tdm_group *group = world->groups; group != NULL; group = group->next) {
        if (pthread_mutex_trylock(&group->lock) != 0)
            continue;
        if (tdmi_group_is_busy(group))
            tdmi_group_check(group);
        pthread_mutex_unlock(&group->lock);
    }
    pthread_mutex_unlock(&world->lock);
}

/* Twice what copying the buffer at 5 GB/s would take. */
static int64_t spin_ns(const tdm_work *work)
{
    if (work->group->world->crowded)
        return 0;
    const size_t nbytes = work->is_message ? work->message.nbytes : tdmi_call_bytes(&(work->by_engine ? &work->asked : &work->run.request)->call, work->group->size);
    int64_t expected = (int64_t)((double)nbytes / 2.5);
    expected += SPIN_LEAST_NS;
    return expected < SPIN_MOST_NS ? expected : SPIN_MOST_NS;
}

/* One burst; the lock is released between bursts for other threads of this rank. True when the wait is over. */
static bool burst(tdm_work *work, bool *moved)
{
    tdm_group *group = work->group;
    const int polls = group->world->crowded ? 1 : POLLS_A_LOOK;
    pthread_mutex_lock(&group->lock);
    bool over = work->done;
    for (int i = 0; i < polls && !over; i++) {
        if (atomic_load_explicit(&group->failure, memory_order_acquire) != TDM_OK) {
            over = true;
            break;
        }
        tdmi_group_advance(group, true, moved);
        over = work->done;
        if (!over && !*moved)
            tdmi_cpu_pause();
    }
    pthread_mutex_unlock(&group->lock);
    return over;
}

static void check(tdm_group *group)
{
    pthread_mutex_lock(&group->lock);
    tdmi_group_check(group);
    pthread_mutex_unlock(&group->lock);
}

/* Sleeps until a peer rings or bytes come, unless something moved since the sleep was announced. True when the wait is over. */
static bool sleep_once(tdm_work *work, bool *moved)
{
    tdmi_world *world = work->group->world;
    const bool links = atomic_load(&world->link_busy) > 0;
    const uint32_t heard = tdmi_node_sleep_begin(world->node, links ? TDMI_SLEEP_EPOLL : TDMI_SLEEP_FUTEX);
    if (burst(work, moved))
        return true;
    tdmi_world_advance(world, work->group, true, moved);
    if (*moved)
        return false;
    if (links && !tdmi_links_arm(world))
        return false;
    if (links)
        tdmi_poller_sleep(world, TDMI_SLEEPER_WAITER, (int)(CHECK_ASLEEP_NS / TDMI_NS_PER_MS));
    else
        tdmi_node_sleep(world->node, heard, CHECK_ASLEEP_NS);
    return false;
}

static void wait_on(tdm_work *work)
{
    tdm_group *group = work->group;
    tdmi_world *world = group->world;
    const bool polls = work->by_engine || tdmi_group_meets_alone(group);
    int64_t now = 0, idle_since = 0, checked = 0;
    int yields = 0;
    for (;;) {
        bool moved = false;
        if (burst(work, &moved))
            return;
        if (atomic_load_explicit(&world->busy, memory_order_relaxed) > 1)
            tdmi_world_advance(world, group, true, &moved);
        now = tdmi_now_ns();
        if (moved || idle_since == 0) {
            idle_since = now;
            yields = 0;
            checked = checked == 0 ? now : checked;
        }
        const bool sleeps = !polls && !moved && now - idle_since >= spin_ns(work) && !(world->crowded && yields++ < YIELDS);
        if (sleeps && sleep_once(work, &moved))
            return;
        if (!sleeps && !moved && (world->crowded || polls))
            sched_yield(); /* an engine moves on only while it is called */
        if (sleeps)
            now = tdmi_now_ns();
        if (now - checked >= (sleeps ? CHECK_ASLEEP_NS : CHECK_AWAKE_NS)) {
            check(group);
            checked = now;
        }
    }
}

void tdmi_group_wait(tdm_work *work)
{
    tdmi_world *world = work->group->world;
    bool moved = false;
    if (burst(work, &moved))
        return;
    atomic_fetch_add(&world->waiters, 1); /* the progress thread stands aside */
    wait_on(work);
    tdmi_world_stop_waiting(world);
}

void tdmi_world_stop_waiting(tdmi_world *world)
{
    const int others = atomic_fetch_sub(&world->waiters, 1) - 1;
    if (atomic_load(&world->link_busy) == 0)
        return;
    if (others > 0)
        tdmi_poller_kick(world); /* this thread may have heard what was meant for another */
    else if (world->has_thread)
        tdmi_progress_call(world);
}
