/* test_agree.c - all ranks go on, or all stop with the same words. */
#include "train/agree.h"

#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *all_well(tdm_group *group, void *arg)
{
    (void)arg;
    bool everywhere = true;
    CHECK_OK(tdmi_agree(group, TDM_OK, &everywhere));
    CHECK_THAT(!everywhere);
    return NULL;
}

static const char *two_fail(tdm_group *group, void *arg)
{
    (void)arg;
    bool everywhere = false;
    int rank = tdm_group_rank(group);
    tdm_status own = TDM_OK;
    if (rank == 1)
        own = tdmi_fail(TDM_ERR_BAD_FILE, "the file of rank 1");
    else if (rank == 2)
        own = tdmi_fail(TDM_ERR_NO_SPACE, "the disk of rank 2");
    tdm_status st = tdmi_agree(group, own, &everywhere);
    CHECK(st == TDM_ERR_BAD_FILE && everywhere, "rank %d: %s", rank, tdm_status_name(st));
    CHECK(strcmp(tdm_error_text(), "the file of rank 1") == 0, "rank %d: %s", rank, tdm_error_text());
    CHECK_OK(tdmi_agree(group, TDM_OK, &everywhere)); /* the group lives on */
    return NULL;
}

static const char *group_is_dead(tdm_group *group, void *arg)
{
    (void)arg;
    bool everywhere = true;
    if (tdm_group_rank(group) == 1) {
        tdm_group_abort(group, "enough");
        return NULL;
    }
    tdm_status st = tdmi_agree(group, TDM_OK, &everywhere);
    CHECK(st == TDM_ERR_ABORTED && !everywhere, "%s", tdm_status_name(st));
    CHECK(strstr(tdm_error_text(), "enough") != NULL, "%s", tdm_error_text());
    return NULL;
}

static void where_all_are_well_all_go_on(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, all_well, NULL);
}

static void the_lowest_rank_that_failed_speaks_for_all(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, two_fail, NULL);
    ranks_run(&(ranks_spec){.n = 3, .transport = "tcp"}, two_fail, NULL);
}

static void a_dead_group_is_its_own_error(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, group_is_dead, NULL);
}

static const char *alone(tdm_group *group, void *arg)
{
    (void)arg;
    bool everywhere = false;
    CHECK_THAT(tdmi_agree(group, tdmi_fail(TDM_ERR_BAD_FILE, "mine"), &everywhere) == TDM_ERR_BAD_FILE && everywhere);
    CHECK_THAT(strcmp(tdm_error_text(), "mine") == 0);
    return NULL;
}

static void one_rank_agrees_with_itself(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, alone, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_all_are_well_all_go_on),
        cmocka_unit_test(the_lowest_rank_that_failed_speaks_for_all),
        cmocka_unit_test(a_dead_group_is_its_own_error),
        cmocka_unit_test(one_rank_agrees_with_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
