/* tdm_progress: a thread of the caller ends calls that nobody waits for, sleeps while there is nothing, and hears of ends and failures. */
#include "on_ranks.h"

#include "core/clock.h"

#include <tandem/message.h>
#include <tandem/progress.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT ((size_t)100000)
#define CALLS 20

typedef struct lookout {
    tdm_group *group;
    tdm_work *work[CALLS];
    int count;
    atomic_bool stop;
    double cpu_s;       /* of its thread */
    bool over;          /* all ended without anybody else */
    tdm_status status;
} lookout;

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Until all its calls are over, or it is stopped. */
static void *look(void *arg)
{
    lookout *l = arg;
    for (uint32_t seen = 0; !atomic_load(&l->stop) && !l->over && l->status == TDM_OK;) {
        l->over = l->count > 0;
        for (int i = 0; i < l->count && l->status == TDM_OK; i++) {
            bool done = false;
            l->status = tdm_work_test(l->work[i], &done);
            l->over = l->over && done;
        }
        if (!l->over && l->status == TDM_OK && tdm_progress(l->group, &seen, 20) != TDM_OK)
            l->status = TDM_ERR_INTERNAL;
    }
    l->cpu_s = cpu_seconds();
    return NULL;
}

static const char *ends_without_a_wait(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    float *data = malloc(CALLS * COUNT * sizeof *data);
    CHECK(data != NULL, "no memory");
    for (size_t i = 0; i < CALLS * COUNT; i++)
        data[i] = (float)rank;
    lookout l = {.group = group, .count = CALLS};
    usleep(rank == 0 ? 150000 : 0); /* the others' threads sleep meanwhile */
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(tdm_allreduce(group, data + (size_t)i * COUNT, data + (size_t)i * COUNT, COUNT, TDM_F32, TDM_SUM, &l.work[i]));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, &l) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(l.over && l.status == TDM_OK, "%s", tdm_error_text());
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(tdm_work_wait(l.work[i]));
    for (size_t i = 0; i < CALLS * COUNT; i++)
        CHECK(data[i] == (float)(n * (n - 1) / 2), "element %zu is %g", i, (double)data[i]);
    free(data);
    return NULL;
}

/* A receive that nothing is sent to for long; the owner makes calls of its own beside it. */
static const char *calls_go_on_beside_it(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    int64_t got = -1, gives = rank;
    lookout l = {.group = group, .count = 1};
    CHECK_OK(tdm_recv(group, &got, 1, TDM_I64, (rank + n - 1) % n, 7, NULL, &l.work[0]));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, &l) == 0, "no thread");
    for (int i = 0; i < 300; i++) {
        float sum = 1;
        CHECK_OK(tdm_allreduce(group, &sum, &sum, 1, TDM_F32, TDM_SUM, NULL));
        CHECK(sum == (float)n, "call %d gives %g", i, (double)sum);
    }
    CHECK_OK(tdm_send(group, &gives, 1, TDM_I64, (rank + 1) % n, 7, NULL));
    pthread_join(thread, NULL);
    CHECK(l.over, "status %d", (int)l.status);
    CHECK_OK(tdm_work_wait(l.work[0]));
    CHECK(got == (rank + n - 1) % n, "got %lld", (long long)got);
    return NULL;
}

static const char *sleeps_and_is_woken(tdm_group *group, void *arg)
{
    (void)arg;
    lookout l = {.group = group};
    const int64_t began = tdmi_now_ns();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, &l) == 0, "no thread");
    usleep(300000);
    atomic_store(&l.stop, true);
    tdm_progress_wake(group);
    pthread_join(thread, NULL);
    CHECK(tdmi_now_ns() - began < 5000 * TDMI_NS_PER_MS, "it slept on");
    CHECK(l.cpu_s < 0.1, "it took %g s of a processor to sleep for 0.3 s", l.cpu_s);
    uint32_t seen = 0;
    CHECK_OK(tdm_progress(group, &seen, 5)); /* what was told before is not missed */
    CHECK(seen >= 1, "news %u", seen);
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static const char *hears_of_an_abort(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    float data = 1;
    lookout l = {.group = group, .count = 1};
    if (rank == 0) {
        usleep(200000);
        tdm_group_abort(group, "the test wants it");
        return NULL;
    }
    CHECK_OK(tdm_allreduce(group, &data, &data, 1, TDM_F32, TDM_SUM, &l.work[0]));
    const int64_t began = tdmi_now_ns();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, &l) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(l.status == TDM_ERR_ABORTED, "status %d", (int)l.status);
    CHECK(tdmi_now_ns() - began < 3000 * TDMI_NS_PER_MS, "it heard late");
    CHECK(tdm_work_wait(l.work[0]) == TDM_ERR_ABORTED, "the handle says nothing");
    return NULL;
}

static void everywhere(ranks_body body)
{
    static const char *const transports[] = {RANKS_TRANSPORTS};
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[i]}, body, NULL);
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes"}, body, NULL);
}

static void calls_end_while_nobody_waits(void **state)
{
    (void)state;
    everywhere(ends_without_a_wait);
}

static void another_thread_makes_calls_meanwhile(void **state)
{
    (void)state;
    everywhere(calls_go_on_beside_it);
}

static void it_sleeps_until_it_is_woken(void **state)
{
    (void)state;
    everywhere(sleeps_and_is_woken);
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, sleeps_and_is_woken, NULL);
}

static void a_failure_is_news(void **state)
{
    (void)state;
    everywhere(hears_of_an_abort);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_end_while_nobody_waits),
        cmocka_unit_test(another_thread_makes_calls_meanwhile),
        cmocka_unit_test(it_sleeps_until_it_is_woken),
        cmocka_unit_test(a_failure_is_news),
    };
    return cmocka_run_group_tests_name("lookout", tests, NULL, NULL) != 0;
}
