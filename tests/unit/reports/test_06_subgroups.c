/* test_06_subgroups.c - elsewhere groups made of different lists hang or mix; here disjoint ones are made at once, the order of the list
 * is the order of the group, and who is not in the list is told so. */
#include "reports.h"

static const char *makes_groups(tdm_group *world, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(world);
    const bool outer = rank == 0 || rank == 3;
    const int lists[2][2] = {{1, 2}, {0, 3}}, reversed[4] = {3, 2, 1, 0};
    tdm_group *pair, *all;
    int32_t sum = rank, ids[4];
    CHECK_OK(tdm_group_create_sub(world, lists[outer], 2, &pair));
    CHECK_OK(tdm_allreduce(pair, &sum, &sum, 1, TDM_I32, TDM_SUM, NULL));
    CHECK(sum == 3, "the sum of rank numbers is %d", sum);
    tdm_group_destroy(pair);
    CHECK_OK(tdm_group_create_sub(world, reversed, 4, &all));
    CHECK(tdm_group_rank(all) == 3 - rank, "rank %d became %d", rank, tdm_group_rank(all));
    CHECK_OK(tdm_all_gather(all, &(int32_t){rank}, ids, 1, TDM_I32, NULL));
    for (int i = 0; i < 4; i++)
        CHECK(ids[i] == 3 - i, "place %d holds rank %d", i, ids[i]);
    tdm_group_destroy(all);
    tdm_status status = tdm_group_create_sub(world, lists[!outer], 2, &pair);
    CHECK(status == TDM_ERR_INVALID && strstr(tdm_error_text(), "not a member") != NULL, "%s: %s", tdm_status_name(status), tdm_error_text());
    CHECK_OK(tdm_barrier(world, NULL));
    return NULL;
}

static void disjoint_groups_are_made_at_once_and_lists_are_the_order(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = 4, .transport = report_transports[t], .mode = mode ? RANKS_PROCESSES : RANKS_THREADS}, makes_groups, NULL);
}

static const char *makes_different_lists(tdm_group *world, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(world), lists[2][3] = {{0, 1, 2}, {0, 1, 3}};
    tdm_group *sub;
    if (rank > 1)
        return NULL;
    const tdm_status status = tdm_group_create_sub(world, lists[rank], 3, &sub);
    CHECK(status == TDM_ERR_TIMEOUT, "%s: %s", tdm_status_name(status), tdm_error_text());
    const char *other = rank == 0 ? "rank 1 last made [0, 1, 3]" : "rank 0 last made [0, 1, 2]";
    CHECK(strstr(tdm_error_text(), other) != NULL, "\"%s\" lacks \"%s\"", tdm_error_text(), other);
    return NULL;
}

static void different_lists_are_both_shown(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 4, .transport = report_transports[t], .rendezvous_timeout_s = 0.8}, makes_different_lists, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disjoint_groups_are_made_at_once_and_lists_are_the_order),
        cmocka_unit_test(different_lists_are_both_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
