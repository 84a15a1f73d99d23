/* boards.c - a group's memory in this rank's arena. Peers look at it until they leave the group, so it outlives the group
 * here: each rank of the node counts itself off on every board it will not look at again. */
#include "group/group.h"

#include "core/memory.h"

struct tdmi_old_board {
    struct tdmi_old_board *next;
    tdmi_board *board;
    uint32_t watchers;
    char *rings;
    char *stages; /* both; the first */
    tdmi_row *rows;
};

/* Gives back what nobody looks at any more; world.lock is held. */
static void sweep(tdmi_world *world)
{
    tdmi_arena *arena = tdmi_node_arena(world->node, world->rank);
    for (struct tdmi_old_board **at = &world->old_boards; *at != NULL;) {
        struct tdmi_old_board *old = *at;
        /* acquire: their last reads are over; pairs with tdmi_boards_leave there */
        if (atomic_load_explicit(&old->board->forgotten, memory_order_acquire) < old->watchers) {
            at = &old->next;
            continue;
        }
        if (old->stages != NULL)
            (void)tdmi_arena_give(arena, old->stages);
        if (old->rows != NULL)
            (void)tdmi_arena_give(arena, old->rows);
        (void)tdmi_arena_give(arena, old->rings);
        (void)tdmi_arena_give(arena, old->board);
        *at = old->next;
        tdmi_free(old);
    }
}

tdm_status tdmi_boards_take(tdm_group *group)
{
    tdmi_world *world = group->world;
    pthread_mutex_lock(&world->lock);
    sweep(world);
    pthread_mutex_unlock(&world->lock);
    return tdmi_arena_take(tdmi_node_arena(world->node, world->rank), sizeof(tdmi_board), &group->board);
}

void tdmi_boards_leave(tdm_group *group)
{
    tdmi_world *world = group->world;
    if (group->team.board == NULL)
        return; /* nobody ever saw it; it goes with the arena */
    for (int r = 0; r < group->size; r++)
        if (group->team.board[r] != NULL)
            atomic_fetch_add_explicit(&group->team.board[r]->forgotten, 1, memory_order_release);
    struct tdmi_old_board *old = tdmi_calloc(1, sizeof *old, "group");
    if (old == NULL)
        return;
    *old = (struct tdmi_old_board){.board = group->board,
                                   .rings = group->rings,
                                   .watchers = (uint32_t)group->local_size,
                                   .stages = group->team.stage[0].own,
                                   .rows = group->team.rows};
    pthread_mutex_lock(&world->lock);
    old->next = world->old_boards;
    world->old_boards = old;
    pthread_mutex_unlock(&world->lock);
}

void tdmi_boards_free_list(tdmi_world *world)
{
    while (world->old_boards != NULL) {
        struct tdmi_old_board *old = world->old_boards;
        world->old_boards = old->next;
        tdmi_free(old);
    }
}
