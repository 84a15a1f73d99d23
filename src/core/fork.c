/* fork.c - a counter that grows in children. */
#include "core/fork.h"

#include <pthread.h>

atomic_uint tdmi_forks;

static void in_child(void)
{
    atomic_fetch_add_explicit(&tdmi_forks, 1, memory_order_relaxed);
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void tdmi_fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}
