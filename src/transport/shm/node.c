/* node.c - meeting the ranks of this host, and places in their memory. Bells and life are in bell.c.
 *
 * Threads: the rank's own threads. `lock` guards the lists of regions; arenas and doors do not change after joining. */
#include "transport/shm/node_parts.h"

#include "core/clock.h"
#include "core/config.h"
#include "core/cpu.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/memory.h"
#include "transport/bytes.h"
#include "transport/shm/available.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(tdmi_control) <= TDMI_ARENA_HEAD, "the control page holds it");

static tdm_status arena_size(size_t asked, size_t *out)
{
    *out = asked;
    if (asked != 0)
        return TDM_OK;
    const char *text = tdmi_config_text(TDMI_CONFIG_ARENA_BYTES);
    if (text[0] == '\0') {
        *out = tdmi_memory_total();
        if (*out > tdmi_file_limit())
            *out = tdmi_file_limit() & ~(size_t)4095;
        return TDM_OK;
    }
    tdm_status status = tdm_parse_size(text, "TANDEM_ARENA_BYTES", out);
    if (status == TDM_OK && *out < ((size_t)1 << 20))
        status = tdmi_fail(TDM_ERR_INVALID, "TANDEM_ARENA_BYTES is %s; at least 1M is needed", text);
    return status;
}

tdm_status tdmi_node_create(int rank, int world_size, size_t arena_nbytes, tdmi_node **out)
{
    tdm_status status = arena_size(arena_nbytes, &arena_nbytes);
    if (status != TDM_OK)
        return status;
    tdmi_node *node = tdmi_calloc(1, sizeof *node, "node");
    if (node == NULL)
        return TDM_ERR_NO_MEMORY;
    node->rank = rank;
    node->world_size = world_size;
    node->door = -1;
    pthread_mutex_init(&node->lock, NULL);
    node->peers = tdmi_calloc((size_t)world_size, sizeof *node->peers, "node peers");
    if (node->peers == NULL) {
        tdmi_node_destroy(node);
        return TDM_ERR_NO_MEMORY;
    }
    for (int r = 0; r < world_size; r++)
        node->peers[r].fd = node->peers[r].pidfd = -1;
    tdmi_node_peer *self = &node->peers[rank];
    status = tdmi_arena_create(arena_nbytes, (size_t)(rank % 32) * 640, &self->arena);
    if (status == TDM_OK && world_size > 1)
        status = tdmi_door_open(&node->door, node->door_name);
    if (status != TDM_OK) {
        tdmi_node_destroy(node);
        return status;
    }
    self->control = (tdmi_control *)(void *)tdmi_arena_base(self->arena);
    self->control->cpus = tdmi_cpus_own();
    self->control->domain = world_size > 1 ? tdmi_domain_of(&self->control->cpus) : (tdmi_domain){-1, -1};
    tdmi_arena_prefer(self->arena, self->control->domain.node);
    tdmi_node_register_for_fences(node);
    status = tdmi_reader_open(node);
    if (status != TDM_OK) {
        tdmi_node_destroy(node);
        return status;
    }
    *out = node;
    return TDM_OK;
}

void tdmi_node_card_of(const tdmi_node *node, tdmi_node_card *out)
{
    out->rank = node->rank;
    out->arena_number = tdmi_arena_number(node->peers[node->rank].arena);
    memcpy(out->door, node->door_name, sizeof out->door);
}

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

/* Takes fd. expected: the rank that must be there, or -1 for any lower one that is not connected yet. */
static tdm_status hear_hello(tdmi_node *node, int fd, int pid, int expected, int64_t deadline_ns)
{
    uint8_t message[TDMI_DOOR_MESSAGE];
    int passed = -1;
    tdmi_door_event event;
    while ((event = tdmi_door_receive(fd, message, &passed)) == TDMI_DOOR_EMPTY) {
        int64_t left = deadline_ns - tdmi_now_ns();
        struct pollfd item = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&item, 1, (int)(left / TDMI_NS_PER_MS % 1000) + 1) < 0) {
            if (left > 0 && errno == EINTR)
                continue;
            close(fd);
            return tdmi_fail(TDM_ERR_TIMEOUT, "a rank of this node connected but did not say which one it is in time");
        }
    }
    int rank = event == TDMI_DOOR_MESSAGE_CAME && message[0] == 'H' ? (int)tdmi_get_u32(message + 4) : -1;
    bool wanted = rank >= 0 && rank < node->world_size && node->peers[rank].fd < 0 && passed >= 0 &&
                  (expected >= 0 ? rank == expected : rank < node->rank);
    if (!wanted) {
        if (passed >= 0)
            close(passed);
        close(fd);
        return tdmi_fail(TDM_ERR_PEER_LOST, "a rank of this node closed its connection, or two ranks have the same number");
    }
    tdmi_node_peer *peer = &node->peers[rank];
    tdm_status status = take_arena(peer, message, passed);
    if (status != TDM_OK) {
        close(fd);
        return status;
    }
    tdmi_fork_hide(fd);
    peer->fd = fd;
    peer->pid = pid;
    if (!peer->same_process && pid > 0)
        peer->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* sees a death even where a child keeps the socket open all the same */
    return TDM_OK;
}

static tdm_status meet_lower(tdmi_node *node, int lower, const tdmi_auth_key *key, int64_t deadline_ns)
{
    for (int met = 0; met < lower; met++) {
        int fd, pid = 0;
        tdm_status status = tdmi_door_accept(node->door, key, deadline_ns, &fd, &pid);
        if (status != TDM_OK)
            return status;
        status = say_hello(node, fd);
        if (status != TDM_OK) {
            close(fd);
            return status;
        }
        status = hear_hello(node, fd, pid, -1, deadline_ns);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}

static tdm_status meet_higher(tdmi_node *node, const tdmi_node_card *card, const tdmi_auth_key *key, int64_t deadline_ns)
{
    int fd, pid = 0;
    tdm_status status = tdmi_door_connect(card->door, key, deadline_ns, &fd, &pid);
    if (status != TDM_OK)
        return status;
    status = say_hello(node, fd);
    if (status != TDM_OK) {
        close(fd);
        return status;
    }
    return hear_hello(node, fd, pid, card->rank, deadline_ns);
}

static void list_unmet(const tdmi_node *node, const tdmi_node_card *cards, int count, char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        if (cards[i].rank < node->rank && node->peers[cards[i].rank].fd < 0 && used < nbytes)
            used += (size_t)snprintf(text + used, nbytes - used, "%s%d", used > 0 ? ", " : "", cards[i].rank);
}

tdm_status tdmi_node_join(tdmi_node *node, const tdmi_node_card *cards, int count, const tdmi_auth_key *key, int64_t deadline_ns)
{
    int lower = 0;
    for (int i = 0; i < count; i++)
        lower += cards[i].rank < node->rank;
    tdm_status status = meet_lower(node, lower, key, deadline_ns);
    if (status != TDM_OK) {
        char unmet[256];
        list_unmet(node, cards, count, unmet, sizeof unmet);
        return tdmi_fail_while(status, "rank %d was waiting for ranks of its node: %s", node->rank, unmet);
    }
    for (int i = 0; i < count && status == TDM_OK; i++)
        if (cards[i].rank > node->rank) {
            status = meet_higher(node, &cards[i], key, deadline_ns);
            if (status != TDM_OK)
                (void)tdmi_fail_while(status, "rank %d was connecting to rank %d of its node", node->rank, cards[i].rank);
        }
    close(node->door);
    node->door = -1;
    return status;
}

void tdmi_node_destroy(tdmi_node *node)
{
    if (node == NULL)
        return;
    if (node->peers != NULL && node->peers[node->rank].control != NULL) {
        atomic_store(&node->peers[node->rank].control->left, 1); /* before the sockets close; pairs with tdmi_node_life */
        for (int r = 0; r < node->world_size; r++)
            if (r != node->rank && node->peers[r].control != NULL)
                tdmi_node_ring(node, r);
    }
    for (int r = 0; node->peers != NULL && r < node->world_size; r++) {
        tdmi_node_peer *peer = &node->peers[r];
        for (size_t i = 0; i < peer->region_count; i++)
            if (peer->regions[i].mapped)
                munmap(peer->regions[i].address, peer->regions[i].nbytes);
        tdmi_free(peer->regions);
        if (peer->fd >= 0)
            tdmi_fork_close(peer->fd);
        if (peer->pidfd >= 0)
            close(peer->pidfd);
        tdmi_arena_release(peer->arena);
    }
    if (node->door >= 0)
        close(node->door);
    tdmi_free(node->peers);
    pthread_mutex_destroy(&node->lock);
    tdmi_free(node);
}

bool tdmi_node_has(const tdmi_node *node, int rank)
{
    return node->peers[rank].arena != NULL;
}

bool tdmi_node_crowded(const tdmi_node *node)
{
    const tdmi_cpus *set[node->world_size];
    int n = 0;
    for (int r = 0; r < node->world_size; r++)
        if (node->peers[r].control != NULL)
            set[n++] = &node->peers[r].control->cpus;
    return tdmi_cpus_crowded(set, n, tdmi_cpu_quota());
}

tdmi_domain tdmi_node_domain(const tdmi_node *node, int rank)
{
    return node->peers[rank].control->domain;
}

tdmi_arena *tdmi_node_arena(const tdmi_node *node, int rank)
{
    return node->peers[rank].arena;
}

int tdmi_node_fd(const tdmi_node *node, int rank)
{
    return node->peers[rank].fd;
}
