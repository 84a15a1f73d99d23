/* progress.c - the world's progress thread, and what sleeps on sockets.
 *
 * The thread is made at the first call over links that is started and not waited for at once. It advances such calls when
 * bytes come, so that they go on while the rank computes. While a thread of the rank waits in wait.c it does that itself,
 * and the progress thread stands aside. The two sleep on epoll sets of their own, edge-triggered: each hears of everything,
 * and since nobody leaves a socket before it would block, no edge is lost.
 *
 * Lock order: world.lock, then a group's lock. The thread holds no lock while it sleeps. */
#include "group/group.h"

#include "core/clock.h"
#include "core/futex.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 16
#define NOT_A_RANK UINT64_MAX

static tdm_status watch(tdmi_world *world, int fd, uint64_t rank)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = rank};
    for (int i = 0; i < 2; i++)
        if (epoll_ctl(world->poller[i], EPOLL_CTL_ADD, fd, &event) != 0)
            return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot watch a socket");
    return TDM_OK;
}

tdm_status tdmi_poller_watch(tdmi_world *world, int fd)
{
    return watch(world, fd, NOT_A_RANK);
}

tdm_status tdmi_poller_watch_node(tdmi_world *world, int rank)
{
    const int fd = tdmi_node_fd(world->node, rank);
    return fd < 0 ? TDM_OK : watch(world, fd, (uint64_t)rank);
}

tdm_status tdmi_poller_open(tdmi_world *world)
{
    world->poller[0] = epoll_create1(EPOLL_CLOEXEC);
    world->poller[1] = epoll_create1(EPOLL_CLOEXEC);
    world->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (world->poller[0] < 0 || world->poller[1] < 0 || world->kick < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make an epoll set; raise `ulimit -n`");
    return watch(world, world->kick, NOT_A_RANK);
}

void tdmi_poller_kick(tdmi_world *world)
{
    const uint64_t one = 1;
    if (world->kick >= 0 && write(world->kick, &one, sizeof one) < 0)
        return; /* full: it is readable anyway */
}

void tdmi_poller_sleep(tdmi_world *world, tdmi_sleeper who, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    const int count = epoll_wait(world->poller[who], events, EVENTS, timeout_ms);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 != NOT_A_RANK)
            tdmi_node_hear(world->node, (int)events[i].data.u64); /* empties it of bells */
}

/* ---- the thread ---- */

static bool has_duty(tdmi_world *world)
{
    return atomic_load(&world->link_busy) > 0 && atomic_load(&world->waiters) == 0;
}

static void *run(void *arg)
{
    tdmi_world *world = arg;
    int64_t checked = 0;
    while (!atomic_load(&world->stop)) {
        const uint32_t call = atomic_load(&world->duty);
        if (!has_duty(world)) {
            if (!atomic_load(&world->stop))
                tdmi_futex_wait(&world->duty, call, -1);
            continue;
        }
        bool moved = false;
        tdmi_world_advance(world, NULL, false, &moved);
        if (!moved) {
            tdmi_node_sleep_begin(world->node, TDMI_SLEEP_EPOLL); /* costs some microseconds */
            tdmi_world_advance(world, NULL, false, &moved);
        }
        if (moved && atomic_load(&world->waiters) > 0)
            tdmi_poller_kick(world); /* what a waiter waits for may be done */
        if (!moved && tdmi_links_arm(world))
            tdmi_poller_sleep(world, TDMI_SLEEPER_THREAD, 20);
        if (tdmi_now_ns() - checked > 20 * TDMI_NS_PER_MS) {
            tdmi_world_check(world);
            checked = tdmi_now_ns();
        }
    }
    return NULL;
}

void tdmi_progress_call(tdmi_world *world)
{
    bool none = false;
    if (atomic_compare_exchange_strong(&world->has_thread, &none, true)) {
        sigset_t all, old;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        if (pthread_create(&world->thread, NULL, run, world) != 0)
            atomic_store(&world->has_thread, false); /* then waiting does it all */
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    atomic_fetch_add(&world->duty, 1);
    tdmi_futex_wake_all(&world->duty);
}

void tdmi_progress_stop(tdmi_world *world)
{
    if (world->has_thread) {
        atomic_store(&world->stop, true);
        atomic_fetch_add(&world->duty, 1);
        tdmi_futex_wake_all(&world->duty);
        tdmi_poller_kick(world);
        pthread_join(world->thread, NULL);
    }
    for (int i = 0; i < 2; i++)
        if (world->poller[i] >= 0)
            close(world->poller[i]);
    if (world->kick >= 0)
        close(world->kick);
}
