/* fork.h - how a process notices that it is a child of fork(), and what such a child does not get.
 *
 * A child that outlives its parent (a data loader's worker, say) would hold the parent's connections open, and peers would not
 * see that the parent is dead, nor could its port be taken again. So connections are hidden: fork() closes them in the child. */
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

/* From now on children do not get fd, which tdmi_fork_close closes here. Without memory for it they do. */
void tdmi_fork_hide(int fd);
void tdmi_fork_close(int fd); /* hidden or not */

#endif
