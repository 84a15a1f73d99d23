/* connections.c - the TCP connections to each rank on another node: one for control and, unless UCX carries them, several for data
 * and one for messages. Every rank opens a door, tells the others where it is, lets the lower ranks in, then connects to the higher ones. */
#include "group/group.h"

#include "core/clock.h"
#include "core/config.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/memory.h"
#include "group/rendezvous.h"
#include "store/socket.h"
#include "store/store.h"
#include "transport/bytes.h"
#include "transport/tcp/tcp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY_NS (200 * TDMI_NS_PER_MS) /* at whether a rank has gone */

typedef struct endpoint {
    char host[TDMI_TCP_HOST_MAX];
    int port;
} endpoint;

/* Connections while they come together. */
typedef struct connections {
    tdm_group *group;
    tdmi_tcp_door *door;
    char host[TDMI_TCP_HOST_MAX]; /* this rank's address */
    uint64_t number;              /* of the group */
    int streams;                  /* for data; 0: that and messages go another way */
    int each;                     /* connections to one peer */
    int *fd;                      /* [size][each]; -1: not there */
    endpoint *endpoints;          /* [size] */
} connections;

/* How many a peer has for a purpose, and where they stand in its row. */
static int count_of(const connections *c, int purpose)
{
    return purpose == TDMI_TCP_DATA ? c->streams : purpose == TDMI_TCP_MESSAGES && c->streams == 0 ? 0 : 1;
}

static int *row_of(const connections *c, int rank, int purpose)
{
    int first = 0;
    for (int p = 0; p < purpose; p++)
        first += count_of(c, p);
    return c->fd + (size_t)rank * (size_t)c->each + first;
}

/* Hands the connections to a rank over to those who use them. */
static tdm_status adopt(const connections *c, int rank)
{
    tdm_group *group = c->group;
    tdmi_link *link;
    int *data = row_of(c, rank, TDMI_TCP_DATA), *control = row_of(c, rank, TDMI_TCP_CONTROL),
        *messages = row_of(c, rank, TDMI_TCP_MESSAGES);
    group->control[rank].fd = *control;
    tdmi_fork_hide(*control);
    *control = -1;
    if (c->streams == 0)
        return TDM_OK;
    tdm_status status = tdmi_tcp_link_create(messages, 1, &group->messages.link[rank]);
    *messages = -1;
    if (status != TDM_OK)
        return status;
    status = tdmi_tcp_link_create(data, c->streams, &link);
    for (int i = 0; i < c->streams; i++)
        data[i] = -1;
    return status == TDM_OK ? tdmi_channel_create(link, &group->team.channel[rank]) : status;
}

static uint64_t number_of(const tdm_group *group)
{
    uint64_t h = 1469598103934665603ull;
    for (const char *at = group->prefix; *at != '\0'; at++)
        h = (h ^ (unsigned char)*at) * 1099511628211ull;
    return h;
}

/* port 4, streams 4, then the address as text */
static tdm_status exchange_endpoints(connections *c, int64_t deadline_ns)
{
    tdm_group *group = c->group;
    uint8_t own[8 + sizeof c->host];
    char *blocks[group->size];
    size_t nbytes[group->size];
    tdmi_put_u32(own, (uint32_t)tdmi_tcp_door_port(c->door));
    tdmi_put_u32(own + 4, (uint32_t)c->streams);
    memcpy(own + 8, c->host, strlen(c->host));
    tdm_status status = tdmi_rendezvous(group->world->store, group->prefix, "tcp", group->watched, group->name, group->rank, group->size,
                                        own, 8 + strlen(c->host), deadline_ns, group->world->rendezvous_timeout_s, blocks, nbytes);
    if (status != TDM_OK)
        return status;
    for (int r = 0; r < group->size; r++) {
        const uint8_t *block = (const uint8_t *)blocks[r];
        if (status == TDM_OK && (nbytes[r] <= 8 || nbytes[r] >= sizeof own))
            status = tdmi_fail(TDM_ERR_MISMATCH, "group %s: the TCP address of rank %d is damaged", group->name, r);
        if (status == TDM_OK && tdmi_get_u32(block + 4) != (uint32_t)c->streams)
            status = tdmi_fail(TDM_ERR_MISMATCH, "group %s: TANDEM_TCP_STREAMS is %d on rank %d and %u on rank %d; set it to the same "
                               "number on all", group->name, c->streams, group->rank, (unsigned)tdmi_get_u32(block + 4), r);
        if (status == TDM_OK) {
            char peer[sizeof c->host] = "";
            memcpy(peer, block + 8, nbytes[r] - 8);
            c->endpoints[r].port = (int)tdmi_get_u32(block);
            if (r != group->rank)
                status = tdmi_tcp_address_from_here(peer, c->host, c->endpoints[r].host, sizeof c->endpoints[r].host);
        }
        tdmi_free(blocks[r]);
    }
    return status;
}

/* Without a secret anyone who reaches the port could join: fine where only this host does. */
static tdm_status check_secret(const connections *c)
{
    if (tdmi_config_text(TDMI_CONFIG_JOB_SECRET)[0] != '\0' || tdmi_socket_is_loopback(c->host))
        return TDM_OK;
    return tdmi_fail(TDM_ERR_INVALID, "group %s: its ranks connect over the network (this one at %s) and the job has no secret: set "
                     "TANDEM_JOB_SECRET to the same value on all nodes (tandem run does it on one)", c->group->name, c->host);
}

/* The place of a connection that came in; NULL: nobody waits for it. */
static int *place_of(const connections *c, const tdmi_tcp_hello *hello)
{
    if (hello->from >= c->group->rank || c->group->is_local[hello->from] || hello->stream >= count_of(c, hello->purpose))
        return NULL;
    int *place = row_of(c, hello->from, hello->purpose) + hello->stream;
    return *place < 0 ? place : NULL;
}

static bool is_whole(const connections *c, int rank)
{
    const int *row = row_of(c, rank, 0);
    for (int i = 0; i < c->each; i++)
        if (row[i] < 0)
            return false;
    return true;
}

static tdm_status accept_lower(const connections *c, int64_t deadline_ns)
{
    const tdm_group *group = c->group;
    int left = 0;
    for (int r = 0; r < group->rank; r++)
        left += group->is_local[r] ? 0 : c->each;
    while (left > 0) {
        tdmi_tcp_hello hello;
        int fd;
        const int64_t look_ns = tdmi_now_ns() + LOOK_EVERY_NS;
        tdm_status status = tdmi_tcp_door_next(c->door, look_ns < deadline_ns ? look_ns : deadline_ns, &hello, &fd);
        if (status == TDM_ERR_TIMEOUT && !tdmi_deadline_passed(deadline_ns)) {
            status = tdmi_rendezvous_gone(group->world->store, group->prefix);
            if (status == TDM_OK)
                continue;
        }
        if (status != TDM_OK) {
            bool missing[group->size];
            char ranks[256];
            for (int r = 0; r < group->size; r++)
                missing[r] = r < group->rank && !group->is_local[r] && !is_whole(c, r);
            tdmi_ranks_text(missing, group->size, ranks, sizeof ranks);
            return tdmi_fail_while(status, "rank %d of group %s waited for connections of ranks %s", group->rank, group->name, ranks);
        }
        int *place = place_of(c, &hello);
        if (place == NULL) {
            log_warn(TDM_LOG_GROUP, "group %s: dropped a connection of rank %d that rank %d did not wait for", group->name, hello.from,
                     group->rank);
            close(fd);
            continue;
        }
        *place = fd;
        left--;
    }
    return TDM_OK;
}

static tdm_status connect_to(const connections *c, int rank, int64_t deadline_ns)
{
    const tdm_group *group = c->group;
    const endpoint *at = &c->endpoints[rank];
    for (int purpose = 0; purpose < TDMI_TCP_PURPOSES; purpose++)
        for (int i = 0; i < count_of(c, purpose); i++) {
            const tdmi_tcp_hello hello = {.group = c->number, .from = group->rank, .to = rank, .purpose = (tdmi_tcp_purpose)purpose,
                                          .stream = i};
            tdm_status status = tdmi_tcp_connect(at->host, at->port, &group->world->key, &hello, deadline_ns,
                                                 row_of(c, rank, purpose) + i);
            if (status != TDM_OK)
                return tdmi_fail_while(status, "rank %d of group %s was connecting to rank %d at %s:%d", group->rank, group->name, rank,
                                       at->host, at->port);
        }
    return TDM_OK;
}

static tdm_status meet(connections *c, int64_t deadline_ns)
{
    tdm_group *group = c->group;
    tdm_status status = tdmi_tcp_own_address(tdmi_store_host(group->world->store), c->host, sizeof c->host);
    if (status == TDM_OK)
        status = check_secret(c);
    if (status == TDM_OK)
        status = tdmi_tcp_door_open(c->host, &group->world->key, c->number, group->rank, &c->door);
    if (status == TDM_OK)
        status = exchange_endpoints(c, deadline_ns);
    if (status == TDM_OK)
        status = accept_lower(c, deadline_ns);
    for (int r = group->rank + 1; r < group->size && status == TDM_OK; r++)
        status = group->is_local[r] ? TDM_OK : connect_to(c, r, deadline_ns);
    for (int r = 0; r < group->size && status == TDM_OK; r++)
        status = r == group->rank || group->is_local[r] ? TDM_OK : adopt(c, r);
    return status;
}

tdm_status tdmi_connections_make(tdm_group *group, int64_t deadline_ns)
{
    connections c = {.group = group, .number = number_of(group)};
    double streams;
    tdm_status status = tdmi_config_number(TDMI_CONFIG_TCP_STREAMS, 1, TDMI_TCP_STREAMS_MAX, &streams);
    if (status != TDM_OK)
        return status;
    c.streams = (int)streams;
    if ((double)c.streams != streams)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_TCP_STREAMS is %g; a whole number is needed", streams);
    if (group->world->ucx)
        c.streams = 0;
    for (int purpose = 0; purpose < TDMI_TCP_PURPOSES; purpose++)
        c.each += count_of(&c, purpose);
    const size_t size = (size_t)group->size, all = size * (size_t)c.each;
    c.endpoints = tdmi_calloc(size, sizeof *c.endpoints, "group");
    c.fd = tdmi_calloc(all, sizeof *c.fd, "group");
    group->control = tdmi_calloc(size, sizeof *group->control, "group");
    status = c.endpoints != NULL && c.fd != NULL && group->control != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < all && status == TDM_OK; i++)
        c.fd[i] = -1;
    for (size_t r = 0; r < size && status == TDM_OK; r++)
        group->control[r].fd = -1;
    if (status == TDM_OK) {
        status = meet(&c, deadline_ns);
        for (size_t i = 0; i < all; i++)
            if (c.fd[i] >= 0)
                close(c.fd[i]);
    }
    tdmi_tcp_door_close(c.door);
    tdmi_free(c.endpoints);
    tdmi_free(c.fd);
    return status;
}
