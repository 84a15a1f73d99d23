/* fork.h - how a process notices that it is a child of fork(). */
#ifndef TDMI_CORE_FORK_H
#define TDMI_CORE_FORK_H

#include <stdatomic.h>

/* How many forks lie between this process and the first one that asked. One load: what was made before a fork remembers the
 * number and compares. */
extern atomic_uint tdmi_forks;
void tdmi_fork_watch(void); /* before the first comparison; any thread, any number of times */

static inline unsigned tdmi_fork_number(void)
{
    return atomic_load_explicit(&tdmi_forks, memory_order_relaxed);
}

#endif
