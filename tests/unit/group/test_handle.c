/* test_handle.c - callbacks, time-outs of single calls, forks, a store given as functions. */
#include "on_ranks.h"

#include <tandem/message.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct heard {
    atomic_int times, status;
} heard;

static void hear(void *arg, tdm_status status)
{
    heard *h = arg;
    atomic_store(&h->status, (int)status);
    atomic_fetch_add(&h->times, 1);
}

static const char *calls_back(tdm_group *group, void *arg)
{
    (void)arg;
    heard all = {0}, message = {0};
    float sum = 1, got = 0;
    tdm_work *work, *send;
    CHECK_OK(tdm_allreduce(group, &sum, &sum, 1, TDM_F32, TDM_SUM, &work));
    tdm_work_on_done(work, hear, &all);
    CHECK_OK(tdm_work_wait(work));
    CHECK(all.times == 1 && all.status == TDM_OK && sum == 2, "called %d times, status %d", all.times, all.status);
    CHECK_OK(tdm_send(group, &sum, 1, TDM_F32, 1 - tdm_group_rank(group), 0, &send));
    CHECK_OK(tdm_recv(group, &got, 1, TDM_F32, TDM_ANY_SOURCE, 0, NULL, &work));
    tdm_work_on_done(work, hear, &message);
    CHECK_OK(tdm_work_wait(work));
    CHECK_OK(tdm_work_wait(send));
    CHECK(message.times == 1 && message.status == TDM_OK && got == 2, "called %d times, status %d", message.times, message.status);
    return NULL;
}

static const char *calls_back_on_failure(tdm_group *group, void *arg)
{
    (void)arg;
    heard h = {0};
    float sum = 1;
    tdm_work *work;
    if (tdm_group_rank(group) == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
        return NULL;
    }
    CHECK_OK(tdm_allreduce(group, &sum, &sum, 1, TDM_F32, TDM_SUM, &work));
    tdm_work_on_done(work, hear, &h);
    tdm_work_set_timeout(work, 0.2); /* the group's is 10 s */
    tdm_status status = tdm_work_wait(work);
    CHECK(status == TDM_ERR_TIMEOUT && strstr(tdm_error_text(), "rank 1 did not arrive within 0.2 s") != NULL, "%d: %s", (int)status,
          tdm_error_text());
    CHECK(h.times == 1 && h.status == TDM_ERR_TIMEOUT, "called %d times, status %d", h.times, h.status);
    return NULL;
}

static void a_callback_hears_of_the_end_once(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        ranks_run(&(ranks_spec){.n = 2, .transport = tcp ? "tcp" : "shm"}, calls_back, NULL);
        ranks_run(&(ranks_spec){.n = 2, .transport = tcp ? "tcp" : "shm"}, calls_back_on_failure, NULL);
    }
}

/* Over links the progress thread finishes calls and says so while the rank does other things. */
static const char *hears_without_waiting(tdm_group *group, void *arg)
{
    (void)arg;
    heard h = {0};
    float sum[1000] = {1};
    tdm_work *work;
    CHECK_OK(tdm_allreduce(group, sum, sum, 1000, TDM_F32, TDM_SUM, &work));
    tdm_work_on_done(work, hear, &h);
    for (int i = 0; i < 5000 && atomic_load(&h.times) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(h.times == 1 && h.status == TDM_OK, "called %d times, status %d", h.times, h.status);
    CHECK_OK(tdm_work_wait(work));
    return NULL;
}

static void over_links_nobody_has_to_wait_for_it(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, hears_without_waiting, NULL);
}

static const char *later_calls_have_less_time(tdm_group *group, void *arg)
{
    (void)arg;
    if (tdm_group_rank(group) == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
        return NULL;
    }
    tdm_group_set_timeout(group, 0.2);
    tdm_status status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_TIMEOUT && strstr(tdm_error_text(), "within 0.2 s") != NULL, "%d: %s", (int)status, tdm_error_text());
    return NULL;
}

static void the_time_out_of_a_group_can_change(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, later_calls_have_less_time, NULL);
}

/* ---- fork ---- */

static const char *forks(tdm_group *group, void *arg)
{
    (void)arg;
    float sum = 1;
    tdm_work *work;
    int status;
    CHECK_OK(tdm_allreduce(group, &sum, &sum, 1, TDM_F32, TDM_SUM, &work));
    const pid_t child = fork();
    if (child == 0) {
        bool refused = tdm_barrier(group, NULL) == TDM_ERR_INVALID && strstr(tdm_error_text(), "fork()") != NULL;
        refused = refused && tdm_work_wait(work) == TDM_ERR_INVALID;
        void *block;
        refused = refused && tdm_alloc(group, 100, &block) == TDM_ERR_INVALID;
        tdm_group_abort(group, "by a child that has no say");
        tdm_group_destroy(group);
        _exit(refused ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child was not refused");
    CHECK_OK(tdm_work_wait(work));
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static void a_child_of_fork_is_refused_and_harms_nobody(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, forks, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .mode = RANKS_PROCESSES}, forks, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_hears_of_the_end_once),
        cmocka_unit_test(over_links_nobody_has_to_wait_for_it),
        cmocka_unit_test(the_time_out_of_a_group_can_change),
        cmocka_unit_test(a_child_of_fork_is_refused_and_harms_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
