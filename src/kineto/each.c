/* each.c - a counter from which threads take places. The calling thread is one of them.
 *
 * Threads: all of them run run(); `next` is what they share, `status` and `text` are written under the lock by the first that fails. */
#include "kineto/each.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS_MAX 256

typedef struct crew {
    size_t count;
    tdm_status (*work)(uint32_t place, void *arg);
    void *arg;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock;
    tdm_status status;             /* guarded by lock */
    char text[TDMI_ERROR_TEXT_MAX]; /* guarded by lock */
} crew;

static void *run(void *arg)
{
    crew *c = arg;
    while (!atomic_load(&c->failed)) {
        const size_t place = atomic_fetch_add(&c->next, 1);
        if (place >= c->count)
            break;
        const tdm_status status = c->work((uint32_t)place, c->arg);
        if (status == TDM_OK)
            continue;
        pthread_mutex_lock(&c->lock);
        if (!atomic_exchange(&c->failed, true)) {
            c->status = status;
            snprintf(c->text, sizeof c->text, "%s", tdm_error_text());
        }
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

tdm_status tdmi_each_place(size_t count, int threads, tdm_status (*work)(uint32_t place, void *arg), void *arg)
{
    pthread_t thread[THREADS_MAX];
    size_t wanted = (size_t)threads, started = 0;
    crew c = {.count = count, .work = work, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER, .status = TDM_OK};
    wanted = wanted < count ? wanted : count;
    wanted = wanted < THREADS_MAX ? wanted : THREADS_MAX;
    while (started + 1 < wanted && pthread_create(&thread[started], NULL, run, &c) == 0)
        started++;
    run(&c);
    for (size_t t = 0; t < started; t++)
        pthread_join(thread[t], NULL);
    if (c.status != TDM_OK)
        tdmi_error_set_text(c.text);
    return c.status;
}
