/* available.h - how much memory this process can still get, so that a full machine is an error and not a killed process. */
#ifndef TDMI_TRANSPORT_SHM_AVAILABLE_H
#define TDMI_TRANSPORT_SHM_AVAILABLE_H

#include <stddef.h>

/* Bytes the kernel calls available, limited by what the cgroup's limit leaves. SIZE_MAX where nothing says. *where: in words,
 * "on this machine" or under which limit. */
size_t tdmi_memory_available(const char **where);
/* The largest file this process may make (`ulimit -f`), which shared memory is for the kernel: beyond it there is a signal. */
size_t tdmi_file_limit(void);

#endif
