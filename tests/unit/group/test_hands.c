/* test_hands.c - one thread of a rank starts calls, another ends them, while the first one makes short calls on the same group. */
#include "on_ranks.h"

#include <tandem/message.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 400
#define SLOTS 8

typedef struct hands {
    _Atomic(tdm_work *) slot[SLOTS];
    atomic_bool stop;
    atomic_int ended;
    tdm_status status;
} hands;

/* Takes every handle, tests it until it is over and waits for it. */
static void *ends(void *arg)
{
    hands *h = arg;
    for (int i = 0; h->status == TDM_OK; i = (i + 1) % SLOTS) {
        const bool last = atomic_load(&h->stop); /* looked at first: what was given before it is seen below */
        tdm_work *work = atomic_load(&h->slot[i]);
        bool done = false;
        if (work == NULL) {
            if (last)
                break;
            i = (i + SLOTS - 1) % SLOTS; /* in order: the next one comes here */
            sched_yield();
            continue;
        }
        while (!done && h->status == TDM_OK)
            h->status = tdm_work_test(work, &done);
        if (h->status == TDM_OK)
            h->status = tdm_work_wait(work);
        atomic_fetch_add(&h->ended, 1);
        atomic_store(&h->slot[i], NULL);
    }
    return NULL;
}

static void give(hands *h, int *at, tdm_work *work)
{
    while (atomic_load(&h->slot[*at]) != NULL)
        sched_yield();
    atomic_store(&h->slot[*at], work);
    *at = (*at + 1) % SLOTS;
}

static const char *makes_calls(tdm_group *group, hands *h)
{
    const int n = tdm_group_size(group);
    static _Thread_local float set[SLOTS + 2][4][8], alone[SLOTS + 2][100];
    int at = 0;
    for (int k = 0; k < ROUNDS; k++) {
        tdm_work *work = NULL;
        const int m = k % (SLOTS + 2);
        CHECK_OK(tdm_coalesce_begin(group));
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 8; j++)
                set[m][i][j] = (float)(i + 1);
            CHECK_OK(tdm_allreduce(group, set[m][i], set[m][i], 8, TDM_F32, TDM_SUM, NULL));
        }
        CHECK_OK(tdm_coalesce_end(group, &work));
        give(h, &at, work);
        float one = 1;
        CHECK_OK(tdm_allreduce(group, &one, &one, 1, TDM_F32, TDM_SUM, NULL));
        CHECK((int)one == n, "round %d: %g", k, (double)one);
        CHECK_OK(tdm_allreduce(group, alone[m], alone[m], 100, TDM_F32, TDM_SUM, &work));
        give(h, &at, work);
        one = 2;
        CHECK_OK(tdm_allreduce(group, &one, &one, 1, TDM_F32, TDM_SUM, NULL));
        CHECK((int)one == 2 * n, "round %d: %g", k, (double)one);
    }
    return NULL;
}

static const char *two_hands(tdm_group *group, void *arg)
{
    (void)arg;
    hands h = {.status = TDM_OK};
    pthread_t thread;
    CHECK_THAT(pthread_create(&thread, NULL, ends, &h) == 0);
    const char *text = makes_calls(group, &h);
    atomic_store(&h.stop, true);
    pthread_join(thread, NULL);
    CHECK(text == NULL, "%s", text);
    CHECK(h.status == TDM_OK && atomic_load(&h.ended) == 2 * ROUNDS, "status %d, %d ended", (int)h.status, atomic_load(&h.ended));
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static void a_thread_ends_calls_while_another_makes_more(void **state)
{
    (void)state;
    static const char *const transports[] = {"shm", "tcp"};
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .timeout_s = 60, .deadline_s = 120}, two_hands, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thread_ends_calls_while_another_makes_more)};
    return cmocka_run_group_tests_name("hands", tests, NULL, NULL) != 0;
}
