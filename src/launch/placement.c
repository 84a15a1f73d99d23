/* placement.c - CPUs sorted by NUMA node, socket and core, cut into one run a rank. */
#include "launch/placement.h"

#include "core/cpu.h"
#include "core/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    int node, package, core, cpu;
} place;

static int read_number(int cpu, const char *name)
{
    char path[128];
    int value = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

static int read_node(int cpu)
{
    char path[64];
    int node = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (sscanf(entry->d_name, "node%d", &node) == 1)
            break;
    closedir(dir);
    return node;
}

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

static tdm_status bind_ranks(int ranks, const cpu_set_t *allowed, int cpus, tdmi_placement *out)
{
    place *places = tdmi_calloc((size_t)cpus, sizeof *places, "placement");
    out->sets = tdmi_calloc((size_t)ranks, sizeof *out->sets, "placement");
    if (places == NULL || out->sets == NULL) {
        tdmi_free(places);
        tdmi_placement_free(out);
        return TDM_ERR_NO_MEMORY;
    }
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < cpus; cpu++)
        if (CPU_ISSET(cpu, allowed))
            places[count++] = (place){read_node(cpu), read_number(cpu, "physical_package_id"), read_number(cpu, "core_id"), cpu};
    qsort(places, (size_t)count, sizeof *places, by_place);
    for (int rank = 0; rank < ranks; rank++)
        for (int i = rank * count / ranks; i < (rank + 1) * count / ranks; i++)
            CPU_SET(places[i].cpu, &out->sets[rank]);
    tdmi_free(places);
    return TDM_OK;
}

tdm_status tdmi_placement_choose(int ranks, const char *user_threads, tdmi_placement *out)
{
    *out = (tdmi_placement){0};
    int usable = tdmi_cpu_usable(), cpus = 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        cpus = CPU_COUNT(&allowed);
    out->threads = usable / ranks > 0 ? usable / ranks : 1;
    bool bind = ranks > 1 && cpus >= ranks;
    if (bind) {
        tdm_status status = bind_ranks(ranks, &allowed, cpus, out);
        if (status != TDM_OK)
            return status;
    }
    char threads[64];
    if (user_threads == NULL)
        snprintf(threads, sizeof threads, "OMP_NUM_THREADS=%d%s", out->threads, ranks > 1 ? " each" : "");
    else
        snprintf(threads, sizeof threads, "OMP_NUM_THREADS=%.16s kept", user_threads);
    if (ranks > usable)
        snprintf(out->note, sizeof out->note, "%d ranks share %d CPU%s, which is slow: %s%s", ranks, usable, usable > 1 ? "s" : "",
                 threads, bind ? "" : ", ranks not bound");
    else if (ranks > 1)
        snprintf(out->note, sizeof out->note, "%d ranks on %d CPUs: %s%s", ranks, usable, threads,
                 bind ? ", each bound to its own CPUs" : ", ranks not bound");
    else if (user_threads == NULL)
        snprintf(out->note, sizeof out->note, "1 rank on %d CPU%s: %s", usable, usable > 1 ? "s" : "", threads);
    return TDM_OK;
}

void tdmi_placement_free(tdmi_placement *placement)
{
    tdmi_free(placement->sets);
    placement->sets = NULL;
}
