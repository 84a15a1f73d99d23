/* domain.c - hwloc's view of caches and NUMA nodes. To load it takes some 20 ms, so a machine that has one of each, of which the
 * kernel tells in three short files, does without. */
#include "core/domain.h"

#ifdef TDMI_HAVE_HWLOC

#include "core/log.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_text(const char *path, char *text, int nbytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const bool got = fgets(text, nbytes, file) != NULL;
    fclose(file);
    return got;
}

static bool has_but_one(void)
{
    char nodes[256], cpus[256], cache[256];
    if (getenv("HWLOC_SYNTHETIC") != NULL || getenv("HWLOC_XMLFILE") != NULL) /* another machine is asked for */
        return false;
    return read_text("/sys/devices/system/node/online", nodes, sizeof nodes) && strpbrk(nodes, ",-") == NULL &&
           read_text("/sys/devices/system/cpu/online", cpus, sizeof cpus) &&
           read_text("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", cache, sizeof cache) && strcmp(cpus, cache) == 0;
}

/* The first object of this type that has all of the CPUs, or NULL. */
static hwloc_obj_t holder(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t set)
{
    hwloc_obj_t at = NULL;
    while ((at = hwloc_get_next_obj_by_type(topology, type, at)) != NULL)
        if (at->complete_cpuset != NULL && hwloc_bitmap_isincluded(set, at->complete_cpuset))
            return at;
    return NULL;
}

static tdmi_domain look(hwloc_topology_t topology, hwloc_const_bitmap_t set)
{
    tdmi_domain domain = {-1, -1};
    const hwloc_obj_t node = holder(topology, HWLOC_OBJ_NUMANODE, set);
    hwloc_obj_t cache = holder(topology, HWLOC_OBJ_L3CACHE, set);
    if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_L3CACHE) <= 0)
        cache = holder(topology, HWLOC_OBJ_L2CACHE, set);
    if (node != NULL)
        domain.node = (int)node->os_index;
    if (cache != NULL) /* logical numbers may differ from process to process, CPUs do not */
        domain.cache = hwloc_bitmap_first(cache->complete_cpuset);
    return domain;
}

tdmi_domain tdmi_domain_of(const tdmi_cpus *cpus)
{
    tdmi_domain domain = {-1, -1};
    hwloc_topology_t topology;
    if (has_but_one() || hwloc_topology_init(&topology) != 0)
        return domain;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (unsigned cpu = 0; set != NULL && cpu < 64 * sizeof cpus->word / sizeof *cpus->word; cpu++)
        if ((cpus->word[cpu / 64] >> cpu % 64 & 1) != 0)
            hwloc_bitmap_set(set, cpu);
    if (set != NULL && !hwloc_bitmap_iszero(set) && hwloc_topology_load(topology) == 0)
        domain = look(topology, set);
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    log_debug(TDM_LOG_CORE, "this rank's CPUs belong to NUMA node %d and the cache of CPU %d (-1: several)", domain.node, domain.cache);
    return domain;
}

#else

tdmi_domain tdmi_domain_of(const tdmi_cpus *cpus)
{
    (void)cpus;
    return (tdmi_domain){-1, -1};
}

#endif
