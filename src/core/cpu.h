/* cpu.h - what this processor can do, and how many cores this process may use. */
#ifndef TDMI_CORE_CPU_H
#define TDMI_CORE_CPU_H

#include "core/error.h"

#include <stdint.h>

typedef enum { TDMI_ISA_PLAIN, TDMI_ISA_AVX2, TDMI_ISA_AVX512, TDMI_ISA_COUNT } tdmi_isa;

/* The best instruction set that this CPU and its kernel support (AVX2 means with FMA and F16C; AVX-512 means F, BW, DQ and
 * VL), limited by TANDEM_ISA. Read once. */
tdmi_isa tdmi_cpu_isa(void);
const char *tdmi_isa_name(tdmi_isa isa); /* "plain", "avx2", "avx512" */
/* Cores this process may use: its affinity mask, limited by the cgroup's CPU quota (v1 and v2), at least 1. */
int tdmi_cpu_usable(void);
/* The CPUs that the calling thread may run on; all bits clear: not known. */
typedef struct tdmi_cpus {
    uint64_t word[16];
} tdmi_cpus;
tdmi_cpus tdmi_cpus_own(void);
/* Cores' worth of time that the cgroup grants; INT_MAX: no limit. */
int tdmi_cpu_quota(void);
/* Whether some of n ranks, bound to these sets and granted `quota` cores together, have to share a core. */
bool tdmi_cpus_crowded(const tdmi_cpus *const *set, int n, int quota);
/* "Intel(R) Xeon(R) ..." of /proc/cpuinfo, static storage; "unknown" where there is none. */
const char *tdmi_cpu_model(void);
bool tdmi_cpu_is_intel(void);
/* Whether products of bfloat16 are faster here than those of float32: AMX, or AVX512_BF16 but on Intel's cores, whose
 * instruction is slower than two of float32. The first call asks the kernel for the use of AMX's tiles. */
bool tdmi_cpu_multiplies_bf16(void);
/* In a loop that waits for another core. */
static inline void tdmi_cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
/* Fetches the line of `at`, which this core is about to write and another has. */
static inline void tdmi_cpu_prefetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at)); /* the compiler makes a load of it unless it knows the processor */
#else
    __builtin_prefetch(at, 1);
#endif
}
/* Bytes of the second-level cache, which is a core's own; 0: not known. */
size_t tdmi_cpu_own_cache(void);
/* Physical memory of this machine in bytes, limited by the cgroup's limit. */
size_t tdmi_memory_total(void);

#endif
