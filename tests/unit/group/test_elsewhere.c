/* test_elsewhere.c - a rank that does not come is in another group's call, stopped, or died while the group was made: the error
 * says which, and does not wait longer than it must. */
#include "on_ranks.h"

#include "core/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const transports[] = {"shm", "tcp"};

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * TDMI_NS_PER_MS}, NULL);
}

/* ---- two groups in different orders ---- */

static const char *takes_the_wrong_group(tdm_group *world, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(world);
    float value = 1;
    tdm_group *pair;
    CHECK_OK(tdm_group_create_sub(world, (const int[]){0, 1}, 2, &pair));
    CHECK_OK(tdm_barrier(pair, NULL));
    const tdm_status status = rank == 0 ? tdm_barrier(world, NULL) : tdm_allreduce(pair, &value, &value, 1, TDM_F32, TDM_MAX, NULL);
    const char *sides[] = {rank == 0 ? "call 2 of group world, barrier" : "call 2 of group world[0, 1], allreduce of 1 float32 (max)",
                           rank == 0 ? "rank 1 waits in call 2 of group world[0, 1], allreduce of 1 float32 (max)"
                                     : "rank 0 waits in call 2 of group world, barrier"};
    CHECK(status == TDM_ERR_TIMEOUT, "status %s: %s", tdm_status_name(status), tdm_error_text());
    for (int i = 0; i < 2; i++)
        CHECK(strstr(tdm_error_text(), sides[i]) != NULL, "\"%s\" lacks \"%s\"", tdm_error_text(), sides[i]);
    sleep_ms(700); /* else the other one misses a rank that left */
    tdm_group_destroy(pair);
    return NULL;
}

static void groups_used_in_different_orders_are_both_named(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS, .timeout_s = 0.6},
                      takes_the_wrong_group, NULL);
}

static const char *waits_long_elsewhere_and_then_comes(tdm_group *world, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(world);
    tdm_group *pair;
    CHECK_OK(tdm_group_create_sub(world, (const int[]){0, 1}, 2, &pair));
    if (rank == 0)
        sleep_ms(600); /* rank 1 waits for it past the time at which it tells others */
    CHECK_OK(tdm_barrier(pair, NULL));
    CHECK_OK(tdm_barrier(pair, NULL));
    if (rank == 1)
        sleep_ms(1200);
    const tdm_status status = tdm_barrier(world, NULL);
    CHECK(status == TDM_ERR_TIMEOUT, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "waits in") == NULL, "old news: %s", tdm_error_text());
    tdm_group_destroy(pair);
    return NULL;
}

static void where_a_rank_waited_is_forgotten_once_it_goes_on(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .timeout_s = 0.75}, waits_long_elsewhere_and_then_comes, NULL);
}

/* ---- a stopped process ---- */

static const char *is_stopped(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    char expected[64];
    int pids[2] = {getpid(), 0};
    CHECK_OK(tdm_broadcast(group, pids, 2, TDM_I32, 1, NULL));
    if (rank == 1)
        kill(getpid(), SIGSTOP);
    const tdm_status status = tdm_barrier(group, NULL);
    if (rank == 1)
        return NULL;
    kill(pids[0], SIGCONT);
    snprintf(expected, sizeof expected, "rank 1 (process %d) is stopped", pids[0]);
    CHECK(status == TDM_ERR_TIMEOUT, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), expected) != NULL, "\"%s\" lacks \"%s\"", tdm_error_text(), expected);
    return NULL;
}

static void a_stopped_process_is_named(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES, .timeout_s = 1.2}, is_stopped, NULL);
}

/* ---- deaths while a group is made ---- */

static const char *dies_while_all_meet(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    tdm_group *group;
    if (options.rank == 1)
        return NULL; /* never comes */
    if (options.rank == 2) {
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 200000}}, NULL);
    }
    const int64_t start = tdmi_now_ns();
    const tdm_status status = tdm_group_create(&options, &group);
    CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "group world: rank 2 (process ") != NULL && strstr(tdm_error_text(), "died before all ranks had met") != NULL,
          "text: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < 3 * TDMI_NS_PER_S, "it took too long");
    return NULL;
}

static void a_death_at_the_first_meeting_is_noticed(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 4, .transport = transports[t], .mode = RANKS_PROCESSES, .rendezvous_timeout_s = 30, .no_group = true, .dies = 1u << 2},
                  dies_while_all_meet, NULL);
}

static const char *dies_instead_of_a_sub_group(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_group *sub;
    if (tdm_group_rank(group) == 2)
        kill(getpid(), SIGKILL);
    const int64_t start = tdmi_now_ns();
    const tdm_status status = tdm_group_create_sub(group, (const int[]){2, 1, 0}, 3, &sub);
    CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 2 of group world") != NULL || strstr(tdm_error_text(), "died") != NULL, "text: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < 3 * TDMI_NS_PER_S, "it took too long");
    return NULL;
}

static void a_death_while_a_sub_group_is_made_is_noticed(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = RANKS_PROCESSES, .rendezvous_timeout_s = 30, .dies = 1u << 2},
                  dies_instead_of_a_sub_group, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_used_in_different_orders_are_both_named),
        cmocka_unit_test(where_a_rank_waited_is_forgotten_once_it_goes_on),
        cmocka_unit_test(a_stopped_process_is_named),
        cmocka_unit_test(a_death_at_the_first_meeting_is_noticed),
        cmocka_unit_test(a_death_while_a_sub_group_is_made_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
