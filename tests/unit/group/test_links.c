/* test_links.c - what goes over links: how many bytes, through which transport, for whom. */
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *counts_bytes(tdm_group *group, void *arg)
{
    const uint64_t expected = *(uint64_t *)arg;
    const size_t count = 60000; /* divisible by 2, 3, 4, 5 */
    float *data = calloc(count, sizeof *data);
    const uint64_t before = tdm_group_bytes_sent(group);
    CHECK_OK(tdm_allreduce(group, data, data, count, TDM_F32, TDM_SUM, NULL));
    const uint64_t sent = tdm_group_bytes_sent(group) - before;
    free(data);
    CHECK(sent == expected, "%llu bytes sent instead of %llu", (unsigned long long)sent, (unsigned long long)expected);
    return NULL;
}

static void a_ring_sends_two_times_n_minus_1_nths_of_the_data(void **state)
{
    (void)state;
    const char *const transports[] = {RANKS_TRANSPORTS};
    setenv("TANDEM_ALGO", "allreduce=ring", 1);
    setenv("TANDEM_SUM_ORDER", "fast", 1);
    for (int t = 0; t < (int)(sizeof transports / sizeof *transports); t++)
        for (int n = 2; n <= 5; n++) {
            uint64_t expected = (uint64_t)(2 * (n - 1)) * 60000 * 4 / (uint64_t)n;
            ranks_run(&(ranks_spec){.n = n, .transport = transports[t]}, counts_bytes, &expected);
        }
    uint64_t expected = 2 * 3 * 60000 * 4 / 4;
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes"}, counts_bytes, &expected);
    unsetenv("TANDEM_ALGO");
    unsetenv("TANDEM_SUM_ORDER");
}

static void memory_that_all_reach_sends_nothing(void **state)
{
    (void)state;
    uint64_t expected = 0;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, counts_bytes, &expected);
}

/* ---- interfaces ---- */

static const char *uses_interface(tdm_group *none, void *arg)
{
    (void)none;
    const char *text = arg;
    tdm_group_options options = ranks_options();
    tdm_group *group;
    tdm_status status = tdm_group_create(&options, &group);
    if (text == NULL) {
        CHECK(status == TDM_OK, "%s", tdm_error_text());
        tdm_group_destroy(group);
        return NULL;
    }
    CHECK(status == TDM_ERR_INVALID && strstr(tdm_error_text(), text) != NULL, "%s: %s", tdm_status_name(status), tdm_error_text());
    return NULL;
}

static void an_interface_is_taken_by_name_and_an_unknown_one_lists_what_there_is(void **state)
{
    (void)state;
    setenv("TANDEM_IFNAME", "lo", 1);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .no_group = true}, uses_interface, NULL);
    setenv("TANDEM_IFNAME", "nosuch0", 1);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .no_group = true}, uses_interface, (void *)(uintptr_t) "TANDEM_IFNAME is \"nosuch0\"");
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .no_group = true}, uses_interface, (void *)(uintptr_t) "lo (127.0.0.1)");
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .no_group = true}, uses_interface, NULL); /* needs no interface */
    unsetenv("TANDEM_IFNAME");
}

/* ---- streams ---- */

static const char *has_its_own_streams(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    setenv("TANDEM_TCP_STREAMS", options.rank == 0 ? "2" : "3", 1);
    tdm_group *group;
    tdm_status status = tdm_group_create(&options, &group);
    CHECK(status == TDM_ERR_MISMATCH && strstr(tdm_error_text(), "TANDEM_TCP_STREAMS is ") != NULL, "%s: %s", tdm_status_name(status),
          tdm_error_text());
    return NULL;
}

static void data_goes_over_as_many_streams_as_all_ranks_say(void **state)
{
    (void)state;
    uint64_t expected = 2 * 2 * 60000 * 4 / 3;
    setenv("TANDEM_TCP_STREAMS", "3", 1);
    ranks_run(&(ranks_spec){.n = 3, .transport = "tcp"}, counts_bytes, &expected);
    setenv("TANDEM_TCP_STREAMS", "1.5", 1);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .no_group = true}, uses_interface, (void *)(uintptr_t) "whole number");
    unsetenv("TANDEM_TCP_STREAMS");
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .mode = RANKS_PROCESSES, .no_group = true}, has_its_own_streams, NULL);
}

static const char *has_its_own_secret(tdm_group *none, void *arg)
{
    const bool over_tcp = *(bool *)arg;
    (void)none;
    tdm_group_options options = ranks_options();
    setenv("TANDEM_JOB_SECRET", options.rank == 0 ? "one" : "two", 1);
    tdm_group *group;
    tdm_status status = tdm_group_create(&options, &group);
    if (options.rank == 0) {
        CHECK(status == TDM_ERR_AUTH, "%s: %s", tdm_status_name(status), tdm_error_text());
    } else if (over_tcp) { /* hears at once why rank 0 does not come */
        CHECK(status == TDM_ERR_PEER_LOST, "%s: %s", tdm_status_name(status), tdm_error_text());
        CHECK(strstr(tdm_error_text(), "rank 0 gave up") != NULL, "%s", tdm_error_text());
        CHECK(strstr(tdm_error_text(), "another job's secret") != NULL, "%s", tdm_error_text());
    } else {
        CHECK(status == TDM_ERR_TIMEOUT, "%s: %s", tdm_status_name(status), tdm_error_text());
    }
    return NULL;
}

static void ranks_with_different_secrets_do_not_connect(void **state)
{
    (void)state;
    bool over_tcp = false;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES, .no_group = true, .rendezvous_timeout_s = 1},
              has_its_own_secret, &over_tcp);
    over_tcp = true;
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .mode = RANKS_PROCESSES, .no_group = true}, has_its_own_secret, &over_tcp);
}

int main(void)
{
    setenv("UCX_TLS", "tcp", 0); /* opening all of them takes its time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_sends_two_times_n_minus_1_nths_of_the_data),
        cmocka_unit_test(memory_that_all_reach_sends_nothing),
        cmocka_unit_test(an_interface_is_taken_by_name_and_an_unknown_one_lists_what_there_is),
        cmocka_unit_test(data_goes_over_as_many_streams_as_all_ranks_say),
        cmocka_unit_test(ranks_with_different_secrets_do_not_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
