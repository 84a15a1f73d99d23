/* available.h - how much memory this process can still get, so that a full machine is an error and not a killed process. */
#ifndef TDMI_TRANSPORT_SHM_AVAILABLE_H
#define TDMI_TRANSPORT_SHM_AVAILABLE_H

#include <stddef.h>

/* Bytes the kernel calls available, limited by what the cgroup's limit leaves. SIZE_MAX where nothing says. */
size_t tdmi_memory_available(void);

#endif
