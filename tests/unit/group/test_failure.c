/* test_failure.c - late, dead, departing and disagreeing ranks are one error on all ranks, in time, with names. */
#include "on_ranks.h"

#include "core/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const transports[] = {RANKS_TRANSPORTS};
static const int transport_count = sizeof transports / sizeof *transports;

static void sleep_s(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* ---- ranks that make different calls ---- */

typedef struct counts {
    tdm_status (*call)(tdm_group *group, void *in, void *out, size_t count);
    size_t count[2];
    const char *both[2]; /* must stand in the text */
} counts;

static tdm_status call_allreduce(tdm_group *group, void *in, void *out, size_t count)
{
    return tdm_allreduce(group, in, out, count, TDM_F32, TDM_SUM, NULL);
}

static tdm_status call_broadcast(tdm_group *group, void *in, void *out, size_t count)
{
    (void)out;
    return tdm_broadcast(group, in, count, TDM_F32, 0, NULL);
}

static tdm_status call_reduce_scatter(tdm_group *group, void *in, void *out, size_t count)
{
    return tdm_reduce_scatter(group, in, out, count, TDM_F32, TDM_SUM, NULL);
}

static tdm_status call_all_gather_or_barrier(tdm_group *group, void *in, void *out, size_t count)
{
    return count == 0 ? tdm_barrier(group, NULL) : tdm_all_gather(group, in, out, count, TDM_F32, NULL);
}

static tdm_status call_roots(tdm_group *group, void *in, void *out, size_t count)
{
    (void)out;
    return tdm_broadcast(group, in, 10, TDM_F32, (int)count, NULL);
}

static tdm_status call_types(tdm_group *group, void *in, void *out, size_t count)
{
    return tdm_allreduce(group, in, out, 10, count == 0 ? TDM_F32 : TDM_I32, TDM_SUM, NULL);
}

static const char *makes_another_call(tdm_group *group, void *arg)
{
    const counts *c = arg;
    static _Thread_local float in[2 * 512000], out[2 * 512000];
    const int64_t start = tdmi_now_ns();
    tdm_status status = c->call(group, in, out, c->count[tdm_group_rank(group)]);
    if (status == TDM_OK) /* who only gives waits for nobody, and hears of it in its next call */
        status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(tdmi_now_ns() - start < 2 * TDMI_NS_PER_S, "it took too long");
    for (int i = 0; i < 2; i++)
        CHECK(strstr(tdm_error_text(), c->both[i]) != NULL, "\"%s\" lacks \"%s\"", tdm_error_text(), c->both[i]);
    status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH, "the group lives on: %s", tdm_status_name(status));
    return NULL;
}

static void different_calls_are_an_error_on_both_ranks_that_names_both(void **state)
{
    (void)state;
    const counts cases[] = {
        {call_allreduce, {256000, 512000}, {"rank 0 makes allreduce of 256000 float32 (sum)", "rank 1 makes allreduce of 512000"}},
        {call_allreduce, {2560, 5120}, {"of 2560", "of 5120"}},
        {call_allreduce, {7, 8}, {"of 7", "of 8"}},
        {call_allreduce, {0, 1}, {"of 0", "of 1"}},
        {call_broadcast, {256000, 512000}, {"broadcast of 256000", "broadcast of 512000"}},
        {call_broadcast, {0, 1}, {"of 0", "of 1"}},
        {call_reduce_scatter, {2560, 5120}, {"reduce_scatter of 2560", "reduce_scatter of 5120"}},
        {call_reduce_scatter, {7, 8}, {"of 7", "of 8"}},
        {call_all_gather_or_barrier, {0, 4}, {"rank 0 makes barrier", "rank 1 makes all_gather of 4 float32"}},
        {call_roots, {0, 1}, {"from rank 0", "from rank 1"}},
        {call_types, {0, 1}, {"float32", "int32"}},
    };
    for (int t = 0; t < transport_count; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, makes_another_call, (void *)(uintptr_t)&cases[i]);
}

/* ---- ranks that come late ---- */

typedef struct lateness {
    unsigned late; /* bit r: rank r sleeps */
    const char *expected;
    char text[5][1100];
    tdm_status status[5];
} lateness;

static const char *comes_late(tdm_group *group, void *arg)
{
    lateness *l = arg;
    const int rank = tdm_group_rank(group);
    float value = 1;
    CHECK_OK(tdm_allreduce(group, &value, &value, 1, TDM_F32, TDM_SUM, NULL));
    if (l->late >> rank & 1)
        sleep_s(0.8);
    l->status[rank] = rank % 2 ? tdm_barrier(group, NULL) : tdm_barrier(group, NULL);
    snprintf(l->text[rank], sizeof l->text[rank], "%s", tdm_error_text());
    return NULL;
}

static void missing_ranks_are_listed_completely_and_alike_on_every_rank(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++) {
        static lateness l;
        for (int which = 0; which < 2; which++) {
            l.late = which == 0 ? 1u << 2 | 1u << 4 : 1u;
            l.expected = which == 0 ? "ranks 2, 4 did not arrive within 0.4 s" : "rank 0 did not arrive within 0.4 s";
            ranks_run(&(ranks_spec){.n = 5, .transport = transports[t], .timeout_s = 0.4}, comes_late, &l);
            for (int r = 0; r < 5; r++) {
                assert_int_equal(l.status[r], TDM_ERR_TIMEOUT);
                assert_non_null(strstr(l.text[r], l.expected));
                assert_string_equal(l.text[r], l.text[1]);
            }
        }
    }
}

/* ---- ranks that die ---- */

static const char *dies_at_work(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    const size_t count = 1 << 20;
    void *block;
    CHECK_OK(tdm_alloc(group, count * 4, &block));
    for (int k = 0; k < 1000000; k++) {
        if (rank == 2 && k == 5)
            kill(getpid(), SIGKILL);
        const int64_t start = tdmi_now_ns();
        tdm_status status = tdm_allreduce(group, block, block, count, TDM_F32, TDM_SUM, NULL);
        if (status == TDM_OK)
            continue;
        CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
        CHECK(strstr(tdm_error_text(), "rank 2 of group world (process ") != NULL && strstr(tdm_error_text(), "died") != NULL,
              "the text does not name the dead: %s", tdm_error_text());
        CHECK(tdmi_now_ns() - start < TDMI_NS_PER_S, "noticed after %g s", (double)(tdmi_now_ns() - start) * 1e-9);
        return NULL;
    }
    return ranks_say("nobody died");
}

static void a_killed_rank_is_an_error_on_all_others_within_a_second(void **state)
{
    (void)state;
    const char *const all[] = {RANKS_TRANSPORTS, "nodes"};
    for (int t = 0; t < transport_count + 1; t++)
        ranks_run(&(ranks_spec){.n = 4, .transport = all[t], .mode = RANKS_PROCESSES, .timeout_s = 60, .dies = 1u << 2}, dies_at_work,
                  NULL);
#ifdef TDMI_HAVE_UCX
    setenv("UCX_TLS", "posix", 1); /* of a death, UCX's shared memory says nothing */
    ranks_run(&(ranks_spec){.n = 3, .transport = "ucx", .mode = RANKS_PROCESSES, .timeout_s = 60, .dies = 1u << 2}, dies_at_work, NULL);
    setenv("UCX_TLS", "tcp", 1);
#endif
}

static const char *waits_for_the_dead(tdm_group *group, void *arg)
{
    (void)arg;
    if (tdm_group_rank(group) == 1)
        kill(getpid(), SIGKILL);
    const int64_t start = tdmi_now_ns();
    tdm_status status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(tdmi_now_ns() - start < TDMI_NS_PER_S, "noticed after %g s", (double)(tdmi_now_ns() - start) * 1e-9);
    return NULL;
}

static void a_rank_that_died_before_the_call_is_noticed_too(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = RANKS_PROCESSES, .timeout_s = 60, .dies = 1u << 1},
                  waits_for_the_dead, NULL);
}

static const char *dies_before_its_child(tdm_group *group, void *arg)
{
    pid_t *child = arg;
    CHECK_OK(tdm_barrier(group, NULL));
    if (tdm_group_rank(group) == 1) {
        const pid_t outlives = fork();
        if (outlives == 0) {
            sleep_s(20);
            _exit(0);
        }
        *child = outlives;
        kill(getpid(), SIGKILL);
    }
    const int64_t start = tdmi_now_ns();
    tdm_status status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 1 of group world (process ") != NULL, "text: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < TDMI_NS_PER_S, "noticed after %g s", (double)(tdmi_now_ns() - start) * 1e-9);
    return NULL;
}

static void a_child_that_outlives_its_rank_does_not_hide_its_death(void **state)
{
    (void)state;
    pid_t *child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(child, MAP_FAILED);
    for (int t = 0; t < transport_count; t++) {
        *child = 0;
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .mode = RANKS_PROCESSES, .timeout_s = 10, .dies = 1u << 1},
                  dies_before_its_child, child);
        assert_true(*child > 0);
        assert_int_equal(kill(*child, SIGKILL), 0); /* it was there all the time */
    }
    munmap(child, sizeof *child);
}

/* ---- ranks that leave ---- */

static const char *leaves_early(tdm_group *group, void *arg)
{
    (void)arg;
    CHECK_OK(tdm_barrier(group, NULL));
    if (tdm_group_rank(group) == 2)
        return NULL; /* and destroys its group */
    const int64_t start = tdmi_now_ns();
    tdm_status status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 2 left group world after 2 calls") != NULL, "text: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < TDMI_NS_PER_S, "noticed after %g s", (double)(tdmi_now_ns() - start) * 1e-9);
    return NULL;
}

static void a_rank_that_left_is_missed_by_name(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS}, leaves_early,
                      NULL);
}

static const char *works_on_while_others_leave(tdm_group *group, void *arg)
{
    (void)arg;
    float values[3000] = {1};
    tdm_work *work[3];
    for (int i = 0; i < 3; i++)
        CHECK_OK(tdm_allreduce(group, values + 1000 * i, values + 1000 * i, 1000, TDM_F32, TDM_SUM, &work[i]));
    for (int i = 0; i < 3; i++)
        CHECK_OK(tdm_work_wait(work[i]));
    return NULL; /* the fastest destroys its group while the others finish */
}

static void a_clean_end_is_no_error_for_those_who_finish_later(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        for (int k = 0; k < 20; k++)
            ranks_run(&(ranks_spec){.n = 3, .transport = transports[t]}, works_on_while_others_leave, NULL);
}

/* ---- abort ---- */

static void *abort_soon(void *group)
{
    sleep_s(0.05);
    tdm_group_abort(group, "the roof is on fire");
    return NULL;
}

static const char *is_aborted(tdm_group *group, void *arg)
{
    (void)arg;
    pthread_t thread;
    if (tdm_group_rank(group) == 1)
        pthread_create(&thread, NULL, abort_soon, group);
    /* rank 0 never comes: it only looks later */
    if (tdm_group_rank(group) == 0)
        sleep_s(0.2);
    tdm_status status = tdm_group_rank(group) == 0 ? TDM_ERR_ABORTED : tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_ABORTED, "status %s: %s", tdm_status_name(status), tdm_error_text());
    const int64_t start = tdmi_now_ns();
    status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_ABORTED, "later: status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strcmp(tdm_error_text(), "group world was aborted by rank 1: the roof is on fire") == 0, "text: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < TDMI_NS_PER_S / 2, "it took too long");
    if (tdm_group_rank(group) == 1)
        pthread_join(thread, NULL);
    return NULL;
}

static void an_abort_ends_every_wait_on_every_rank(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .timeout_s = 20}, is_aborted, NULL);
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes", .timeout_s = 20}, is_aborted, NULL);
}

int main(void)
{
    setenv("UCX_TLS", "tcp", 0); /* opening all of them takes its time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_calls_are_an_error_on_both_ranks_that_names_both),
        cmocka_unit_test(missing_ranks_are_listed_completely_and_alike_on_every_rank),
        cmocka_unit_test(a_killed_rank_is_an_error_on_all_others_within_a_second),
        cmocka_unit_test(a_rank_that_died_before_the_call_is_noticed_too),
        cmocka_unit_test(a_child_that_outlives_its_rank_does_not_hide_its_death),
        cmocka_unit_test(a_rank_that_left_is_missed_by_name),
        cmocka_unit_test(a_clean_end_is_no_error_for_those_who_finish_later),
        cmocka_unit_test(an_abort_ends_every_wait_on_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
