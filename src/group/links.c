/* links.c - the ways between a group's ranks: rings in shared memory inside a node, TCP connections (data, control,
 * messages) to each rank on another node, with a UCX link in the place of data where that is the transport. Every rank first lets the lower ones connect, then connects to the higher ones. */
#include "group/group.h"

#include "core/clock.h"
#include "core/config.h"
#include "core/memory.h"
#include "group/rendezvous.h"
#include "store/socket.h"
#include "store/store.h"
#include "transport/bytes.h"
#include "transport/shm/ring.h"
#include "transport/tcp/tcp.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct endpoint {
    char host[TDMI_TCP_HOST_MAX];
    int port;
} endpoint;

static uint64_t number_of(const tdm_group *group)
{
    uint64_t h = 1469598103934665603ull;
    for (const char *c = group->prefix; *c != '\0'; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211ull;
    return h;
}

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

/* port 4, then the address as text */
static tdm_status exchange_endpoints(tdm_group *group, const char *host, int port, int64_t deadline_ns, endpoint *out)
{
    uint8_t own[4 + sizeof out->host];
    char *blocks[group->size];
    size_t nbytes[group->size];
    tdmi_put_u32(own, (uint32_t)port);
    memcpy(own + 4, host, strlen(host));
    tdm_status status = tdmi_rendezvous(group->world->store, group->prefix, "tcp", group->watched, group->name, group->rank, group->size, own,
                                        4 + strlen(host), deadline_ns, group->world->rendezvous_timeout_s, blocks, nbytes);
    if (status != TDM_OK)
        return status;
    for (int r = 0; r < group->size; r++) {
        if (nbytes[r] > 4 && nbytes[r] < sizeof own) {
            out[r].port = (int)tdmi_get_u32((const uint8_t *)blocks[r]);
            char peer[sizeof out->host] = "";
            memcpy(peer, blocks[r] + 4, nbytes[r] - 4);
            if (status == TDM_OK && r != group->rank)
                status = tdmi_tcp_address_from_here(peer, host, out[r].host, sizeof out[r].host);
        } else {
            status = tdmi_fail(TDM_ERR_MISMATCH, "group %s: the TCP address of rank %d is damaged", group->name, r);
        }
        tdmi_free(blocks[r]);
    }
    return status;
}

/* Without a secret anyone who reaches the port could join: fine where only this host does. */
static tdm_status check_secret(const tdm_group *group, const char *host)
{
    if (tdmi_config_text(TDMI_CONFIG_JOB_SECRET)[0] != '\0' || tdmi_socket_is_loopback(host))
        return TDM_OK;
    return tdmi_fail(TDM_ERR_INVALID, "group %s: its ranks connect over the network (this one at %s) and the job has no secret: set "
                     "TANDEM_JOB_SECRET to the same value on all nodes (tandem run does it on one)", group->name, host);
}

/* Takes fd. */
static tdm_status add_connection(tdm_group *group, int rank, tdmi_tcp_purpose purpose, int fd)
{
    tdmi_link *link;
    if (purpose == TDMI_TCP_CONTROL) {
        group->control[rank].fd = fd;
        return TDM_OK;
    }
    if (purpose == TDMI_TCP_MESSAGES)
        return tdmi_tcp_link_create(fd, &group->messages.link[rank]);
    tdm_status status = tdmi_tcp_link_create(fd, &link);
    return status == TDM_OK ? tdmi_channel_create(link, &group->team.channel[rank]) : status;
}

static bool has_purpose(const tdm_group *group, int purpose)
{
    return purpose != TDMI_TCP_DATA || !group->world->ucx;
}

static bool is_wanted(const tdm_group *group, int from, tdmi_tcp_purpose purpose)
{
    if (from < 0 || from >= group->rank || group->is_local[from] || !has_purpose(group, purpose))
        return false;
    switch (purpose) {
    case TDMI_TCP_CONTROL: return group->control[from].fd < 0;
    case TDMI_TCP_MESSAGES: return group->messages.link[from] == NULL;
    default: return group->team.channel[from] == NULL;
    }
}

static tdm_status accept_lower(tdm_group *group, int listener, int64_t deadline_ns)
{
    int left = 0;
    for (int r = 0; r < group->rank; r++)
        for (int purpose = 0; purpose < TDMI_TCP_PURPOSES && !group->is_local[r]; purpose++)
            left += has_purpose(group, purpose);
    while (left > 0) {
        int from, fd;
        tdmi_tcp_purpose purpose;
        tdm_status status =
            tdmi_tcp_accept(listener, &group->world->key, number_of(group), group->rank, deadline_ns, &from, &purpose, &fd);
        if (status == TDM_OK && !is_wanted(group, from, purpose)) {
            close(fd);
            continue;
        }
        if (status == TDM_OK)
            status = add_connection(group, from, purpose, fd);
        if (status != TDM_OK) {
            bool missing[group->size];
            char ranks[256];
            for (int r = 0; r < group->size; r++)
                missing[r] = r < group->rank && !group->is_local[r] &&
                             (group->control[r].fd < 0 || group->messages.link[r] == NULL || (has_purpose(group, TDMI_TCP_DATA) && group->team.channel[r] == NULL));
            tdmi_ranks_text(missing, group->size, ranks, sizeof ranks);
            return tdmi_fail_while(status, "rank %d of group %s waited for connections of ranks %s", group->rank, group->name, ranks);
        }
        left--;
    }
    return TDM_OK;
}

static tdm_status connect_higher(tdm_group *group, const endpoint *endpoints, int64_t deadline_ns)
{
    for (int r = group->rank + 1; r < group->size; r++)
        for (int purpose = 0; purpose < TDMI_TCP_PURPOSES && !group->is_local[r]; purpose++) {
            int fd;
            if (!has_purpose(group, purpose))
                continue;
            tdm_status status = tdmi_tcp_connect(endpoints[r].host, endpoints[r].port, &group->world->key, number_of(group),
                                                 group->rank, r, (tdmi_tcp_purpose)purpose, deadline_ns, &fd);
            if (status == TDM_OK)
                status = add_connection(group, r, (tdmi_tcp_purpose)purpose, fd);
            if (status != TDM_OK)
                return tdmi_fail_while(status, "rank %d of group %s was connecting to rank %d at %s:%d", group->rank, group->name, r,
                                       endpoints[r].host, endpoints[r].port);
        }
    return TDM_OK;
}

static tdm_status make_connections(tdm_group *group, int64_t deadline_ns)
{
    char host[TDMI_TCP_HOST_MAX];
    int listener = -1, port;
    endpoint *endpoints = tdmi_calloc((size_t)group->size, sizeof *endpoints, "group");
    group->control = tdmi_calloc((size_t)group->size, sizeof *group->control, "group");
    if (endpoints == NULL || group->control == NULL) {
        tdmi_free(endpoints);
        return TDM_ERR_NO_MEMORY;
    }
    for (int r = 0; r < group->size; r++)
        group->control[r].fd = -1;
    tdm_status status = tdmi_tcp_own_address(tdmi_store_host(group->world->store), host, sizeof host);
    if (status == TDM_OK)
        status = check_secret(group, host);
    if (status == TDM_OK)
        status = tdmi_socket_listen(host, 0, &listener, &port);
    if (status == TDM_OK)
        status = exchange_endpoints(group, host, port, deadline_ns, endpoints);
    if (status == TDM_OK)
        status = accept_lower(group, listener, deadline_ns);
    if (status == TDM_OK)
        status = connect_higher(group, endpoints, deadline_ns);
    if (listener >= 0)
        close(listener);
    tdmi_free(endpoints);
    return status;
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
            status = tdmi_ucx_link_create(group->ucx, r, blocks[r], nbytes[r], &link);
            if (status == TDM_OK)
                status = tdmi_channel_create(link, &group->team.channel[r]);
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

static tdm_status watch_all(tdm_group *group)
{
    for (int r = 0; r < group->size; r++) {
        const tdmi_channel *channel = group->team.channel[r];
        const int data = channel != NULL ? channel->link->ops->fd(channel->link) : -1;
        const tdmi_link *link = group->messages.link[r];
        const int messages = link != NULL ? link->ops->fd(link) : -1;
        const int control = group->control != NULL ? group->control[r].fd : -1;
        tdm_status status = data >= 0 ? tdmi_poller_watch(group->world, data) : TDM_OK;
        if (status == TDM_OK && messages >= 0)
            status = tdmi_poller_watch(group->world, messages);
        if (status == TDM_OK && control >= 0)
            status = tdmi_poller_watch(group->world, control);
        if (status != TDM_OK)
            return status;
    }
    return group->ucx != NULL ? tdmi_poller_watch(group->world, tdmi_ucx_port_fd(group->ucx)) : TDM_OK;
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
        status = make_connections(group, deadline_ns);
    if (status == TDM_OK && group->local_size < group->size && group->world->ucx)
        status = greet_over_ucx(group, deadline_ns);
    return status == TDM_OK ? watch_all(group) : status;
}

void tdmi_links_close(tdm_group *group)
{
    if (group->ucx != NULL && atomic_load_explicit(&group->failure, memory_order_relaxed) != TDM_OK)
        tdmi_ucx_port_give_up(group->ucx);
    for (int r = 0; group->team.channel != NULL && r < group->size; r++)
        tdmi_channel_destroy(group->team.channel[r]);
    tdmi_ucx_port_close(group->ucx);
    for (int r = 0; group->control != NULL && r < group->size; r++)
        if (group->control[r].fd >= 0)
            close(group->control[r].fd);
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
