/* cpu.c - CPU features, usable cores, memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/cpu.h"

#include "core/config.h"
#include "core/log.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

static const char *const isa_names[TDMI_ISA_COUNT] = {"plain", "avx2", "avx512"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tdmi_isa isa;        /* written once under `once` */
static char model[128];     /* written once under `once` */
static bool intel;          /* written once under `once` */
static pthread_once_t bf16_once = PTHREAD_ONCE_INIT;
static bool multiplies_bf16; /* written once under `bf16_once` */
static size_t own_cache;    /* written once under `once` */

static tdmi_isa best_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return TDMI_ISA_PLAIN;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return TDMI_ISA_AVX512;
    return TDMI_ISA_AVX2;
#else
    return TDMI_ISA_PLAIN;
#endif
}

static void read_cpu(void)
{
    snprintf(model, sizeof model, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file != NULL) {
        char line[512];
        while (fgets(line, sizeof line, file) != NULL) {
            char *value = strchr(line, ':');
            if (value == NULL)
                continue;
            value += strspn(value, ": \t");
            value[strcspn(value, "\n")] = '\0';
            if (strncmp(line, "vendor_id", 9) == 0)
                intel = strcmp(value, "GenuineIntel") == 0;
            if (strncmp(line, "model name", 10) == 0) {
                snprintf(model, sizeof model, "%s", value);
                break;
            }
        }
        fclose(file);
    }
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long level2 = sysconf(_SC_LEVEL2_CACHE_SIZE); /* slow: it asks the processor, which in a guest asks the host */
    own_cache = level2 > 0 ? (size_t)level2 : 0;
#endif
    isa = best_isa();
    const char *wanted = tdmi_config_text(TDMI_CONFIG_ISA);
    if (strcmp(wanted, "auto") == 0)
        return;
    for (int i = 0; i < TDMI_ISA_COUNT; i++)
        if (strcmp(wanted, isa_names[i]) == 0) {
            if ((tdmi_isa)i > isa)
                log_warn(TDM_LOG_CORE, "TANDEM_ISA=%s: this CPU has only %s, which is used", wanted, isa_names[isa]);
            else
                isa = (tdmi_isa)i;
            return;
        }
    log_warn(TDM_LOG_CORE, "TANDEM_ISA=%s is none of auto, plain, avx2, avx512 and has no effect", wanted);
}

tdmi_isa tdmi_cpu_isa(void)
{
    pthread_once(&once, read_cpu);
    return isa;
}

const char *tdmi_isa_name(tdmi_isa which)
{
    return (unsigned)which < TDMI_ISA_COUNT ? isa_names[which] : "unknown";
}

const char *tdmi_cpu_model(void)
{
    pthread_once(&once, read_cpu);
    return model;
}

#if defined(__x86_64__)
/* Whether there are tiles for bfloat16 and the kernel lets this process use them. */
static bool has_amx_bf16(void)
{
    enum { XTILEDATA = 18, ARCH_REQ_XCOMP_PERM = 0x1023 };
    unsigned a = 7, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 22 & 1u) == 0 || (d >> 24 & 1u) == 0)
        return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}
#endif

static void read_bf16(void)
{
#if defined(__x86_64__)
    multiplies_bf16 = tdmi_cpu_isa() >= TDMI_ISA_AVX512 &&
                      (has_amx_bf16() || (!tdmi_cpu_is_intel() && __builtin_cpu_supports("avx512bf16")));
#endif
}

bool tdmi_cpu_multiplies_bf16(void)
{
    pthread_once(&bf16_once, read_bf16);
    return multiplies_bf16;
}

bool tdmi_cpu_is_intel(void)
{
    pthread_once(&once, read_cpu);
    return intel;
}

size_t tdmi_cpu_own_cache(void)
{
    pthread_once(&once, read_cpu);
    return own_cache;
}

/* The first line of a file, or false. */
static bool read_line(const char *path, char *line, size_t nbytes)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool got = fgets(line, (int)nbytes, file) != NULL;
    fclose(file);
    return got;
}

static double read_quota(void)
{
    char line[128];
    double quota, period;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
        return quota / period;
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line) && (quota = atof(line)) > 0 &&
        read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line) && (period = atof(line)) > 0)
        return quota / period;
    return INT_MAX;
}

int tdmi_cpu_quota(void)
{
    return (int)ceil(read_quota());
}

int tdmi_cpu_usable(void)
{
    cpu_set_t set;
    int cores = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
        cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const int quota = tdmi_cpu_quota();
    if (quota < cores)
        cores = quota;
    return cores < 1 ? 1 : cores;
}

tdmi_cpus tdmi_cpus_own(void)
{
    cpu_set_t set;
    tdmi_cpus cpus = {{0}};
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                cpus.word[cpu / 64] |= (uint64_t)1 << (cpu % 64);
    return cpus;
}

static bool contains(const tdmi_cpus *all, const tdmi_cpus *some)
{
    for (int i = 0; i < 16; i++)
        if ((some->word[i] & ~all->word[i]) != 0)
            return false;
    return true;
}

static int count(const tdmi_cpus *set)
{
    int cpus = 0;
    for (int i = 0; i < 16; i++)
        cpus += __builtin_popcountll(set->word[i]);
    return cpus;
}

bool tdmi_cpus_crowded(const tdmi_cpus *const *set, int n, int quota)
{
    tdmi_cpus all = {{0}};
    bool known = true;
    for (int r = 0; r < n; r++) {
        int inside = 0;
        for (int q = 0; q < n; q++)
            inside += count(set[q]) > 0 && contains(set[r], set[q]);
        known = known && count(set[r]) > 0;
        if (count(set[r]) > 0 && inside > count(set[r])) /* ranks that can go nowhere else */
            return true;
        for (int i = 0; i < 16; i++)
            all.word[i] |= set[r]->word[i];
    }
    return n > quota || (known && n > count(&all));
}

size_t tdmi_memory_total(void)
{
    size_t total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    char line[128];
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (read_line(limits[i], line, sizeof line) && line[0] != 'm') {
            unsigned long long limit = strtoull(line, NULL, 10);
            if (limit > 0 && limit < total)
                total = (size_t)limit;
        }
    return total;
}
