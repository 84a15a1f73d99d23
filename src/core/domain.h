/* domain.h - which NUMA node and which last-level cache a set of CPUs belongs to. */
#ifndef TDMI_CORE_DOMAIN_H
#define TDMI_CORE_DOMAIN_H

#include "core/cpu.h"

/* Equal numbers are the same thing, in every process of the machine. -1: the CPUs belong to several, to none that is known, or the
 * machine has but one. */
typedef struct tdmi_domain {
    int node;  /* as the kernel numbers them */
    int cache;
} tdmi_domain;

tdmi_domain tdmi_domain_of(const tdmi_cpus *cpus);

#endif
