/* region.c - places: which memory of this node peers can reach, and how a place becomes an address again.
 *
 * A registered memfd is pushed: its descriptor goes to every peer of the node when it is registered, so it lies in their
 * sockets before any call that names it. Messages: 'R' number at 4, bytes at 8, offset in the file at 16, address at 24 (for
 * peers that are threads of this process); 'F' number at 4: forget it. */
#include "transport/shm/node_parts.h"

#include "core/log.h"
#include "core/memory.h"
#include "transport/bytes.h"
#include "transport/shm/huge.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL_PAGE ((size_t)4096)

static bool holds(const char *base, size_t nbytes, const char *address, size_t wanted)
{
    return address >= base && wanted <= nbytes && (size_t)(address - base) <= nbytes - wanted;
}

/* Whether peers reach all of [at, at + nbytes) of a region. */
static bool is_present(const tdmi_region *region, size_t at, size_t nbytes)
{
    if (region->present == NULL || nbytes == 0)
        return true;
    const size_t first = at / SMALL_PAGE, last = (at + nbytes - 1) / SMALL_PAGE;
    return memchr(region->present + first, 0, last - first + 1) == NULL;
}

tdmi_place tdmi_node_locate(const tdmi_node *node, const void *address, size_t nbytes)
{
    for (int i = 0; i < node->world_size; i++) {
        int r = (node->rank + i) % node->world_size; /* own memory first */
        const tdmi_arena *arena = node->peers[r].arena;
        if (arena != NULL && holds(tdmi_arena_base(arena), tdmi_arena_nbytes(arena), address, nbytes))
            return (tdmi_place){.owner = (uint32_t)r, .offset = (uint64_t)((const char *)address - tdmi_arena_base(arena))};
    }
    const tdmi_node_peer *own = &node->peers[node->rank];
    for (size_t i = 0; i < own->region_count; i++)
        if (holds(own->regions[i].address, own->regions[i].nbytes, address, nbytes) &&
            is_present(&own->regions[i], (size_t)((const char *)address - own->regions[i].address), nbytes))
            return (tdmi_place){.owner = (uint32_t)node->rank,
                                .region = own->regions[i].number,
                                .offset = (uint64_t)((const char *)address - own->regions[i].address)};
    return (tdmi_place){.owner = TDMI_NOWHERE};
}

static const tdmi_region *find_region(const tdmi_node_peer *peer, uint32_t number)
{
    for (size_t i = 0; i < peer->region_count; i++)
        if (peer->regions[i].number == number)
            return &peer->regions[i];
    return NULL;
}

tdm_status tdmi_node_resolve(tdmi_node *node, tdmi_place place, void **out)
{
    if (place.owner >= (uint32_t)node->world_size || node->peers[place.owner].arena == NULL)
        return tdmi_fail(TDM_ERR_INTERNAL, "a place names rank %u, which is not on this node", place.owner);
    const tdmi_node_peer *peer = &node->peers[place.owner];
    if (place.region == 0) {
        if (place.offset >= tdmi_arena_nbytes(peer->arena))
            return tdmi_fail(TDM_ERR_INTERNAL, "a place lies behind the arena of rank %u", place.owner);
        *out = tdmi_arena_base(peer->arena) + place.offset;
        return TDM_OK;
    }
    const tdmi_region *region = NULL;
    for (int attempt = 0; attempt < 2 && region == NULL; attempt++) {
        if (attempt > 0)
            tdmi_node_listen(node);
        pthread_mutex_lock(&node->lock);
        region = find_region(peer, place.region);
        if (region != NULL)
            *out = region->address + place.offset;
        pthread_mutex_unlock(&node->lock);
    }
    if (region == NULL)
        return tdmi_fail(TDM_ERR_SYSTEM, "memory that rank %u registered (its region %u) could not be mapped here", place.owner,
                         place.region);
    return TDM_OK;
}

static tdm_status add_region(tdmi_node_peer *peer, tdmi_region region)
{
    if (peer->region_count == peer->region_capacity) {
        size_t capacity = peer->region_capacity * 2 + 4;
        tdmi_region *fresh = tdmi_realloc(peer->regions, capacity * sizeof *fresh, "registered memory");
        if (fresh == NULL)
            return TDM_ERR_NO_MEMORY;
        peer->regions = fresh;
        peer->region_capacity = capacity;
    }
    peer->regions[peer->region_count++] = region;
    return TDM_OK;
}

static void remove_region(tdmi_node_peer *peer, size_t i)
{
    if (peer->regions[i].mapped)
        munmap(peer->regions[i].address, peer->regions[i].nbytes);
    peer->regions[i] = peer->regions[--peer->region_count];
}

void tdmi_region_hear(tdmi_node *node, int rank, const uint8_t message[TDMI_DOOR_MESSAGE], int passed)
{
    tdmi_node_peer *peer = &node->peers[rank];
    uint32_t number = tdmi_get_u32(message + 4);
    if (message[0] == 'F') {
        for (size_t i = 0; i < peer->region_count; i++)
            if (peer->regions[i].number == number)
                remove_region(peer, i);
    } else if (message[0] == 'R') {
        tdmi_region region = {.number = number, .nbytes = tdmi_get_u64(message + 8)};
        if (peer->same_process) {
            region.address = (char *)(uintptr_t)tdmi_get_u64(message + 24);
        } else {
            void *base = passed < 0 ? MAP_FAILED
                                    : tdmi_huge_map(passed, (off_t)tdmi_get_u64(message + 16), region.nbytes);
            region.mapped = base != MAP_FAILED;
            region.address = base;
        }
        if (region.address == MAP_FAILED)
            log_warn(TDM_LOG_TRANSPORT, "cannot map %zu bytes that rank %d registered", region.nbytes, rank);
        else if (add_region(peer, region) != TDM_OK && region.mapped)
            munmap(region.address, region.nbytes);
    }
    if (passed >= 0)
        close(passed);
}

static tdm_status tell_all(tdmi_node *node, const uint8_t message[TDMI_DOOR_MESSAGE], int passed)
{
    for (int r = 0; r < node->world_size; r++) {
        if (node->peers[r].fd < 0)
            continue;
        tdm_status status = tdmi_door_send(node->peers[r].fd, message, passed);
        if (status != TDM_OK && status != TDM_ERR_PEER_LOST) /* who is gone needs no memory */
            return tdmi_fail_while(status, "rank %d told rank %d of registered memory", node->rank, r);
    }
    return TDM_OK;
}

tdm_status tdmi_node_register(tdmi_node *node, int fd, size_t offset, size_t nbytes, void *address, const uint8_t *present)
{
    if (address == NULL || nbytes == 0 || fd < 0)
        return tdmi_fail(TDM_ERR_INVALID, "registered memory needs a descriptor, an address and at least one byte");
    if (offset % SMALL_PAGE != 0)
        return tdmi_fail(TDM_ERR_INVALID, "registered memory starts at byte %zu of its file; a multiple of 4096 is needed", offset);
    if (present != NULL && (nbytes % SMALL_PAGE != 0 || (uintptr_t)address % SMALL_PAGE != 0))
        return tdmi_fail(TDM_ERR_INVALID, "memory that is registered page by page must be whole pages: found %zu bytes at %p", nbytes, address);
    pthread_mutex_lock(&node->lock);
    uint32_t number = ++node->regions_made;
    tdm_status status =
        add_region(&node->peers[node->rank], (tdmi_region){.number = number, .address = address, .nbytes = nbytes, .present = present});
    pthread_mutex_unlock(&node->lock);
    if (status != TDM_OK)
        return status;
    uint8_t message[TDMI_DOOR_MESSAGE] = {'R'};
    tdmi_put_u32(message + 4, number);
    tdmi_put_u64(message + 8, nbytes);
    tdmi_put_u64(message + 16, offset);
    tdmi_put_u64(message + 24, (uint64_t)(uintptr_t)address);
    status = tell_all(node, message, fd);
    if (status != TDM_OK)
        tdmi_node_unregister(node, address);
    return status;
}

void tdmi_node_unregister(tdmi_node *node, void *address)
{
    uint32_t number = 0;
    pthread_mutex_lock(&node->lock);
    tdmi_node_peer *own = &node->peers[node->rank];
    for (size_t i = 0; i < own->region_count && number == 0; i++)
        if (own->regions[i].address == address) {
            number = own->regions[i].number;
            remove_region(own, i);
        }
    pthread_mutex_unlock(&node->lock);
    if (number == 0)
        return;
    uint8_t message[TDMI_DOOR_MESSAGE] = {'F'};
    tdmi_put_u32(message + 4, number);
    (void)!tell_all(node, message, -1); /* a peer that cannot hear it keeps the mapping until its end */
}
