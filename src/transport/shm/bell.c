/* bell.c - waking sleeping ranks of the node, and seeing that one left or died.
 *
 * Sleeper: set the sleeping bit, look again, sleep. Ringer: write, look at the sleeping bits. Between its two halves each side
 * needs a full fence, so that at least one of them sees the other. A ringer rings in every call and waits for its write to
 * reach all cores if it has a fence; a sleeper has time. So the sleeper makes the fences of both where the kernel lets it:
 * membarrier() runs one on every core that runs a registered process, and a process that does not run had one when it was
 * stopped. A ringer leaves its own out if it is registered and the sleeper has said that it does this (`fences`).
 * The bit is cleared by the ringer alone: a sleeper that wakes for another reason leaves it, for one ring too many, and
 * cannot clear that of another thread of its rank. */
#include "transport/shm/node_parts.h"

#include "core/futex.h"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

void tdmi_node_register_for_fences(tdmi_node *node)
{
    const bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    node->peers[node->rank].control->fences = registered;
}

/* The full fence of a sleeper, and of all who may ring. */
static void fence_all(const tdmi_control *own)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in tdmi_node_ring */
    if (own->fences)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

uint32_t tdmi_node_sleep_begin(tdmi_node *node, tdmi_sleep how)
{
    tdmi_control *own = node->peers[node->rank].control;
    uint32_t heard = atomic_load_explicit(&own->bell, memory_order_acquire);
    atomic_fetch_or_explicit(&own->sleeping, (uint32_t)how, memory_order_relaxed);
    fence_all(own);
    return heard;
}

void tdmi_node_sleep(tdmi_node *node, uint32_t heard, int64_t timeout_ns)
{
    tdmi_futex_wait(&node->peers[node->rank].control->bell, heard, timeout_ns);
}

void tdmi_node_ring(tdmi_node *node, int rank)
{
    tdmi_control *control = node->peers[rank].control;
    if (control->fences && node->peers[node->rank].control->fences)
        atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier() fences here */
    else
        atomic_thread_fence(memory_order_seq_cst); /* pairs with fence_all */
    if (atomic_load_explicit(&control->sleeping, memory_order_relaxed) == 0)
        return;
    uint32_t how = atomic_exchange_explicit(&control->sleeping, 0, memory_order_acq_rel);
    if (how & TDMI_SLEEP_FUTEX) {
        atomic_fetch_add_explicit(&control->bell, 1, memory_order_release);
        tdmi_futex_wake_all(&control->bell);
    }
    if (how & TDMI_SLEEP_EPOLL && rank != node->rank) {
        static const uint8_t message[TDMI_DOOR_MESSAGE] = {'B'};
        (void)!tdmi_door_send(node->peers[rank].fd, message, -1); /* full: then it has enough to wake up for */
    }
}

/* Node's lock is held: several threads of a rank may listen. */
static void hear(tdmi_node *node, int rank)
{
    tdmi_node_peer *peer = &node->peers[rank];
    for (;;) {
        uint8_t message[TDMI_DOOR_MESSAGE];
        int passed;
        tdmi_door_event event = tdmi_door_receive(peer->fd, message, &passed);
        if (event == TDMI_DOOR_EMPTY)
            return;
        if (event == TDMI_DOOR_CLOSED) {
            atomic_store_explicit(&peer->closed, true, memory_order_release);
            return;
        }
        tdmi_region_hear(node, rank, message, passed); /* a bell needs no answer: it woke us */
    }
}

void tdmi_node_listen(tdmi_node *node)
{
    pthread_mutex_lock(&node->lock);
    for (int r = 0; r < node->world_size; r++) {
        tdmi_node_peer *peer = &node->peers[r];
        if (peer->fd < 0 || atomic_load_explicit(&peer->closed, memory_order_relaxed))
            continue;
        hear(node, r);
        struct pollfd item = {.fd = peer->pidfd, .events = POLLIN};
        if (peer->pidfd >= 0 && poll(&item, 1, 0) > 0)
            atomic_store_explicit(&peer->closed, true, memory_order_release);
    }
    pthread_mutex_unlock(&node->lock);
}

void tdmi_node_hear(tdmi_node *node, int rank)
{
    pthread_mutex_lock(&node->lock);
    if (!atomic_load_explicit(&node->peers[rank].closed, memory_order_relaxed))
        hear(node, rank);
    pthread_mutex_unlock(&node->lock);
}

tdmi_life tdmi_node_life(const tdmi_node *node, int rank)
{
    const tdmi_node_peer *peer = &node->peers[rank];
    if (peer->control == NULL || rank == node->rank)
        return TDMI_ALIVE;
    bool closed = atomic_load_explicit(&peer->closed, memory_order_acquire);
    if (atomic_load_explicit(&peer->control->left, memory_order_acquire) != 0) /* written before its sockets close */
        return TDMI_LEFT;
    return closed ? TDMI_DIED : TDMI_ALIVE;
}
