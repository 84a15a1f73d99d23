/* world.c - what the groups of one rank share, and the first of them, which is all ranks. */
#include "group/group.h"

#include "core/config.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/memory.h"
#include "group/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* TANDEM_JOB_SECRET, or what keeps a job on one host apart from others. */
static const char *secret_of(const tdmi_settings *settings)
{
    const char *given = tdmi_config_text(TDMI_CONFIG_JOB_SECRET);
    return given[0] != '\0' ? given : settings->secret;
}

static tdm_status open_store(const tdmi_settings *settings, tdmi_world *world)
{
    if (settings->engine != NULL && settings->engine->meets_alone)
        return TDM_OK;
    world->store = settings->store;
    if (world->store != NULL || settings->size == 1)
        return TDM_OK;
    tdm_status status = tdm_store_open_tcp(settings->host, settings->port, settings->rank == 0, secret_of(settings),
                                           settings->rendezvous_timeout_s, &world->store);
    world->owns_store = status == TDM_OK;
    if (status == TDM_ERR_TIMEOUT && settings->rank != 0)
        return tdmi_fail(TDM_ERR_TIMEOUT, "group %s: rank 0 of %d did not arrive within %g s (%s)", settings->name, settings->size,
                         settings->rendezvous_timeout_s, tdm_error_text());
    return status;
}

static tdm_status make_world(const tdmi_settings *settings, tdmi_world **out)
{
    tdmi_world *world = tdmi_calloc(1, sizeof *world, "world");
    if (world == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_fork_watch();
    world->forks = tdmi_fork_number();
    world->rank = settings->rank;
    world->size = settings->size;
    world->shares = !settings->force_links;
    world->force_local = settings->force_local;
    world->ucx = settings->ucx;
    world->rendezvous_timeout_s = settings->rendezvous_timeout_s;
    world->references = 1;
    world->poller[0] = world->poller[1] = world->kick = -1;
    pthread_mutex_init(&world->lock, NULL);
    tdmi_auth_key_init(&world->key, secret_of(settings));
    tdm_status status = tdmi_host_id(world->host_id);
    if (status == TDM_OK)
        status = tdmi_node_create(world->rank, world->size, 0, &world->node);
    if (status == TDM_OK && world->size > 1)
        status = tdmi_poller_open(world);
    if (status == TDM_OK)
        status = open_store(settings, world);
    if (status == TDM_OK)
        tdmi_world_record(world, settings);
    if (status != TDM_OK) {
        tdmi_world_release(world);
        return status;
    }
    *out = world;
    return TDM_OK;
}

void tdmi_world_release(tdmi_world *world)
{
    pthread_mutex_lock(&world->lock);
    const bool last = --world->references == 0;
    pthread_mutex_unlock(&world->lock);
    if (!last)
        return;
    tdmi_progress_stop(world);
    tdmi_world_free_blocks(world);
    tdmi_boards_free_list(world);
    tdmi_node_destroy(world->node);
    tdmi_recorder_close(world->recorder);
    if (world->owns_store)
        tdm_store_close(world->store);
    pthread_mutex_destroy(&world->lock);
    tdmi_free(world);
}

/* Virtual nodes (TANDEM_NODE_ID) share no memory, but the cores of their host. */
static bool is_crowded(const tdm_group *group)
{
    int on_host = 0;
    for (int r = 0; r < group->size; r++)
        on_host += strcmp(group->host_name + (size_t)r * TDMI_HOST_NAME_BYTES,
                          group->host_name + (size_t)group->rank * TDMI_HOST_NAME_BYTES) == 0;
    return on_host > sysconf(_SC_NPROCESSORS_ONLN) || tdmi_node_crowded(group->world->node);
}

/* All ranks have met since they tried: what came of it, for this group and those made from it. */
static void learn_reading(tdm_group *group)
{
    tdmi_world *world = group->world;
    if (group->local_size < 2)
        return;
    world->reads = group->team.reads = tdmi_node_reads(world->node, world->reading);
    if (!world->reads && group->local_rank == 0)
        log_info(TDM_LOG_GROUP, "group %s: malloc memory goes through shared memory: %s", group->name, world->reading);
}

tdm_status tdm_group_create(const tdm_group_options *options, tdm_group **out)
{
    tdmi_settings settings;
    tdmi_world *world;
    char prefix[TDMI_PREFIX_MAX] = "";
    tdmi_config_warn_unknown();
    tdm_status status = tdmi_settings_make(options, &settings);
    if (status != TDM_OK)
        return status;
    tdmi_engine *alone = NULL;
    if (settings.engine != NULL && settings.engine->meets_alone) {
        status = settings.engine->open(&(tdmi_engine_start){.rank = settings.rank, .size = settings.size}, &alone);
        if (status != TDM_OK)
            return status;
        settings.rank = alone->rank;
        settings.size = alone->size;
    }
    status = make_world(&settings, &world);
    if (status != TDM_OK) {
        if (alone != NULL)
            settings.engine->close(alone, false);
        return status;
    }
    if (settings.size > 1 && alone == NULL)
        status = tdmi_rendezvous_prefix(world->store, settings.name, settings.rank, prefix);
    tdm_group *group = NULL;
    if (status == TDM_OK)
        status = tdmi_group_make(world, NULL, settings.name, prefix, settings.rank, settings.size, settings.timeout_s, alone, &group);
    if (status == TDM_OK && settings.engine != NULL && alone == NULL) {
        status = tdmi_group_attach_engine(group, settings.engine);
        if (status != TDM_OK)
            tdm_group_destroy(group);
    }
    if (status == TDM_OK) {
        world->crowded = is_crowded(group);
        /* All ranks have all they need from the store now: it may close with the first rank that leaves. */
        status = tdm_barrier(group, NULL);
        if (status == TDM_OK)
            learn_reading(group);
        else
            tdm_group_destroy(group);
    }
    tdmi_world_release(world); /* the group holds it */
    if (status != TDM_OK)
        return status;
    log_debug(TDM_LOG_GROUP, "group %s: rank %d of %d, %d of %d on this node (the launcher says %d of %d)", group->name,
              group->rank, group->size, group->local_rank, group->local_size, settings.local_rank, settings.local_size);
    *out = group;
    return TDM_OK;
}

void tdm_group_destroy(tdm_group *group)
{
    if (group == NULL || tdmi_group_check_process(group) != TDM_OK)
        return;
    tdmi_group_look_back(group);
    tdmi_group_say_goodbye(group);
    tdmi_group_unmake(group);
}

int tdm_group_rank(const tdm_group *group)
{
    return group->rank;
}

int tdm_group_size(const tdm_group *group)
{
    return group->size;
}

const char *tdm_group_name(const tdm_group *group)
{
    return group->name;
}

bool tdm_group_is_local(const tdm_group *group, int rank)
{
    return rank >= 0 && rank < group->size && group->is_local[rank];
}

const char *tdm_group_transport(const tdm_group *group)
{
    if (group->engine != NULL && group->engine->ops->meets_alone)
        return group->engine->ops->name;
    if (group->local_size == group->size)
        return group->size == 1 ? "self" : "shm";
    if (group->ucx != NULL)
        return group->local_size == 1 ? "ucx" : "shm+ucx";
    return group->local_size == 1 ? "tcp" : "shm+tcp";
}

int tdm_group_local_size(const tdm_group *group)
{
    return group->local_size;
}

int tdm_group_local_rank(const tdm_group *group)
{
    return group->local_rank;
}
