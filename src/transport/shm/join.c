/* join.c - the ranks of a node meet: each knocks at the doors of all higher ones and lets in all lower ones.
 *
 *     knock  ->            HELLO  of the handshake (store/auth.h)
 *            <-  HELLO
 *     PROOF  ->
 *            <-  PROOF     then, both: rank, arena and its descriptor
 *
 * All at once: a rank goes on with whichever peer has said something, so that many ranks on few cores take turns a few times, and not
 * some times for each pair. */
#include "transport/shm/node_parts.h"

#include "core/clock.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/memory.h"
#include "transport/bytes.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STRANGERS 16 /* let in at once beside those that are expected */

typedef struct visit {
    tdmi_knock knock; /* its fd is -1: the place is free */
    int rank;         /* whom this rank knocked at; -1: it was knocked at */
    bool proved;
    int64_t deadline_ns;
} visit;

typedef struct meeting {
    tdmi_node *node;
    const tdmi_node_card *cards;
    int count;
    const tdmi_auth_key *key;
    int64_t deadline_ns;
    visit *visits;
    struct pollfd *items; /* of the door, then of the visits */
    int places, lower, unmet; /* lower: lower ranks that are still to come; unmet: all */
} meeting;

/* hello: 'H', rank at 4, arena bytes at 8, arena number at 16; the arena's descriptor comes with it. */
static tdm_status say_hello(const tdmi_node *node, int fd)
{
    const tdmi_arena *arena = node->peers[node->rank].arena;
    uint8_t message[TDMI_DOOR_MESSAGE] = {'H'};
    tdmi_put_u32(message + 4, (uint32_t)node->rank);
    tdmi_put_u64(message + 8, tdmi_arena_nbytes(arena));
    tdmi_put_u64(message + 16, tdmi_arena_number(arena));
    return tdmi_door_send(fd, message, tdmi_arena_fd(arena));
}

static tdm_status take_arena(tdmi_node_peer *peer, const uint8_t *message, int passed)
{
    peer->arena = tdmi_arena_find(tdmi_get_u64(message + 16));
    if (peer->arena != NULL) {
        close(passed);
        peer->same_process = true;
    } else {
        tdm_status status = tdmi_arena_map(passed, tdmi_get_u64(message + 8), &peer->arena);
        if (status != TDM_OK)
            return status;
    }
    peer->control = (tdmi_control *)(void *)tdmi_arena_base(peer->arena);
    return TDM_OK;
}

/* *met: the peer has said its rank, and the visit's socket is the peer's now. */
static tdm_status hear_hello(meeting *m, visit *v, bool *met)
{
    tdmi_node *node = m->node;
    uint8_t message[TDMI_DOOR_MESSAGE];
    int passed = -1;
    const tdmi_door_event event = tdmi_door_receive(v->knock.fd, message, &passed);
    *met = false;
    if (event == TDMI_DOOR_EMPTY)
        return TDM_OK;
    const int rank = event == TDMI_DOOR_MESSAGE_CAME && message[0] == 'H' ? (int)tdmi_get_u32(message + 4) : -1;
    const bool wanted = rank >= 0 && rank < node->world_size && node->peers[rank].fd < 0 && passed >= 0 &&
                        (v->rank >= 0 ? rank == v->rank : rank < node->rank);
    if (!wanted) {
        if (passed >= 0)
            close(passed);
        return tdmi_fail(TDM_ERR_PEER_LOST, "a rank of this node closed its connection, or two ranks have the same number");
    }
    tdmi_node_peer *peer = &node->peers[rank];
    tdm_status status = take_arena(peer, message, passed);
    if (status != TDM_OK)
        return status;
    tdmi_fork_hide(v->knock.fd);
    peer->fd = v->knock.fd;
    peer->pid = v->knock.pid;
    if (!peer->same_process && peer->pid > 0)
        peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0); /* sees a death even where a child keeps the socket open all the same */
    *met = true;
    return TDM_OK;
}

static void leave(visit *v)
{
    if (v->knock.fd >= 0)
        close(v->knock.fd);
    v->knock.fd = -1;
}

/* Takes what has come. Strangers are sent away, which is no error. */
static tdm_status go_on(meeting *m, visit *v)
{
    bool met = false;
    tdm_status status = TDM_OK;
    if (!v->proved) {
        status = tdmi_knock_step(&v->knock, &v->proved);
        if (status != TDM_OK && v->rank < 0) {
            log_debug(TDM_LOG_TRANSPORT, "dropped a stranger at the node's door: %s", tdm_error_text());
            leave(v);
            return TDM_OK;
        }
        if (status == TDM_OK && v->proved)
            status = say_hello(m->node, v->knock.fd);
    }
    if (status == TDM_OK && v->proved)
        status = hear_hello(m, v, &met);
    if (status != TDM_OK)
        return v->rank < 0 ? status : tdmi_fail_while(status, "rank %d was connecting to rank %d of its node", m->node->rank, v->rank);
    if (met) {
        m->lower -= v->rank < 0;
        m->unmet--;
        v->knock.fd = -1;
    }
    return TDM_OK;
}

static visit *free_place(meeting *m)
{
    for (int i = 0; i < m->places; i++)
        if (m->visits[i].knock.fd < 0)
            return &m->visits[i];
    return NULL;
}

static tdm_status let_in(meeting *m)
{
    visit *v = free_place(m); /* there is one, or nobody would have listened at the door */
    *v = (visit){.rank = -1, .deadline_ns = tdmi_now_ns() + TDMI_AUTH_STRANGER_MS * TDMI_NS_PER_MS};
    return tdmi_door_answer(m->node->door, m->key, &v->knock);
}

static tdm_status knock_at_higher(meeting *m)
{
    for (int i = 0; i < m->count; i++) {
        const tdmi_node_card *card = &m->cards[i];
        if (card->rank <= m->node->rank)
            continue;
        visit *v = free_place(m);
        *v = (visit){.rank = card->rank, .deadline_ns = m->deadline_ns};
        const tdm_status status = tdmi_door_knock(card->door, m->key, &v->knock);
        if (status != TDM_OK)
            return tdmi_fail_while(status, "rank %d was connecting to rank %d of its node", m->node->rank, card->rank);
    }
    return TDM_OK;
}

static tdm_status time_is_up(const meeting *m)
{
    char unmet[256] = "";
    size_t used = 0;
    for (int i = 0; i < m->count; i++)
        if (m->cards[i].rank != m->node->rank && m->node->peers[m->cards[i].rank].fd < 0 && used < sizeof unmet)
            used += (size_t)snprintf(unmet + used, sizeof unmet - used, "%s%d", used > 0 ? ", " : "", m->cards[i].rank);
    return tdmi_fail(TDM_ERR_TIMEOUT, "rank %d was waiting for ranks of its node: %s", m->node->rank, unmet);
}

/* Sleeps until somebody says something, or a stranger's time is up. */
static tdm_status listen_once(meeting *m)
{
    int64_t until_ns = m->deadline_ns;
    const bool has_room = free_place(m) != NULL;
    m->items[0] = (struct pollfd){.fd = m->lower > 0 && has_room ? m->node->door : -1, .events = POLLIN};
    for (int i = 0; i < m->places; i++) {
        visit *v = &m->visits[i];
        m->items[i + 1] = (struct pollfd){.fd = v->knock.fd, .events = POLLIN};
        if (v->knock.fd >= 0 && !v->proved && v->deadline_ns < until_ns)
            until_ns = v->deadline_ns;
    }
    const int64_t now_ns = tdmi_now_ns(), left_ms = until_ns > now_ns ? (until_ns - now_ns) / TDMI_NS_PER_MS + 1 : 0;
    if (poll(m->items, (nfds_t)m->places + 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) < 0 && errno != EINTR)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot wait for the ranks of this node");
    if (tdmi_deadline_passed(m->deadline_ns))
        return time_is_up(m);
    for (int i = 0; i < m->places; i++)
        if (m->visits[i].rank < 0 && !m->visits[i].proved && tdmi_deadline_passed(m->visits[i].deadline_ns))
            leave(&m->visits[i]);
    return TDM_OK;
}

static tdm_status meet(meeting *m)
{
    tdm_status status = knock_at_higher(m);
    while (status == TDM_OK && m->unmet > 0) {
        status = listen_once(m);
        for (int i = 0; i < m->places && status == TDM_OK; i++)
            if (m->visits[i].knock.fd >= 0 && m->items[i + 1].revents != 0)
                status = go_on(m, &m->visits[i]);
        if (status == TDM_OK && m->items[0].revents != 0)
            status = let_in(m);
    }
    return status;
}

tdm_status tdmi_node_join(tdmi_node *node, const tdmi_node_card *cards, int count, const tdmi_auth_key *key, int64_t deadline_ns)
{
    meeting m = {.node = node, .cards = cards, .count = count, .key = key, .deadline_ns = deadline_ns, .places = count + STRANGERS};
    for (int i = 0; i < count; i++) {
        m.lower += cards[i].rank < node->rank;
        m.unmet += cards[i].rank != node->rank;
    }
    m.visits = tdmi_calloc((size_t)m.places, sizeof *m.visits, "node's visits");
    m.items = tdmi_calloc((size_t)m.places + 1, sizeof *m.items, "node's visits");
    tdm_status status = m.visits != NULL && m.items != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (int i = 0; i < m.places && status == TDM_OK; i++)
        m.visits[i] = (visit){.knock.fd = -1, .rank = -1};
    if (status == TDM_OK)
        status = meet(&m);
    for (int i = 0; i < m.places && m.visits != NULL && m.items != NULL; i++)
        leave(&m.visits[i]);
    tdmi_free(m.visits);
    tdmi_free(m.items);
    close(node->door);
    node->door = -1;
    return status;
}
