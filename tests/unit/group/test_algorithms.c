/* test_algorithms.c - every algorithm as groups really run it: over tcp and between virtual nodes; and many ranks. */
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *sums(tdm_group *group, size_t count)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(rank + (int)(i % 7));
    tdm_status status = tdm_allreduce(group, data, data, count, TDM_F32, TDM_SUM, NULL);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += data[i] != (float)(n * (n - 1) / 2 + n * (int)(i % 7));
    free(data);
    CHECK(status == TDM_OK, "%s", tdm_error_text());
    CHECK(wrong == 0, "%zu of %zu sums are wrong", wrong, count);
    return NULL;
}

static const char *copies(tdm_group *group, size_t count)
{
    const int root = tdm_group_size(group) - 1;
    int *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = tdm_group_rank(group) == root ? (int)i : -1;
    tdm_status status = tdm_broadcast(group, data, count, TDM_I32, root, NULL);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += data[i] != (int)i;
    free(data);
    CHECK(status == TDM_OK, "%s", tdm_error_text());
    CHECK(wrong == 0, "%zu of %zu copies are wrong", wrong, count);
    return NULL;
}

static const char *works(tdm_group *group, void *arg)
{
    (void)arg;
    const size_t counts[] = {3, 5001, 200001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *wrong = sums(group, counts[i]);
        if (wrong == NULL)
            wrong = copies(group, counts[i]);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static void every_algorithm_works_over_links_and_between_nodes(void **state)
{
    (void)state;
    static const char *const over_links[] = {"halving_doubling", "recursive_doubling", "ring", "ring2", "tree", "gather_to_one",
                                             "parameter_server", "broadcast=binomial", "broadcast=tree", "broadcast=ring"};
    static const char *const between_nodes[] = {"hierarchical", "hierarchical_ring", "hierarchical_ring2", "hierarchical_tree", "tree"};
    setenv("TANDEM_SUM_ORDER", "fast", 1);
    for (size_t i = 0; i < sizeof over_links / sizeof *over_links; i++) {
        setenv("TANDEM_ALGO", over_links[i], 1);
        ranks_run(&(ranks_spec){.n = 3 + (int)(i % 3), .transport = "tcp"}, works, NULL);
    }
    for (size_t i = 0; i < sizeof between_nodes / sizeof *between_nodes; i++) {
        setenv("TANDEM_ALGO", between_nodes[i], 1);
        ranks_run(&(ranks_spec){.n = 5, .transport = "nodes"}, works, NULL);
    }
    unsetenv("TANDEM_ALGO");
    unsetenv("TANDEM_SUM_ORDER");
}

static const char *sums_a_little(tdm_group *group, void *arg)
{
    (void)arg;
    const char *wrong = sums(group, 10);
    return wrong != NULL ? wrong : sums(group, 10001);
}

static void sixty_four_ranks_form_a_group_and_add_up(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 64, .transport = "shm"}, sums_a_little, NULL);
    ranks_run(&(ranks_spec){.n = 12, .transport = "tcp"}, sums_a_little, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_works_over_links_and_between_nodes),
        cmocka_unit_test(sixty_four_ranks_form_a_group_and_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
