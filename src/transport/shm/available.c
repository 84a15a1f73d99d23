/* available.c - MemAvailable of /proc/meminfo, memory.max minus memory.current of the cgroups above this process, and the limit
 * of file sizes. */
#include "transport/shm/available.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static size_t read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return SIZE_MAX;
    unsigned long long value;
    size_t result = fscanf(file, "%llu", &value) == 1 ? (size_t)value : SIZE_MAX; /* "max" is no number */
    fclose(file);
    return result;
}

static size_t machine_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL)
        return SIZE_MAX;
    char line[128];
    unsigned long long kib;
    size_t result = SIZE_MAX;
    while (result == SIZE_MAX && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            result = (size_t)kib * 1024;
    fclose(file);
    return result;
}

/* Version 2 only: its hierarchy is one, so walking the path up meets every limit that holds. */
static size_t cgroup_available(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return SIZE_MAX;
    char line[512], path[512] = "";
    while (path[0] == '\0' && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(path, sizeof path, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    fclose(file);
    size_t least = SIZE_MAX;
    while (path[0] != '\0') {
        char name[600];
        snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.max", path);
        size_t max = read_number(name);
        snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.current", path);
        size_t current = read_number(name);
        if (max != SIZE_MAX && current != SIZE_MAX) {
            size_t left = max > current ? max - current : 0;
            least = left < least ? left : least;
        }
        *strrchr(path, '/') = '\0';
    }
    return least;
}

size_t tdmi_memory_available(const char **where)
{
    size_t machine = machine_available(), cgroup = cgroup_available();
    *where = machine < cgroup ? "on this machine" : "under the limit of this cgroup (memory.max)";
    return machine < cgroup ? machine : cgroup;
}

size_t tdmi_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return (size_t)limit.rlim_cur;
}
