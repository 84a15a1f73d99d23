/* make.c - making a group of ranks whose world is known: records through the store, then boards in shared memory. The same
 * for the world itself and for sub-groups. */
#include "group/group.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "group/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static tdm_status make_arrays(tdm_group *group)
{
    const size_t n = (size_t)group->size;
    group->world_rank = tdmi_calloc(n, sizeof *group->world_rank, "group");
    group->is_local = tdmi_calloc(n, sizeof *group->is_local, "group");
    group->node = tdmi_calloc(n, sizeof *group->node, "group");
    group->host_name = tdmi_calloc(n, TDMI_HOST_NAME_BYTES, "group");
    group->pid = tdmi_calloc(n, sizeof *group->pid, "group");
    group->team.arrived = tdmi_calloc(n, sizeof *group->team.arrived, "group");
    return group->world_rank != NULL && group->is_local != NULL && group->node != NULL &&
                   group->host_name != NULL && group->pid != NULL && group->team.arrived != NULL
               ? TDM_OK
               : TDM_ERR_NO_MEMORY;
}

static char *own_host_name(const tdm_group *group)
{
    return group->host_name + (size_t)group->rank * TDMI_HOST_NAME_BYTES;
}

static void write_record(const tdm_group *group, tdmi_record *out)
{
    const tdmi_world *world = group->world;
    const tdmi_arena *arena = tdmi_node_arena(world->node, world->rank);
    tdmi_node_card card;
    tdmi_node_card_of(world->node, &card);
    *out = (tdmi_record){.size = group->size, .world_rank = world->rank, .pid = getpid(), .arena_number = card.arena_number};
    memcpy(out->door, card.door, sizeof out->door);
    memcpy(out->host_name, own_host_name(group), sizeof out->host_name);
    if (group->board != NULL) {
        memcpy(out->host_id, world->host_id, sizeof out->host_id);
        out->board_offset = (uint64_t)((const char *)group->board - tdmi_arena_base(arena));
        out->ring_offset = (uint64_t)(group->rings - tdmi_arena_base(arena));
    }
}

/* Everyone's record, checked against what this rank knows. */
static tdm_status exchange_records(tdm_group *group, const tdmi_record *own, int64_t deadline_ns, tdmi_record *records)
{
    const int n = group->size;
    uint8_t bytes[TDMI_RECORD_BYTES_MAX];
    char *blocks[n];
    size_t nbytes[n];
    tdm_status status = tdmi_rendezvous(group->world->store, group->prefix, "rank", group->watched, group->name, group->rank, n, bytes,
                                        tdmi_record_write(own, bytes), deadline_ns, group->world->rendezvous_timeout_s, blocks,
                                        nbytes);
    if (status != TDM_OK)
        return status;
    for (int r = 0; r < n; r++) {
        if (status == TDM_OK)
            status = tdmi_record_read((const uint8_t *)blocks[r], nbytes[r], r, &records[r]);
        tdmi_free(blocks[r]);
        if (status == TDM_OK && records[r].size != n)
            status = tdmi_fail(TDM_ERR_MISMATCH, "group %s: rank %d says it has %d ranks, rank %d says %d", group->name, r,
                               records[r].size, group->rank, n);
        if (status == TDM_OK && (records[r].world_rank < 0 || records[r].world_rank >= group->world->size))
            status = tdmi_fail(TDM_ERR_MISMATCH, "group %s: the record of rank %d is damaged", group->name, r);
    }
    return status;
}

static tdm_status check_local(const tdm_group *group)
{
    if (!group->world->force_local || group->local_size == group->size)
        return TDM_OK;
    bool remote[group->size];
    char ranks[256];
    for (int r = 0; r < group->size; r++)
        remote[r] = !group->is_local[r];
    tdmi_ranks_text(remote, group->size, ranks, sizeof ranks);
    return tdmi_fail(TDM_ERR_INVALID, "group %s: transport is shm, but ranks %s share no memory with rank %d (another host, user, "
                     "network namespace or TANDEM_NODE_ID); use auto", group->name, ranks, group->rank);
}

/* Nodes are numbered by their first ranks; a rank that shares no memory is a node of its own. */
static void number_nodes(tdm_group *group, const tdmi_record *records)
{
    int nodes = 0;
    for (int r = 0; r < group->size; r++) {
        int first = records[r].host_id[0] == '\0' ? r : 0;
        while (first < r && strcmp(records[first].host_id, records[r].host_id) != 0)
            first++;
        group->node[r] = first < r ? group->node[first] : nodes++;
    }
}

static void learn_places(tdm_group *group, const tdmi_record *records)
{
    const tdmi_record *own = &records[group->rank];
    for (int r = 0; r < group->size; r++) {
        group->world_rank[r] = records[r].world_rank;
        group->pid[r] = records[r].pid;
        memcpy(group->host_name + (size_t)r * TDMI_HOST_NAME_BYTES, records[r].host_name, TDMI_HOST_NAME_BYTES);
        group->is_local[r] =
            r == group->rank || (own->host_id[0] != '\0' && strcmp(records[r].host_id, own->host_id) == 0);
        if (!group->is_local[r])
            continue;
        group->local_rank += r < group->rank;
        group->local_size++;
    }
    number_nodes(group, records);
}

/* Maps the memory of local ranks that no earlier group of this world met. */
static tdm_status join_node(tdm_group *group, const tdmi_record *records, int64_t deadline_ns)
{
    tdmi_node_card cards[group->size];
    int count = 0;
    for (int r = 0; r < group->size; r++)
        if (group->is_local[r] && !tdmi_node_has(group->world->node, group->world_rank[r])) {
            cards[count].rank = group->world_rank[r];
            cards[count].arena_number = records[r].arena_number;
            memcpy(cards[count].door, records[r].door, sizeof cards[count].door);
            count++;
        }
    tdm_status status = count > 0 ? tdmi_node_join(group->world->node, cards, count, &group->world->key, deadline_ns) : TDM_OK;
    for (int i = 0; i < count && status == TDM_OK; i++)
        status = tdmi_poller_watch_node(group->world, cards[i].rank);
    if (count > 0 && status == TDM_OK)
        tdmi_node_probe_reading(group->world->node);
    return status;
}

static tdm_status find_boards(tdm_group *group, const tdmi_record *records)
{
    if (group->local_size < 2)
        return TDM_OK;
    group->team.board = tdmi_calloc((size_t)group->size, sizeof *group->team.board, "group");
    if (group->team.board == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++) {
        if (!group->is_local[r])
            continue;
        const tdmi_arena *arena = tdmi_node_arena(group->world->node, group->world_rank[r]);
        if (records[r].board_offset % 128 != 0 || records[r].board_offset + sizeof(tdmi_board) > tdmi_arena_nbytes(arena))
            return tdmi_fail(TDM_ERR_MISMATCH, "group %s: the record of rank %d is damaged", group->name, r);
        group->team.board[r] = (tdmi_board *)(void *)(tdmi_arena_base(arena) + records[r].board_offset);
    }
    return TDM_OK;
}

/* Where the ranks' CPUs are: as they were when they joined. Of two there is nothing to put in order. */
static tdm_status learn_domains(tdm_group *group)
{
    if (group->local_size != group->size || group->size < 3)
        return TDM_OK;
    tdmi_domain *domain = tdmi_calloc((size_t)group->size, sizeof *domain, "group");
    if (domain == NULL)
        return TDM_ERR_NO_MEMORY;
    bool differ = false;
    for (int r = 0; r < group->size; r++) {
        domain[r] = tdmi_node_domain(group->world->node, group->world_rank[r]);
        differ = differ || domain[r].node != domain[0].node || domain[r].cache != domain[0].cache;
    }
    if (differ)
        group->domain = domain;
    else
        tdmi_free(domain);
    return TDM_OK;
}

/* Finds out who is where and connects. */
static tdm_status meet(tdm_group *group)
{
    const int64_t deadline_ns = tdmi_deadline_in(group->world->rendezvous_timeout_s);
    tdmi_record own;
    tdmi_record *records = tdmi_calloc((size_t)group->size, sizeof *records, "rank records");
    if (records == NULL)
        return TDM_ERR_NO_MEMORY;
    write_record(group, &own);
    tdm_status status = group->size > 1 ? exchange_records(group, &own, deadline_ns, records) : TDM_OK;
    if (status == TDM_OK && group->size == 1)
        records[0] = own;
    if (status == TDM_OK) {
        learn_places(group, records);
        status = check_local(group);
    }
    if (status == TDM_OK)
        status = join_node(group, records, deadline_ns);
    if (status == TDM_OK)
        status = find_boards(group, records);
    if (status == TDM_OK)
        status = learn_domains(group);
    if (status == TDM_OK)
        status = tdmi_links_make(group, records, deadline_ns);
    if (status == TDM_OK)
        status = tdmi_group_tune(group, deadline_ns);
    if (status == TDM_OK)
        tdmi_group_record(group, records[0].arena_number);
    tdmi_free(records);
    return status;
}

/* An engine knows the others, and carries news of them; nothing is shared. */
static tdm_status stand_alone(tdm_group *group)
{
    group->control = tdmi_calloc((size_t)group->size, sizeof *group->control, "control connections");
    if (group->control == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++)
        group->control[r].fd = -1;
    for (int r = 0; r < group->size; r++)
        group->world_rank[r] = r == group->rank ? group->world->rank : -1;
    group->is_local[group->rank] = true;
    group->local_size = 1;
    group->pid[group->rank] = getpid();
    tdmi_group_record(group, 0);
    return TDM_OK;
}

tdm_status tdmi_group_make(tdmi_world *world, tdm_group *parent, const char *name, const char *prefix, int rank, int size, double timeout_s,
                           tdmi_engine *engine, tdm_group **out)
{
    tdm_group *group = tdmi_calloc(1, sizeof *group, "group");
    if (group == NULL) {
        if (engine != NULL)
            engine->ops->close(engine, false);
        return TDM_ERR_NO_MEMORY;
    }
    group->engine = engine;
    group->world = world;
    group->watched = parent;
    group->rank = rank;
    group->size = size;
    group->timeout_s = timeout_s;
    snprintf(group->name, sizeof group->name, "%s", name);
    snprintf(group->prefix, sizeof group->prefix, "%s", prefix);
    pthread_mutex_init(&group->lock, NULL);
    pthread_mutex_init(&group->control_lock, NULL);
    pthread_mutex_init(&group->failure_lock, NULL);
    pthread_mutex_lock(&world->lock);
    world->references++;
    group->next = world->groups;
    world->groups = group;
    pthread_mutex_unlock(&world->lock);
    tdm_status status = make_arrays(group);
    if (status == TDM_OK) {
        gethostname(own_host_name(group), TDMI_HOST_NAME_BYTES - 1);
        if (size > 1 && world->shares && engine == NULL)
            status = tdmi_boards_take(group);
    }
    if (status == TDM_OK && group->board != NULL)
        status = tdmi_links_reserve(group);
    if (status == TDM_OK && engine != NULL) {
        status = stand_alone(group);
    } else if (engine == NULL) {
        if (status == TDM_OK && size > 1)
            status = tdmi_rendezvous_begin(world->store, prefix, name, rank);
        if (status == TDM_OK)
            status = meet(group);
        if (size > 1)
            status = tdmi_rendezvous_end(world->store, prefix, name, rank, status);
    }
    group->watched = NULL;
    if (status != TDM_OK) {
        tdmi_group_unmake(group);
        return status;
    }
    group->team.name = group->name;
    group->team.label = &group->recorder.label;
    group->team.rank = rank;
    group->team.n = size;
    group->team.world_rank = group->world_rank;
    group->team.node = world->node;
    group->team.topology = (tdmi_topology){.rank = rank, .n = size, .node = group->local_size == size ? NULL : group->node,
                                           .domain = group->domain, .transport = tdm_group_transport(group), .pair_ns = group->pair_ns, .tuning = &group->tuning};
    for (int shape = 0, nodes = tdmi_topology_nodes(&group->team.topology); shape < TDMI_SHAPES && group->orders != NULL; shape++) {
        group->team.topology.order[shape] = group->orders + shape * size;
        group->team.topology.node_order[shape] = group->orders + TDMI_SHAPES * size + shape * nodes;
    }
    group->team.is_local = group->local_size == size;
    group->team.reads = world->reads;
    pthread_mutex_lock(&group->lock);
    group->complete = true;
    pthread_mutex_unlock(&group->lock);
    *out = group;
    return TDM_OK;
}

void tdmi_group_unmake(tdm_group *group)
{
    tdmi_world *world = group->world;
    pthread_mutex_lock(&world->lock);
    for (tdm_group **at = &world->groups; *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    pthread_mutex_unlock(&world->lock);
    if (group->active != NULL)
        atomic_fetch_sub_explicit(&world->busy, 1, memory_order_relaxed);
    if (group->waits_for_links)
        atomic_fetch_sub(&world->link_busy, 1);
    tdmi_coalesce_free(group);
    tdmi_group_close_engine(group);
    tdmi_group_free_work(group);
    tdmi_plans_free(&group->team.plans);
    tdmi_links_give_up(group);
    tdmi_messages_free(group);
    tdmi_links_close(group);
    tdmi_boards_leave(group);
    tdmi_free(group->team.board);
    tdmi_free(group->team.arrived);
    tdmi_free(group->team.stage[0].block);
    tdmi_free(group->team.stage[1].block);
    tdmi_free(group->world_rank);
    tdmi_free(group->is_local);
    tdmi_free(group->node);
    tdmi_tuning_free(&group->tuning);
    tdmi_free(group->domain);
    tdmi_free(group->orders);
    tdmi_free(group->pair_ns);
    tdmi_free(group->host_name);
    tdmi_free(group->pid);
    tdmi_group_forget_subs(group);
    pthread_mutex_destroy(&group->lock);
    pthread_mutex_destroy(&group->control_lock);
    pthread_mutex_destroy(&group->failure_lock);
    tdmi_free(group);
    tdmi_world_release(world);
}
