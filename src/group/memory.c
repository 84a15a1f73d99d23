/* memory.c - blocks that peers of the node can reach. A node block lies in the arena of the node's lowest rank, behind a
 * line that counts who still holds it; the last one to free it returns the memory, its owner takes the addresses back later. */
#include "group/group.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "group/rendezvous.h"
#include "transport/bytes.h"

#include <stdio.h>

#define HEAD_BYTES 128

typedef struct node_head {
    _Atomic uint32_t holders;
} node_head;

struct tdmi_node_block {
    struct tdmi_node_block *next;
    node_head *head; /* the block handed out starts HEAD_BYTES behind it */
    int owner;       /* world rank */
    size_t nbytes;   /* head included */
    bool freed;      /* here; an owner keeps it until nobody holds it */
};

static tdmi_arena *own_arena(const tdmi_world *world)
{
    return tdmi_node_arena(world->node, world->rank);
}

tdm_status tdm_alloc(tdm_group *group, size_t nbytes, void **out)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return TDM_ERR_INVALID;
    return tdmi_arena_take(own_arena(group->world), nbytes, out);
}

static void *block_of(const struct tdmi_node_block *block)
{
    return (char *)block->head + HEAD_BYTES;
}

/* Drops the entry of a block that this rank freed; an owner's only once nobody holds it. */
static void sweep(tdmi_world *world)
{
    for (struct tdmi_node_block **at = &world->node_blocks; *at != NULL;) {
        struct tdmi_node_block *block = *at;
        const bool own = block->owner == world->rank;
        if (!block->freed || (own && atomic_load_explicit(&block->head->holders, memory_order_acquire) != 0)) {
            at = &block->next;
            continue;
        }
        if (own)
            (void)tdmi_arena_give(own_arena(world), block->head);
        *at = block->next;
        tdmi_free(block);
    }
}

static void let_go(tdmi_world *world, struct tdmi_node_block *block)
{
    block->freed = true;
    tdmi_arena *arena = tdmi_node_arena(world->node, block->owner);
    /* The head's own page stays until the owner gives the block back. */
    if (atomic_fetch_sub_explicit(&block->head->holders, 1, memory_order_acq_rel) == 1)
        tdmi_arena_discard(arena, (size_t)((char *)block_of(block) - tdmi_arena_base(arena)), block->nbytes - HEAD_BYTES);
}

void tdmi_world_free_blocks(tdmi_world *world)
{
    while (world->node_blocks != NULL) {
        struct tdmi_node_block *block = world->node_blocks;
        world->node_blocks = block->next;
        if (!block->freed)
            let_go(world, block);
        tdmi_free(block);
    }
}

/* The lowest rank takes the block; a rank that cannot says so, and nobody gets one. */
static tdm_status take_head(tdm_group *group, struct tdmi_node_block *block)
{
    void *taken;
    tdm_status status = tdmi_arena_take(own_arena(group->world), block->nbytes, &taken);
    if (status != TDM_OK)
        return status;
    block->head = taken;
    atomic_init(&block->head->holders, (uint32_t)group->local_size);
    return TDM_OK;
}

/* status 4, zero 4, bytes 8, offset 8 */
enum { OFFER_BYTES = 24 };

static tdm_status agree(tdm_group *group, tdm_status own_status, struct tdmi_node_block *block)
{
    tdmi_world *world = group->world;
    const tdmi_arena *arena = tdmi_node_arena(world->node, block->owner);
    int lowest = 0;
    while (!group->is_local[lowest])
        lowest++;
    uint8_t offer[OFFER_BYTES] = {0};
    tdmi_put_u32(offer, (uint32_t)own_status);
    tdmi_put_u64(offer + 8, block->nbytes);
    if (block->head != NULL)
        tdmi_put_u64(offer + 16, (uint64_t)((char *)block->head - tdmi_arena_base(arena)));
    char *offers[group->local_size], what[32], who[TDMI_GROUP_NAME_MAX + 40];
    size_t nbytes[group->local_size];
    snprintf(what, sizeof what, "memory.%d.%u", lowest, ++group->node_allocations);
    snprintf(who, sizeof who, "%s, ranks of this node in tdm_alloc_node", group->name);
    tdm_status status =
        tdmi_rendezvous(world->store, group->prefix, what, group, who, group->local_rank, group->local_size, offer, sizeof offer,
                        tdmi_deadline_in(group->timeout_s), group->timeout_s, offers, nbytes);
    if (status != TDM_OK)
        return status;
    for (int i = 0; i < group->local_size; i++) {
        const uint8_t *theirs = (const uint8_t *)offers[i];
        if (status != TDM_OK)
            continue;
        if (nbytes[i] != OFFER_BYTES)
            status = tdmi_fail(TDM_ERR_MISMATCH, "tdm_alloc_node: local rank %d left no offer", i);
        else if (tdmi_get_u32(theirs) != TDM_OK && own_status == TDM_OK)
            status = tdmi_fail((tdm_status)tdmi_get_u32(theirs), "tdm_alloc_node of %zu bytes failed on local rank %d; its own "
                               "message says why", block->nbytes - HEAD_BYTES, i);
        else if (tdmi_get_u64(theirs + 8) != block->nbytes)
            status = tdmi_fail(TDM_ERR_MISMATCH, "tdm_alloc_node: local rank %d asks for %llu bytes, local rank %d for %zu", i,
                               (unsigned long long)tdmi_get_u64(theirs + 8) - HEAD_BYTES, group->local_rank,
                               block->nbytes - HEAD_BYTES);
        else if (i == 0)
            block->head = (node_head *)(void *)(tdmi_arena_base(arena) + tdmi_get_u64(theirs + 16));
    }
    for (int i = 0; i < group->local_size; i++)
        tdmi_free(offers[i]);
    return status;
}

tdm_status tdm_alloc_node(tdm_group *group, size_t nbytes, void **out)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return TDM_ERR_INVALID;
    tdmi_world *world = group->world;
    if (group->local_size == 1)
        return tdm_alloc(group, nbytes, out);
    sweep(world);
    struct tdmi_node_block *block = tdmi_calloc(1, sizeof *block, "node memory");
    if (block == NULL)
        return TDM_ERR_NO_MEMORY;
    int lowest = 0;
    while (!group->is_local[lowest])
        lowest++;
    block->owner = group->world_rank[lowest];
    block->nbytes = nbytes + HEAD_BYTES;
    tdm_status own = TDM_OK;
    char text[TDMI_ERROR_TEXT_MAX] = "";
    if (lowest == group->rank) {
        own = take_head(group, block);
        if (own != TDM_OK)
            snprintf(text, sizeof text, "%s", tdm_error_text());
    }
    tdm_status status = agree(group, own, block);
    if (own != TDM_OK) {
        tdmi_error_set_text(text);
        status = own;
    }
    if (status != TDM_OK) {
        if (lowest == group->rank && block->head != NULL)
            (void)tdmi_arena_give(own_arena(world), block->head);
        tdmi_free(block);
        return status;
    }
    block->next = world->node_blocks;
    world->node_blocks = block;
    *out = block_of(block);
    return TDM_OK;
}

void tdm_free(tdm_group *group, void *address)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return;
    tdmi_world *world = group->world;
    if (address == NULL)
        return;
    for (struct tdmi_node_block *block = world->node_blocks; block != NULL; block = block->next)
        if (!block->freed && block_of(block) == address) {
            let_go(world, block);
            sweep(world);
            return;
        }
    if (!tdmi_arena_give(own_arena(world), address))
        log_error(TDM_LOG_GROUP, "tdm_free: %p is no block of tdm_alloc on rank %d", address, world->rank);
}

tdm_status tdm_memory_register(tdm_group *group, int fd, size_t offset, size_t nbytes, void *address)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return TDM_ERR_INVALID;
    return tdmi_node_register(group->world->node, fd, offset, nbytes, address, NULL);
}

tdm_status tdm_memory_register_sparse(tdm_group *group, int fd, size_t offset, size_t nbytes, void *address, const uint8_t *present)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return TDM_ERR_INVALID;
    if (present == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_memory_register_sparse needs to know which pages are present; for all: tdm_memory_register");
    return tdmi_node_register(group->world->node, fd, offset, nbytes, address, present);
}

void tdm_memory_unregister(tdm_group *group, void *address)
{
    if (tdmi_group_check_process(group) != TDM_OK)
        return;
    tdmi_node_unregister(group->world->node, address);
}
