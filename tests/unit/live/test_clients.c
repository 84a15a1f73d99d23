/* test_clients.c - who is a rank, who has gone quiet, and when all ask. */
#include "live/clients.h"

#include "core/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS TDMI_NS_PER_MS

static tdmi_client *hear(tdmi_clients *clients, int rank, int64_t at_ms, pid_t pid, pid_t parent, pid_t above)
{
    const tdmi_poll poll = {.idle = true, .count = 3, .pids = {pid, parent, above}};
    tdmi_client *client = tdmi_clients_heard(clients, &poll, rank, at_ms * MS);
    assert_non_null(client);
    return client;
}

static bool only_200_lives(pid_t pid)
{
    return pid == 200;
}

static void agents_and_spawned_workers_are_no_ranks(void **state)
{
    (void)state;
    tdmi_clients clients = {0};
    tdmi_client *ranks[8];
    hear(&clients, -1, 0, 100, 50, 40);  /* torchrun's agent */
    hear(&clients, 1, 10, 201, 100, 50);
    hear(&clients, 1, 20, 301, 201, 100); /* a worker of rank 1: it inherits RANK */
    hear(&clients, 0, 30, 200, 100, 50);
    assert_int_equal(tdmi_clients_ranks(&clients, ranks, 8), 2);
    assert_int_equal(ranks[0]->last.pids[0], 200);
    assert_int_equal(ranks[1]->last.pids[0], 201);
    assert_int_equal(tdmi_clients_ranks(&clients, ranks, 1), 1);
    tdmi_clients_free(&clients);
}

static void a_rank_that_was_started_again_is_the_newest(void **state)
{
    (void)state;
    tdmi_clients clients = {0};
    tdmi_client *ranks[8];
    hear(&clients, 0, 0, 200, 100, 50);
    hear(&clients, 0, 10, 210, 100, 50);
    assert_int_equal(tdmi_clients_ranks(&clients, ranks, 8), 1);
    assert_int_equal(ranks[0]->last.pids[0], 210);
    tdmi_clients_forget(&clients, only_200_lives);
    assert_int_equal(tdmi_clients_ranks(&clients, ranks, 8), 1);
    assert_int_equal(ranks[0]->last.pids[0], 200);
    tdmi_clients_free(&clients);
}

static void polls_tell_the_period_and_who_is_silent(void **state)
{
    (void)state;
    tdmi_clients clients = {0};
    hear(&clients, 0, 0, 200, 100, 50);
    tdmi_client *client = tdmi_clients_find(&clients, 200);
    assert_int_equal(tdmi_clients_period(&client, 1, 5000 * MS), 5000 * MS);
    hear(&clients, 0, 1000, 200, 100, 50);
    assert_int_equal(tdmi_clients_period(&client, 1, 500 * MS), 1000 * MS);
    assert_int_equal(tdmi_clients_period(&client, 1, 5000 * MS), 5000 * MS);
    assert_true(tdmi_client_is_prompt(client, 1000 * MS, 4000 * MS));
    assert_false(tdmi_client_is_prompt(client, 1000 * MS, 5000 * MS));
    assert_null(tdmi_clients_find(&clients, 201));
    tdmi_clients_free(&clients);
}

static void the_turn_begins_after_the_longest_pause(void **state)
{
    (void)state;
    tdmi_clients clients = {0};
    tdmi_client *all[3];
    int64_t spread_ns;
    hear(&clients, 0, 5100, 200, 100, 50);
    hear(&clients, 1, 4900, 201, 100, 50); /* in turns of 1000: 100, 900, 300 */
    hear(&clients, 2, 6300, 202, 100, 50);
    for (int i = 0; i < 3; i++)
        all[i] = tdmi_clients_find(&clients, 200 + i);
    assert_int_equal(tdmi_clients_first_of_turn(all, 3, 1000 * MS, &spread_ns), 1);
    assert_int_equal(spread_ns, 400 * MS);
    assert_int_equal(tdmi_clients_first_of_turn(all, 1, 1000 * MS, &spread_ns), 0);
    assert_int_equal(spread_ns, 0);
    tdmi_clients_free(&clients);
}

static void a_flood_of_processes_is_refused_at_a_limit(void **state)
{
    (void)state;
    tdmi_clients clients = {0};
    for (int i = 0; i < TDMI_CLIENT_MAX; i++)
        hear(&clients, -1, i, 1000 + i, 100, 50);
    const tdmi_poll poll = {.count = 1, .pids = {999}};
    assert_null(tdmi_clients_heard(&clients, &poll, 0, 0));
    tdmi_clients_free(&clients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agents_and_spawned_workers_are_no_ranks),
        cmocka_unit_test(a_rank_that_was_started_again_is_the_newest),
        cmocka_unit_test(polls_tell_the_period_and_who_is_silent),
        cmocka_unit_test(the_turn_begins_after_the_longest_pause),
        cmocka_unit_test(a_flood_of_processes_is_refused_at_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
