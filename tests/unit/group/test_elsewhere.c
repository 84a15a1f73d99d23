/* test_elsewhere.c - a rank that does not come is in another group's call, stopped, or died while the group was made: the error
 * says which, and does not wait longer than it must. */
#include "on_ranks.h"

#include "core/clock.h"
#include "group/group.h"
#include "store/store.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const transports[] = {"shm", "tcp"};

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * TDMI_NS_PER_MS}, NULL);
}

/* What ranks, threads or processes, tell each other behind Tandem's back. */
static atomic_int *shared;

static void meet_at(int number)
{
    atomic_fetch_add(shared, 1);
    for (int i = 0; i < 20000 && atomic_load(shared) < number; i++)
        sleep_ms(1);
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
    char text[1100];
    snprintf(text, sizeof text, "%s", tdm_error_text());
    /* Both have the same time. Whoever's is over first is seen to wait or, a moment later, to have given up. */
    const char *sides[] = {rank == 0 ? "call 2 of group world, barrier" : "call 2 of group world[0, 1], allreduce of 1 float32 (max)",
                           rank == 0 ? " call 2 of group world[0, 1], allreduce of 1 float32 (max)" : " call 2 of group world, barrier",
                           rank == 0 ? "; rank 1 " : "; rank 0 "};
    meet_at(2); /* a rank that left would be missed in another way */
    CHECK(status == TDM_ERR_TIMEOUT, "status %s: %s", tdm_status_name(status), text);
    for (int i = 0; i < 3; i++)
        CHECK(strstr(text, sides[i]) != NULL, "\"%s\" lacks \"%s\"", text, sides[i]);
    CHECK(strstr(text, " waits in call 2") != NULL || strstr(text, " has given up call 2") != NULL, "text: %s", text);
    tdm_group_destroy(pair);
    return NULL;
}

static void groups_used_in_different_orders_are_both_named(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int mode = 0; mode < 2; mode++) {
            atomic_store(shared, 0);
            ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS, .timeout_s = 0.8},
                      takes_the_wrong_group, NULL);
        }
}

/* Looks until what world says of rank 1 is empty, or is not. */
static bool excuse_becomes(tdm_group *world, bool empty, char *text, size_t nbytes)
{
    for (int i = 0; i < 10000; i++) {
        pthread_mutex_lock(&world->lock);
        tdmi_control_hear(world);
        tdmi_group_excuses(world, (bool[]){false, true}, 3, text, nbytes);
        pthread_mutex_unlock(&world->lock);
        if ((strstr(text, "waits") == NULL) == empty)
            return true;
        sleep_ms(1);
    }
    return false;
}

static const char *waits_long_and_goes_on(tdm_group *world, void *arg)
{
    (void)arg;
    char text[512];
    tdm_group *pair;
    tdm_work *work;
    CHECK_OK(tdm_group_create_sub(world, (const int[]){0, 1}, 2, &pair));
    if (tdm_group_rank(world) == 1) {
        CHECK_OK(tdm_barrier(pair, &work));
        do { /* it is not told while another thread of the rank has a lock it needs */
            pthread_mutex_lock(&pair->lock);
            tdmi_group_say_where(pair);
            pthread_mutex_unlock(&pair->lock);
        } while (!pair->said);
        CHECK_OK(tdm_work_wait(work));
        while (pair->said) {
            pthread_mutex_lock(&pair->lock);
            tdmi_group_say_end(pair, work, true);
            pthread_mutex_unlock(&pair->lock);
        }
    } else {
        CHECK(excuse_becomes(world, false, text, sizeof text), "it was not told");
        CHECK(strcmp(text, "; rank 1 waits in call 1 of group world[0, 1], barrier") == 0, "text: %s", text);
        CHECK_OK(tdm_barrier(pair, NULL));
        CHECK(excuse_becomes(world, true, text, sizeof text), "old news: %s", text);
    }
    meet_at(2);
    tdm_group_destroy(pair);
    return NULL;
}

static void where_a_rank_waited_is_forgotten_once_it_goes_on(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        atomic_store(shared, 0);
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, waits_long_and_goes_on, NULL);
    }
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

static void *die_once_recorded(void *store)
{
    bool has = false;
    while (!has && tdmi_store_has(store, "group/world/1/rank/2", &has) == TDM_OK)
        sleep_ms(1);
    kill(getpid(), SIGKILL);
    return NULL;
}

static const char *dies_while_all_meet(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    tdm_group *group;
    if (options.rank == 1)
        return NULL; /* never comes */
    pthread_t thread;
    if (options.rank == 2)
        pthread_create(&thread, NULL, die_once_recorded, options.store);
    const int64_t start = tdmi_now_ns();
    const tdm_status status = tdm_group_create(&options, &group);
    CHECK(status == TDM_ERR_PEER_LOST, "status %s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "group world: rank 2 (process ") != NULL && strstr(tdm_error_text(), "died before all ranks had met") != NULL,
          "text: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < 15 * TDMI_NS_PER_S, "it took too long"); /* of 30 */
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
    CHECK(tdmi_now_ns() - start < 15 * TDMI_NS_PER_S, "it took too long"); /* of 30 */
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
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
