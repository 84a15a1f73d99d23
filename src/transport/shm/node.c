/* node.c - this rank's place among the ranks of its host. Meeting them is in join.c, bells and life are in bell.c.
 *
 * Threads: the rank's own threads. `lock` guards the lists of regions; arenas and doors do not change after joining. */
#include "transport/shm/node_parts.h"

#include "core/config.h"
#include "core/cpu.h"
#include "core/fork.h"
#include "core/memory.h"
#include "transport/shm/available.h"

#include <string.h>
#include <sys/mman.h>
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
