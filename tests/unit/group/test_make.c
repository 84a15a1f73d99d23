/* test_make.c - groups are made, made again, made of parts, and say who did not come. */
#include "on_ranks.h"

#include "core/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *const transports[] = {RANKS_TRANSPORTS};
static const int transport_count = sizeof transports / sizeof *transports;

/* ---- ranks that do not come ---- */

typedef struct absence {
    unsigned absent;
    tdm_status status[5];
    char text[5][1100];
} absence;

static const char *may_stay_away(tdm_group *none, void *arg)
{
    (void)none;
    absence *a = arg;
    tdm_group_options options = ranks_options();
    const int rank = options.rank;
    if (a->absent >> rank & 1)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* comes when the others have given up */
    tdm_group *group;
    const int64_t start = tdmi_now_ns();
    a->status[rank] = tdm_group_create(&options, &group);
    snprintf(a->text[rank], sizeof a->text[rank], "%s", tdm_error_text());
    CHECK(tdmi_now_ns() - start < 2 * TDMI_NS_PER_S, "it took too long");
    return NULL;
}

static void all_ranks_that_did_not_come_are_listed_alike_on_every_rank(void **state)
{
    (void)state;
    static absence a;
    for (int which = 0; which < 2; which++) {
        a.absent = which == 0 ? 1u << 2 | 1u << 4 : 1u;
        const char *expected = which == 0 ? "group world: ranks 2, 4 of 5 did not arrive within 0.5 s"
                                          : "group world: rank 0 of 5 did not arrive within 0.5 s";
        ranks_run(&(ranks_spec){.n = 5, .transport = "shm", .no_group = true, .rendezvous_timeout_s = 0.5}, may_stay_away, &a);
        for (int r = 0; r < 5; r++) {
            assert_int_equal(a.status[r], TDM_ERR_TIMEOUT);
            if (a.absent >> r & 1) /* who comes too late hears it at once */
                assert_non_null(strstr(a.text[r], "the other ranks have given up"));
            else
                assert_string_equal(a.text[r], expected);
        }
    }
}

static const char *has_another_size(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    if (options.rank == 1)
        options.size = 3;
    tdm_group *group;
    tdm_status status = tdm_group_create(&options, &group);
    CHECK(status == (options.rank == 0 ? TDM_ERR_MISMATCH : TDM_ERR_TIMEOUT), "%s: %s", tdm_status_name(status), tdm_error_text());
    return NULL;
}

static void ranks_that_disagree_about_the_size_do_not_meet(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .no_group = true, .rendezvous_timeout_s = 0.5}, has_another_size, NULL);
}

/* ---- making again ---- */

static const char *sums_to(tdm_group *group, int expected)
{
    int32_t value = tdm_group_rank(group);
    CHECK_OK(tdm_allreduce(group, &value, &value, 1, TDM_I32, TDM_SUM, NULL));
    CHECK(value == expected, "%d instead of %d", value, expected);
    return NULL;
}

static const char *makes_groups_again(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    for (int k = 0; k < 4; k++) {
        tdm_group *one, *two;
        options.name = NULL;
        CHECK_OK(tdm_group_create(&options, &one));
        options.name = "other";
        CHECK_OK(tdm_group_create(&options, &two));
        const char *wrong = sums_to(one, 3);
        wrong = wrong == NULL ? sums_to(two, 3) : wrong;
        CHECK(strcmp(tdm_group_name(two), "other") == 0, "name %s", tdm_group_name(two));
        tdm_group_destroy(one);
        tdm_group_destroy(two);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static void a_store_serves_several_groups_at_once_and_one_after_another(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS, .no_group = true},
                      makes_groups_again, NULL);
}

/* ---- where ranks are ---- */

static const char *knows_its_node(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    for (int r = 0; r < 5; r++)
        CHECK(tdm_group_is_local(group, r) == (r / 2 == rank / 2), "rank %d is %slocal", r, tdm_group_is_local(group, r) ? "" : "not ");
    CHECK(!tdm_group_is_local(group, 5) && !tdm_group_is_local(group, -1), "no rank is local");
    CHECK(tdm_group_local_size(group) == (rank == 4 ? 1 : 2), "local size %d", tdm_group_local_size(group));
    CHECK(tdm_group_local_rank(group) == rank % 2, "local rank %d", tdm_group_local_rank(group));
    return NULL;
}

static void virtual_nodes_split_a_host(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 5, .transport = "nodes"}, knows_its_node, NULL);
}

static const char *wants_shared_memory(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    options.transport = "shm";
    tdm_group *group;
    tdm_status status = tdm_group_create(&options, &group);
    CHECK(status == TDM_ERR_INVALID && strstr(tdm_error_text(), "share no memory with rank") != NULL, "%s: %s", tdm_status_name(status),
          tdm_error_text());
    return NULL;
}

static void transport_shm_between_nodes_is_refused(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes", .no_group = true}, wants_shared_memory, NULL);
}

/* ---- sub-groups ---- */

static const char *makes_pairs(tdm_group *world, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(world);
    const int outer[] = {0, 3}, inner[] = {1, 2}, reversed[] = {3, 2, 1, 0};
    tdm_group *pair, *all;
    CHECK_OK(tdm_group_create_sub(world, rank == 0 || rank == 3 ? outer : inner, 2, &pair));
    for (int k = 0; k < 10; k++) {
        int32_t value = rank;
        CHECK_OK(tdm_allreduce(pair, &value, &value, 1, TDM_I32, TDM_SUM, NULL));
        CHECK(value == 3, "pair: %d instead of 3", value);
    }
    CHECK_OK(tdm_group_create_sub(world, reversed, 4, &all));
    CHECK(tdm_group_rank(all) == 3 - rank, "rank %d in the reversed group", tdm_group_rank(all));
    int32_t value = rank, gathered[4];
    CHECK_OK(tdm_all_gather(all, &value, gathered, 1, TDM_I32, NULL));
    for (int r = 0; r < 4; r++)
        CHECK(gathered[r] == 3 - r, "all_gather over [3,2,1,0]: element %d is %d", r, gathered[r]);
    void *block; /* memory of the world serves in its sub-groups */
    CHECK_OK(tdm_alloc(world, 4096, &block));
    ((float *)block)[1000] = (float)rank;
    CHECK_OK(tdm_allreduce(pair, block, block, 1024, TDM_F32, TDM_SUM, NULL));
    CHECK(((float *)block)[1000] == 3, "world memory in a sub-group");
    CHECK_OK(tdm_barrier(pair, NULL));
    tdm_free(world, block);
    tdm_group_destroy(all);
    tdm_group_destroy(pair);
    return NULL;
}

static void disjoint_sub_groups_work_at_the_same_time_in_the_listed_order(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = 4, .transport = transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS}, makes_pairs, NULL);
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes"}, makes_pairs, NULL);
}

static const char *lists_wrong_ranks(tdm_group *world, void *arg)
{
    (void)arg;
    tdm_group *group;
    const struct {
        int list[2], count;
        const char *text;
    } cases[] = {
        {{1 - tdm_group_rank(world)}, 1, "is not a member of sub-group ["},
        {{0, 2}, 2, "has ranks 0 to 1, not 2"},
        {{1, 1}, 2, "rank 1 is listed twice"},
        {{0}, 0, "needs at least one rank"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdm_status status = tdm_group_create_sub(world, cases[i].list, cases[i].count, &group);
        CHECK(status == TDM_ERR_INVALID && strstr(tdm_error_text(), cases[i].text) != NULL, "%s: %s", tdm_status_name(status),
              tdm_error_text());
    }
    const int alone[] = {tdm_group_rank(world)};
    CHECK_OK(tdm_group_create_sub(world, alone, 1, &group));
    int32_t value = 7;
    CHECK_OK(tdm_allreduce(group, &value, &value, 1, TDM_I32, TDM_AVG, NULL));
    CHECK(value == 7, "average of one: %d", value);
    tdm_group_destroy(group);
    return NULL;
}

static void wrong_lists_are_refused_and_a_group_of_one_is_fine(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, lists_wrong_ranks, NULL);
}

static const char *lists_differ(tdm_group *world, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(world), all[] = {0, 1, 2}, two[] = {1, 2};
    tdm_group *group = NULL;
    tdm_status status = tdm_group_create_sub(world, rank == 0 ? all : two, rank == 0 ? 3 : 2, &group);
    if (rank == 0) {
        CHECK(status == TDM_ERR_TIMEOUT, "%s: %s", tdm_status_name(status), tdm_error_text());
        CHECK(strstr(tdm_error_text(), "ranks 1, 2 of 3 did not arrive") != NULL && strstr(tdm_error_text(), "rank 1 last made [1, 2]") != NULL,
              "%s", tdm_error_text());
    } else {
        CHECK(status == TDM_OK, "%s", tdm_error_text());
        tdm_group_destroy(group);
    }
    return NULL;
}

static void different_lists_end_in_a_message_that_shows_both(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .rendezvous_timeout_s = 0.5}, lists_differ, NULL);
}

static const char *makes_many(tdm_group *world, void *arg)
{
    (void)arg;
    const int all[] = {0, 1};
    for (int k = 0; k < 50; k++) {
        tdm_group *group;
        CHECK_OK(tdm_group_create_sub(world, all, 2, &group));
        const char *wrong = sums_to(group, 1);
        if (wrong != NULL)
            return wrong;
        tdm_group_destroy(group);
    }
    return NULL;
}

static void the_same_sub_group_can_be_made_many_times(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, makes_many, NULL);
}

int main(void)
{
    setenv("UCX_TLS", "tcp", 0); /* opening all of them takes its time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_that_did_not_come_are_listed_alike_on_every_rank),
        cmocka_unit_test(ranks_that_disagree_about_the_size_do_not_meet),
        cmocka_unit_test(a_store_serves_several_groups_at_once_and_one_after_another),
        cmocka_unit_test(virtual_nodes_split_a_host),
        cmocka_unit_test(transport_shm_between_nodes_is_refused),
        cmocka_unit_test(disjoint_sub_groups_work_at_the_same_time_in_the_listed_order),
        cmocka_unit_test(wrong_lists_are_refused_and_a_group_of_one_is_fine),
        cmocka_unit_test(different_lists_end_in_a_message_that_shows_both),
        cmocka_unit_test(the_same_sub_group_can_be_made_many_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
