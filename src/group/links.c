/* links.c - the ways between a group's ranks: rings in shared memory inside a node; to each rank on another node TCP connections
 * (connections.c), which carry data and messages too unless UCX does. */
#include "group/group.h"

#include "core/clock.h"
#include "core/fork.h"
#include "core/memory.h"
#include "group/rendezvous.h"
#include "transport/shm/ring.h"

#include <sched.h>
#include <unistd.h>

static tdm_status make_rings(tdm_group *group, const tdmi_record *records)
{
    for (int r = 0; r < group->size; r++) {
        if (r == group->rank || !group->is_local[r])
            continue;
        const int peer = group->world_rank[r];
        const tdmi_arena *arena = tdmi_node_arena(group->world->node, peer);
        const uint64_t offset = records[r].ring_offset;
        if (offset % 128 != 0 || offset + 2 * (size_t)group->size * TDMI_RING_BYTES > tdmi_arena_nbytes(arena))
            return tdmi_fail(TDM_ERR_MISMATCH, "group %s: the record of rank %d is damaged", group->name, r);
        char *own = group->rings + (size_t)r * TDMI_RING_BYTES;
        char *theirs = tdmi_arena_base(arena) + offset + (size_t)group->rank * TDMI_RING_BYTES;
        const size_t messages = (size_t)group->size * TDMI_RING_BYTES; /* their rings lie behind */
        tdmi_link *link;
        tdm_status status = tdmi_ring_link_create(group->world->node, peer, own, theirs, &link);
        if (status == TDM_OK)
            status = tdmi_channel_create(link, &group->team.channel[r]);
        if (status == TDM_OK)
            status = tdmi_ring_link_create(group->world->node, peer, own + messages, theirs + messages, &group->messages.link[r]);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}

/* Tells the others where this rank's UCX port is, and makes a link to each that shares no memory. */
static tdm_status make_ucx_links(tdm_group *group, int64_t deadline_ns)
{
    char *blocks[group->size];
    size_t nbytes[group->size], own_nbytes;
    tdm_status status = tdmi_ucx_port_open(group->rank, group->size, &group->ucx);
    if (status != TDM_OK)
        return status;
    const void *own = tdmi_ucx_port_address(group->ucx, &own_nbytes);
    status = tdmi_rendezvous(group->world->store, group->prefix, "ucx", NULL, group->name, group->rank, group->size, own, own_nbytes,
                             deadline_ns, group->world->rendezvous_timeout_s, blocks, nbytes);
    if (status != TDM_OK)
        return status;
    for (int r = 0; r < group->size; r++) {
        tdmi_link *link;
        if (status == TDM_OK && !group->is_local[r]) {
            status = tdmi_ucx_link_create(group->ucx, r, TDMI_UCX_CALLS, blocks[r], nbytes[r], &link);
            if (status == TDM_OK)
                status = tdmi_channel_create(link, &group->team.channel[r]);
            if (status == TDM_OK)
                status = tdmi_ucx_link_create(group->ucx, r, TDMI_UCX_MESSAGES, blocks[r], nbytes[r], &group->messages.link[r]);
        }
        tdmi_free(blocks[r]);
    }
    return status;
}

static tdm_status greet_over_ucx(tdm_group *group, int64_t deadline_ns)
{
    bool missing[group->size], greeted = false;
    tdm_status status = make_ucx_links(group, deadline_ns);
    while (status == TDM_OK && !greeted) {
        status = tdmi_ucx_port_greet(group->ucx, missing, &greeted);
        if (status == TDM_OK && !greeted && tdmi_deadline_passed(deadline_ns)) {
            char ranks[256];
            tdmi_ranks_text(missing, group->size, ranks, sizeof ranks);
            status = tdmi_fail(TDM_ERR_TIMEOUT, "rank %d of group %s waited for the first bytes over UCX from ranks %s; UCX_TLS and "
                               "UCX_NET_DEVICES must name a way between these hosts", group->rank, group->name, ranks);
        }
        if (!greeted)
            sched_yield();
    }
    return status;
}

static tdm_status watch_link(tdm_group *group, const tdmi_link *link)
{
    tdm_status status = TDM_OK;
    for (int i = 0; link->ops->fd(link, i) >= 0 && status == TDM_OK; i++)
        status = tdmi_poller_watch(group->world, link->ops->fd(link, i));
    return status;
}

static tdm_status watch_all(tdm_group *group)
{
    tdm_status status = TDM_OK;
    for (int r = 0; r < group->size && status == TDM_OK; r++) {
        if (group->team.channel[r] != NULL)
            status = watch_link(group, group->team.channel[r]->link);
        if (status == TDM_OK && group->messages.link[r] != NULL)
            status = watch_link(group, group->messages.link[r]);
        if (status == TDM_OK && group->control != NULL && group->control[r].fd >= 0)
            status = tdmi_poller_watch(group->world, group->control[r].fd);
    }
    if (status == TDM_OK && group->ucx != NULL)
        status = tdmi_poller_watch(group->world, tdmi_ucx_port_fd(group->ucx));
    return status;
}

bool tdmi_links_arm(tdmi_world *world)
{
    bool quiet = true;
    if (!world->ucx)
        return true;
    pthread_mutex_lock(&world->lock);
    for (tdm_group *group = world->groups; group != NULL && quiet; group = group->next) {
        if (group->ucx == NULL || pthread_mutex_trylock(&group->lock) != 0)
            continue; /* locked: someone else advances it */
        quiet = !group->waits_for_links || tdmi_ucx_port_arm(group->ucx);
        pthread_mutex_unlock(&group->lock);
    }
    pthread_mutex_unlock(&world->lock);
    return quiet;
}

tdm_status tdmi_links_reserve(tdm_group *group)
{
    void *rings;
    tdmi_arena *arena = tdmi_node_arena(group->world->node, group->world->rank);
    tdm_status status = tdmi_arena_reserve(arena, 2 * (size_t)group->size * TDMI_RING_BYTES, &rings);
    if (status != TDM_OK)
        return status;
    group->rings = rings;
    for (int r = 0; r < 2 * group->size; r++)
        tdmi_ring_clear(group->rings + (size_t)r * TDMI_RING_BYTES);
    return TDM_OK;
}

tdm_status tdmi_links_make(tdm_group *group, const tdmi_record *records, int64_t deadline_ns)
{
    if (group->size == 1)
        return TDM_OK;
    group->team.channel = tdmi_calloc((size_t)group->size, sizeof *group->team.channel, "group");
    group->messages.link = tdmi_calloc((size_t)group->size, sizeof *group->messages.link, "group");
    if (group->team.channel == NULL || group->messages.link == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = group->local_size > 1 ? make_rings(group, records) : TDM_OK;
    if (status == TDM_OK && group->local_size < group->size)
        status = tdmi_connections_make(group, deadline_ns);
    if (status == TDM_OK && group->local_size < group->size && group->world->ucx)
        status = greet_over_ucx(group, deadline_ns);
    return status == TDM_OK ? watch_all(group) : status;
}

void tdmi_links_give_up(tdm_group *group)
{
    if (group->ucx != NULL && atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK)
        tdmi_ucx_port_give_up(group->ucx);
}

void tdmi_links_close(tdm_group *group)
{
    for (int r = 0; group->team.channel != NULL && r < group->size; r++)
        tdmi_channel_destroy(group->team.channel[r]);
    tdmi_ucx_port_close(group->ucx);
    for (int r = 0; group->control != NULL && r < group->size; r++)
        if (group->control[r].fd >= 0)
            tdmi_fork_close(group->control[r].fd);
    tdmi_free(group->team.channel);
    tdmi_free(group->team.segment);
    tdmi_free(group->control);
}

uint64_t tdm_group_bytes_sent(const tdm_group *group)
{
    uint64_t sum = 0;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&group->lock;
    pthread_mutex_lock(lock);
    for (int r = 0; group->team.channel != NULL && r < group->size; r++)
        if (group->team.channel[r] != NULL)
            sum += group->team.channel[r]->payload_sent;
    pthread_mutex_unlock(lock);
    return sum;
}
