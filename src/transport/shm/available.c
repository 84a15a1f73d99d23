/* available.c - MemAvailable of /proc/meminfo, what the limits of the cgroups above this process leave (version 2 or 1; cached files
 * count as free, since the kernel drops them first), and the limit of file sizes. */
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

typedef struct version {
    const char *line;          /* how the line of /proc/self/cgroup goes on behind the number */
    const char *root, *limit, *used, *active, *inactive;
} version;

static const version versions[] = {
    {"::/", "/sys/fs/cgroup", "memory.max", "memory.current", "active_file ", "inactive_file "},
    {":memory:/", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file ", "total_inactive_file "},
};

/* Where this process is in that hierarchy; "" if it is in none. */
static void find_path(const version *v, char *path, size_t nbytes)
{
    char line[512];
    path[0] = '\0';
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return;
    while (path[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *rest = line + strspn(line, "0123456789");
        if (strncmp(rest, v->line, strlen(v->line)) == 0)
            snprintf(path, nbytes, "%.*s", (int)strcspn(strchr(rest, '/'), "\n"), strchr(rest, '/'));
    }
    fclose(file);
}

static size_t read_cached(const version *v, const char *path)
{
    char line[128];
    unsigned long long nbytes;
    size_t cached = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        for (int i = 0; i < 2; i++) {
            const char *name = i == 0 ? v->active : v->inactive;
            if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), "%llu", &nbytes) == 1)
                cached += (size_t)nbytes;
        }
    if (file != NULL)
        fclose(file);
    return cached;
}

/* A hierarchy is walked up: every limit on the way holds. */
static size_t cgroup_available(const version *v)
{
    char path[512], name[640];
    size_t least = SIZE_MAX;
    find_path(v, path, sizeof path);
    for (; path[0] != '\0'; *strrchr(path, '/') = '\0') {
        snprintf(name, sizeof name, "%s%s/%s", v->root, path, v->limit);
        const size_t limit = read_number(name);
        snprintf(name, sizeof name, "%s%s/%s", v->root, path, v->used);
        const size_t used = read_number(name);
        if (limit == SIZE_MAX || used == SIZE_MAX)
            continue;
        snprintf(name, sizeof name, "%s%s/memory.stat", v->root, path);
        const size_t cached = read_cached(v, name), held = used > cached ? used - cached : 0, left = limit > held ? limit - held : 0;
        least = left < least ? left : least;
    }
    return least;
}

size_t tdmi_memory_available(const char **where)
{
    const size_t machine = machine_available();
    size_t cgroup = SIZE_MAX;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        const size_t left = cgroup_available(&versions[i]);
        cgroup = left < cgroup ? left : cgroup;
    }
    *where = machine < cgroup ? "on this machine" : "under the memory limit of this cgroup";
    return machine < cgroup ? machine : cgroup;
}

size_t tdmi_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return (size_t)limit.rlim_cur;
}
