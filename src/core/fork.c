/* fork.c - a counter that grows in children, and the descriptors that they do not get. Threads: any; `lock` guards the list. */
#include "core/fork.h"

#include "core/memory.h"

#include <pthread.h>
#include <unistd.h>

atomic_uint tdmi_forks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *hidden; /* [hidden_capacity] */
static size_t hidden_count, hidden_capacity;

static void before(void)
{
    pthread_mutex_lock(&lock); /* the list is whole when it is copied */
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    atomic_fetch_add_explicit(&tdmi_forks, 1, memory_order_relaxed);
    for (size_t i = 0; i < hidden_count; i++)
        close(hidden[i]);
    hidden_count = 0;
    pthread_mutex_unlock(&lock);
}

static void watch(void)
{
    pthread_atfork(before, in_parent, in_child);
}

void tdmi_fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

void tdmi_fork_hide(int fd)
{
    tdmi_fork_watch();
    pthread_mutex_lock(&lock);
    if (hidden_count == hidden_capacity) {
        const size_t capacity = hidden_capacity == 0 ? 64 : 2 * hidden_capacity;
        int *grown = tdmi_realloc(hidden, capacity * sizeof *grown, "descriptors");
        if (grown != NULL) {
            hidden = grown;
            hidden_capacity = capacity;
        }
    }
    if (hidden_count < hidden_capacity)
        hidden[hidden_count++] = fd;
    pthread_mutex_unlock(&lock);
}

void tdmi_fork_close(int fd)
{
    pthread_mutex_lock(&lock);
    for (size_t i = hidden_count; i-- > 0;)
        if (hidden[i] == fd) {
            hidden[i] = hidden[--hidden_count];
            break;
        }
    if (hidden_count == 0) {
        tdmi_free(hidden);
        hidden = NULL;
        hidden_capacity = 0;
    }
    pthread_mutex_unlock(&lock);
    close(fd);
}
