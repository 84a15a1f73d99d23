/* test_22_micro_batches.c - elsewhere ranks exchange the first micro-batch's gradients, or none: each keeps its own. Here all ranks hold
 * the sum over the micro-batches, averaged over the ranks, after the last; also where a step has one, or is short. */
#include "reports.h"

#include <tandem/reducer.h>

/* One step: this rank's micro-gradients in turn; communication with the last. */
static const char *step(tdm_reducer *r, int id, const float *micro, int count, float expected)
{
    float *gradient = tdm_reducer_gradient(r, id);
    tdm_reducer_zero(r);
    for (int m = 0; m < count; m++) {
        tdm_reducer_set_sync(r, m == count - 1);
        *gradient += micro[m];
        CHECK_OK(tdm_reducer_ready(r, id));
        CHECK_OK(tdm_reducer_wait(r));
    }
    CHECK(*gradient == expected, "the gradient is %g, expected %g", (double)*gradient, (double)expected);
    return NULL;
}

static const char *accumulates(tdm_group *group, void *arg)
{
    (void)arg;
    static const float of_rank[2][3] = {{1, 3, 6}, {2, 5, 7}};
    const float *micro = of_rank[tdm_group_rank(group)];
    tdm_reducer *r;
    int id;
    CHECK_OK(tdm_reducer_create(group, NULL, &r));
    CHECK_OK(tdm_reducer_add(r, "w", 1, &id));
    CHECK_OK(tdm_reducer_commit(r));
    const char *wrong = step(r, id, micro, 2, 5.5f); /* not 4 and 7, not 1.5 */
    if (wrong == NULL)
        wrong = step(r, id, micro + 2, 1, 6.5f); /* three micro-batches in steps of two: the last is short */
    if (wrong == NULL)
        wrong = step(r, id, micro, 1, 1.5f);
    tdm_reducer_destroy(r);
    return wrong;
}

static void all_ranks_hold_the_average_of_the_sums(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = report_transports[t]}, accumulates, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_hold_the_average_of_the_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
