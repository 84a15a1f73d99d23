/* test_select.c - what is chosen by default, what can be forced, and what the errors say. */
#include "coll/algorithm.h"
#include "coll/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EVERYTHING (TDMI_NEEDS_LINKS | TDMI_NEEDS_SHARED | TDMI_NEEDS_STAGE | TDMI_NEEDS_SLOT | TDMI_NEEDS_READ)

static const tdmi_call allreduce = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1024};
static const tdmi_call all_gather = {.coll = TDMI_COLL_ALL_GATHER, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1024};
static const tdmi_call barrier = {.coll = TDMI_COLL_BARRIER, .dtype = TDM_U8, .op = TDM_SUM, .root = -1, .count = 0};

static int clean(void **state)
{
    (void)state;
    unsetenv("TANDEM_ALGO");
    unsetenv("TANDEM_SUM_ORDER");
    return 0;
}

static const char *chosen(const tdmi_call *call, int n, unsigned reach)
{
    const tdmi_algorithm *algorithm;
    char why[TDMI_WHY_MAX];
    assert_int_equal(tdmi_select(call, &(tdmi_topology){.n = n}, reach, &algorithm, why), TDM_OK);
    assert_true(strlen(why) > 0);
    return algorithm->name;
}

static void refused(const char *algo, const tdmi_call *call, int n, unsigned reach, tdm_status status, const char *text)
{
    const tdmi_algorithm *algorithm = NULL;
    setenv("TANDEM_ALGO", algo, 1);
    assert_int_equal(tdmi_select(call, &(tdmi_topology){.n = n}, reach, &algorithm, NULL), status);
    assert_null(algorithm);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", tdm_error_text(), text);
    unsetenv("TANDEM_ALGO");
}

static void the_default_follows_what_the_ranks_have_in_common(void **state)
{
    (void)state;
    const tdmi_call small = {.coll = TDMI_COLL_BROADCAST, .dtype = TDM_F32, .root = 0, .count = 10};
    const tdmi_call short_sum = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .root = -1, .count = 256};
    const tdmi_call long_sum = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .root = -1, .count = 10000};
    const tdmi_call large = {.coll = TDMI_COLL_BROADCAST, .dtype = TDM_F32, .root = 0, .count = 1 << 20};
    assert_string_equal(chosen(&allreduce, 4, EVERYTHING), "direct");
    assert_string_equal(chosen(&allreduce, 4, TDMI_NEEDS_LINKS | TDMI_NEEDS_STAGE), "direct_staged");
    assert_string_equal(chosen(&short_sum, 4, TDMI_NEEDS_LINKS), "recursive_doubling");
    assert_string_equal(chosen(&long_sum, 4, TDMI_NEEDS_LINKS), "halving_doubling");
    assert_string_equal(chosen(&all_gather, 5, TDMI_NEEDS_LINKS), "halving_doubling");
    assert_string_equal(chosen(&small, 4, TDMI_NEEDS_LINKS), "binomial");
    assert_string_equal(chosen(&large, 4, TDMI_NEEDS_LINKS), "ring");
    assert_string_equal(chosen(&barrier, 4, TDMI_NEEDS_LINKS), "dissemination");
    assert_string_equal(chosen(&barrier, 4, EVERYTHING), "eager");
    assert_string_equal(chosen(&short_sum, 4, EVERYTHING), "eager"); /* one meeting */
}

static void what_was_measured_counts_before_the_model_and_the_defaults(void **state)
{
    (void)state;
    tdmi_tuning tuning = {.host = 1};
    char why[TDMI_WHY_MAX];
    const tdmi_algorithm *algorithm;
    const tdmi_topology topology = {.n = 4, .node = (const int[]){0, 1, 2, 3}, .transport = "tcp", .tuning = &tuning};
    tdmi_call call = allreduce;
    tdmi_tuning_set_costs(&tuning, &(tdmi_costs){"tcp", 1e6, 1, 0.1}); /* messages cost much */
    call.count = 100000;
    assert_int_equal(tdmi_select(&call, &topology, TDMI_NEEDS_LINKS, &algorithm, why), TDM_OK);
    assert_string_equal(algorithm->name, "recursive_doubling");
    assert_non_null(strstr(why, "cost model"));
    tdmi_tuning_set_costs(&tuning, &(tdmi_costs){"tcp", 10, 1, 0.1}); /* bytes do */
    assert_int_equal(tdmi_select(&call, &topology, TDMI_NEEDS_LINKS, &algorithm, why), TDM_OK);
    assert_string_equal(algorithm->name, "halving_doubling");
    assert_int_equal(tdmi_tuning_add(&tuning, "4x4/tcp/any", &(tdmi_choice){&tdmi_ring, TDMI_COLL_ALLREDUCE, 0, SIZE_MAX, ""}), TDM_OK);
    assert_int_equal(tdmi_tuning_add(&tuning, "4x4/tcp/any", &(tdmi_choice){&tdmi_recursive_doubling, TDMI_COLL_ALLREDUCE, 0, SIZE_MAX, ""}),
                     TDM_OK);
    assert_int_equal(tdmi_select(&call, &topology, TDMI_NEEDS_LINKS, &algorithm, why), TDM_OK);
    assert_string_equal(algorithm->name, "recursive_doubling"); /* a ring is for those who allow it */
    assert_non_null(strstr(why, "measured"));
    setenv("TANDEM_SUM_ORDER", "fast", 1);
    assert_int_equal(tdmi_select(&call, &topology, TDMI_NEEDS_LINKS, &algorithm, why), TDM_OK);
    assert_string_equal(algorithm->name, "ring");
    setenv("TANDEM_ALGO", "tree", 1);
    assert_int_equal(tdmi_select(&call, &topology, TDMI_NEEDS_LINKS, &algorithm, why), TDM_OK);
    assert_string_equal(algorithm->name, "tree");
    tdmi_tuning_free(&tuning);
}

/* The model is what the step lists send: a chain of segments, pairs that halve, a tree of whole messages. */
static void the_model_follows_the_cost_lines(void **state)
{
    (void)state;
    const tdmi_costs costs = {"tcp", 1000, 2, 0};
    const tdmi_topology topology = {.n = 4, .node = (const int[]){0, 1, 2, 3}};
    const tdmi_call sum = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1000};
    const tdmi_call copy = {.coll = TDMI_COLL_BROADCAST, .dtype = TDM_U8, .op = TDM_SUM, .root = 1, .count = (size_t)1 << 20};
    assert_true(tdmi_time_ns(&tdmi_halving_doubling, &sum, &topology, &costs) == 4 * 1000 + 2 * 3000 * 2);
    assert_true(tdmi_time_ns(&tdmi_recursive_doubling, &sum, &topology, &costs) == 2 * (1000 + 4000 * 2));
    assert_true(tdmi_time_ns(&tdmi_binomial, &copy, &topology, &costs) == 2 * (1000 + 1048576.0 * 2));
    assert_true(tdmi_time_ns(&tdmi_ring, &copy, &topology, &costs) == (4 + 4 - 2) * (1000 + 262144.0 * 2));
}

static void several_nodes_take_the_hierarchy_where_one_has_several_ranks(void **state)
{
    (void)state;
    static const int pairs[] = {0, 0, 1, 1}, single[] = {0, 1, 2, 3};
    const unsigned reach = TDMI_NEEDS_LINKS | TDMI_NEEDS_NODE;
    const tdmi_algorithm *algorithm;
    assert_int_equal(tdmi_select(&allreduce, &(tdmi_topology){.n = 4, .node = pairs}, reach, &algorithm, NULL), TDM_OK);
    assert_string_equal(algorithm->name, "hierarchical");
    assert_int_equal(tdmi_select(&allreduce, &(tdmi_topology){.n = 4, .node = single}, reach, &algorithm, NULL), TDM_OK);
    assert_string_equal(algorithm->name, "recursive_doubling");
    refused("hierarchical", &allreduce, 4, reach, TDM_ERR_UNSUPPORTED, "needs several nodes, one of them with more than one rank");
}

static const char *cheapest(tdmi_coll coll, size_t count, const tdmi_topology *topology, const tdmi_costs *costs)
{
    const bool rooted = coll == TDMI_COLL_GATHER || coll == TDMI_COLL_BROADCAST;
    const tdmi_call call = {.coll = coll, .dtype = TDM_F32, .op = TDM_SUM, .root = rooted ? 0 : -1, .count = count};
    double ns;
    return tdmi_cheapest(&call, topology, TDMI_NEEDS_LINKS | TDMI_NEEDS_NODE, false, costs, &ns)->name;
}

/* Over a slow link the node sends each byte once. Where links are as fast as memory and each part goes once anyway, the way through
 * the leaders is longer. */
static void the_model_knows_that_ranks_share_their_nodes_link(void **state)
{
    (void)state;
    static const int fours[] = {0, 0, 0, 0, 1, 1, 1, 1};
    const tdmi_topology topology = {.n = 8, .node = fours};
    const tdmi_costs slow = {"tcp", 6000, 8, 0.04}, fast = {"tcp", 2000, 0.04, 0.04};
    assert_string_equal(cheapest(TDMI_COLL_ALLREDUCE, 1 << 20, &topology, &slow), "hierarchical");
    assert_string_equal(cheapest(TDMI_COLL_ALL_GATHER, 1 << 17, &topology, &slow), "hierarchical");
    assert_string_equal(cheapest(TDMI_COLL_REDUCE_SCATTER, 1 << 17, &topology, &slow), "hierarchical");
    assert_string_equal(cheapest(TDMI_COLL_BROADCAST, 1 << 20, &topology, &slow), "hierarchical");
    assert_string_equal(cheapest(TDMI_COLL_ALLTOALL, 64, &topology, &slow), "hierarchical");
    assert_string_equal(cheapest(TDMI_COLL_ALLTOALL, 1 << 20, &topology, &fast), "pairwise");
    assert_string_equal(cheapest(TDMI_COLL_GATHER, 1 << 20, &topology, &fast), "binomial");
}

static void memory_from_malloc_is_read_where_that_is_faster(void **state)
{
    (void)state;
    const unsigned reach = TDMI_NEEDS_LINKS | TDMI_NEEDS_STAGE | TDMI_NEEDS_READ;
    tdmi_call call = {.coll = TDMI_COLL_ALL_GATHER, .dtype = TDM_U8, .root = -1, .count = 16 << 10};
    assert_string_equal(chosen(&call, 2, reach), "direct_read"); /* 32 KiB */
    assert_string_equal(chosen(&call, 2, reach & ~TDMI_NEEDS_READ), "direct_staged");
    assert_string_equal(chosen(&call, 2, EVERYTHING), "direct");
    call.count--;
    assert_string_equal(chosen(&call, 2, reach), "direct_staged");
    call = (tdmi_call){.coll = TDMI_COLL_BROADCAST, .dtype = TDM_U8, .root = 0, .count = 256 << 10};
    assert_string_equal(chosen(&call, 2, reach), "direct_read");
    call.count = 4 << 20;
    assert_string_equal(chosen(&call, 2, reach), "direct_staged");
    assert_string_equal(chosen(&allreduce, 4, reach), "direct_staged");
    call = (tdmi_call){.coll = TDMI_COLL_REDUCE_SCATTER, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 1 << 20};
    assert_string_equal(chosen(&call, 2, reach), "direct_staged"); /* two ranks: each line crosses once */
    assert_string_equal(chosen(&call, 3, reach), "direct_read");
    static const size_t parts[] = {1, 2};
    static const tdmi_coll pairwise[] = {TDMI_COLL_GATHER, TDMI_COLL_SCATTER, TDMI_COLL_ALLTOALL};
    for (int i = 0; i < 3; i++) {
        call = (tdmi_call){.coll = pairwise[i], .dtype = TDM_F32, .root = i < 2 ? 0 : -1, .count = i < 2 ? 1 : 0, .uneven = true,
                           .in_counts = parts, .out_counts = parts};
        assert_string_equal(chosen(&call, 2, reach), "direct_read"); /* direct_staged cannot */
    }
}

/* No default may reorder: what is chosen without being asked gives the canonical bits. */
static void no_default_reorders_a_sum(void **state)
{
    (void)state;
    static const unsigned reaches[] = {TDMI_NEEDS_LINKS, TDMI_NEEDS_LINKS | TDMI_NEEDS_STAGE, EVERYTHING};
    for (size_t i = 0; i < sizeof reaches / sizeof *reaches; i++)
        for (size_t count = 0; count <= (size_t)1 << 30; count = 4 * count + 1)
            for (int coll = TDMI_COLL_ALLREDUCE; coll <= TDMI_COLL_REDUCE_SCATTER; coll++) {
                const tdmi_call call = {.coll = (tdmi_coll)coll, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = count};
                const tdmi_algorithm *algorithm;
                assert_int_equal(tdmi_select(&call, &(tdmi_topology){.n = 5}, reaches[i], &algorithm, NULL), TDM_OK);
                assert_false(algorithm->reorders);
            }
}

static void halves_travel_as_halves_where_they_are_many(void **state)
{
    (void)state;
    tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_BF16, .op = TDM_SUM, .root = -1, .count = 1 << 16};
    assert_string_equal(chosen(&call, 4, TDMI_NEEDS_LINKS), "pairwise");
    assert_string_equal(chosen(&call, 4, EVERYTHING), "direct");
    call.dtype = TDM_F32;
    assert_string_equal(chosen(&call, 4, TDMI_NEEDS_LINKS), "halving_doubling");
    call.dtype = TDM_BF16;
    call.count = 1000;
    assert_string_equal(chosen(&call, 4, TDMI_NEEDS_LINKS), "recursive_doubling");
    setenv("TANDEM_ALGO", "halving_doubling", 1);
    call.count = 1 << 16;
    assert_string_equal(chosen(&call, 4, TDMI_NEEDS_LINKS), "halving_doubling");
}

/* Whatever the operation, its parts, what the ranks have in common and how long the message is: there is a way. */
static void every_call_has_a_choice(void **state)
{
    (void)state;
    static const unsigned reaches[] = {TDMI_NEEDS_LINKS, TDMI_NEEDS_LINKS | TDMI_NEEDS_STAGE, EVERYTHING};
    static const size_t counts[] = {0, 1, 100, 5000, 1 << 20};
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (int uneven = 0; uneven <= (tdmi_coll_has_parts((tdmi_coll)coll) ? 1 : 0); uneven++)
            for (size_t r = 0; r < sizeof reaches / sizeof *reaches; r++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                    for (int n = 1; n <= 5; n++) {
                        const size_t parts[] = {counts[c], 0, counts[c], 1, counts[c]};
                        const tdmi_call call = {.coll = (tdmi_coll)coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0,
                                                .count = counts[c], .uneven = uneven != 0, .in_counts = parts, .out_counts = parts};
                        chosen(&call, n, reaches[r]);
                    }
}

static void a_single_rank_needs_nothing(void **state)
{
    (void)state;
    tdmi_steps list = {0};
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++) {
        const tdmi_call call = {.coll = (tdmi_coll)coll, .dtype = TDM_F16, .op = TDM_AVG, .root = 0, .count = 3};
        for (size_t i = 0; i < tdmi_algorithm_count; i++)
            if (tdmi_algorithms[i]->supports((tdmi_coll)coll, false)) {
                tdmi_steps_clear(&list);
                tdmi_algorithms[i]->steps(&list, &call, &(tdmi_topology){.n = 1});
                assert_true(list.count <= 1 && (list.count == 0 || list.step[0].kind == TDMI_STEP_COPY));
            }
        chosen(&call, 1, 0);
    }
    setenv("TANDEM_ALGO", "ring", 1);
    assert_string_equal(chosen(&allreduce, 1, 0), "ring");
    tdmi_steps_free(&list);
}

static void a_name_is_forced_where_it_exists(void **state)
{
    (void)state;
    setenv("TANDEM_ALGO", "Ring", 1); /* as NCCL spells it */
    assert_string_equal(chosen(&all_gather, 4, EVERYTHING), "ring");
    assert_string_equal(chosen(&allreduce, 2, EVERYTHING), "ring");
    setenv("TANDEM_ALGO", "Tree", 1);
    assert_string_equal(chosen(&allreduce, 2, EVERYTHING), "tree");
    setenv("TANDEM_ALGO", "Ring", 1);
    assert_string_equal(chosen(&barrier, 4, EVERYTHING), "eager"); /* a ring is no barrier */
    setenv("TANDEM_ALGO", "halving_doubling", 1);
    assert_string_equal(chosen(&allreduce, 7, EVERYTHING), "halving_doubling");
}

static void a_list_chooses_by_operation_and_size(void **state)
{
    (void)state;
    tdmi_call call = allreduce;
    setenv("TANDEM_ALGO", "allreduce:0-64K=direct_staged,allreduce:64K-=halving_doubling,all_gather=ring", 1);
    assert_string_equal(chosen(&call, 4, EVERYTHING), "direct_staged");
    call.count = 16383;
    assert_string_equal(chosen(&call, 4, EVERYTHING), "direct_staged");
    call.count = 16384;
    assert_string_equal(chosen(&call, 4, EVERYTHING), "halving_doubling");
    assert_string_equal(chosen(&all_gather, 4, EVERYTHING), "ring");
    assert_string_equal(chosen(&barrier, 4, EVERYTHING), "eager");
}

static void a_ring_of_sums_must_be_allowed(void **state)
{
    (void)state;
    tdmi_call whole = allreduce;
    refused("ring", &allreduce, 3, EVERYTHING, TDM_ERR_UNSUPPORTED,
            "allreduce over 3 ranks: algorithm ring adds in another order than the canonical tree");
    refused("ring", &allreduce, 3, EVERYTHING, TDM_ERR_UNSUPPORTED, "TANDEM_SUM_ORDER=fast");
    setenv("TANDEM_ALGO", "ring", 1);
    whole.dtype = TDM_C64;
    refused("tree", &whole, 3, EVERYTHING, TDM_ERR_UNSUPPORTED, "TANDEM_SUM_ORDER=fast");
    setenv("TANDEM_ALGO", "ring", 1);
    whole.dtype = TDM_I32;
    assert_string_equal(chosen(&whole, 3, EVERYTHING), "ring"); /* whole numbers have one sum */
    setenv("TANDEM_SUM_ORDER", "fast", 1);
    assert_string_equal(chosen(&allreduce, 3, EVERYTHING), "ring");
}

static void what_cannot_be_is_refused_with_what_exists(void **state)
{
    (void)state;
    refused("bush", &allreduce, 4, EVERYTHING, TDM_ERR_INVALID, "\"bush\" is no algorithm; there are direct, ");
    refused("all_reduce=ring", &allreduce, 4, EVERYTHING, TDM_ERR_INVALID, "there are allreduce, reduce_scatter");
    refused("barrier=ring", &allreduce, 4, EVERYTHING, TDM_ERR_UNSUPPORTED,
            "ring has no barrier; barrier has direct, direct_read, direct_staged, eager, dissemination");
    refused("direct", &allreduce, 4, TDMI_NEEDS_LINKS, TDM_ERR_UNSUPPORTED,
            "allreduce over 4 ranks: algorithm direct needs every rank's buffers in shared memory");
    refused("direct_staged", &allreduce, 4, TDMI_NEEDS_LINKS, TDM_ERR_UNSUPPORTED, "all ranks on one node");
    refused("direct_read", &allreduce, 4, TDMI_NEEDS_LINKS | TDMI_NEEDS_STAGE, TDM_ERR_UNSUPPORTED, "process_vm_readv");
    refused("allreduce:64K=ring", &allreduce, 4, EVERYTHING, TDM_ERR_INVALID, "write OP:MIN-MAX=NAME");
    refused("allreduce:8K-4K=ring", &allreduce, 4, EVERYTHING, TDM_ERR_INVALID, "is empty");
    refused("allreduce:x-=ring", &allreduce, 4, EVERYTHING, TDM_ERR_INVALID, "\"x\" is not a size");
    refused("direct,,ring", &allreduce, 4, EVERYTHING, TDM_ERR_INVALID, "empty or too long");
    setenv("TANDEM_SUM_ORDER", "any", 1);
    const tdmi_algorithm *algorithm;
    assert_int_equal(tdmi_select(&allreduce, &(tdmi_topology){.n = 4}, EVERYTHING, &algorithm, NULL), TDM_ERR_INVALID);
    assert_string_equal(tdm_error_text(), "TANDEM_SUM_ORDER=any is neither canonical nor fast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_from_malloc_is_read_where_that_is_faster, clean),
        cmocka_unit_test_setup(the_default_follows_what_the_ranks_have_in_common, clean),
        cmocka_unit_test_setup(what_was_measured_counts_before_the_model_and_the_defaults, clean),
        cmocka_unit_test_setup(the_model_follows_the_cost_lines, clean),
        cmocka_unit_test_setup(several_nodes_take_the_hierarchy_where_one_has_several_ranks, clean),
        cmocka_unit_test_setup(the_model_knows_that_ranks_share_their_nodes_link, clean),
        cmocka_unit_test_setup(no_default_reorders_a_sum, clean),
        cmocka_unit_test_setup(halves_travel_as_halves_where_they_are_many, clean),
        cmocka_unit_test_setup(every_call_has_a_choice, clean),
        cmocka_unit_test_setup(a_single_rank_needs_nothing, clean),
        cmocka_unit_test_setup(a_name_is_forced_where_it_exists, clean),
        cmocka_unit_test_setup(a_list_chooses_by_operation_and_size, clean),
        cmocka_unit_test_setup(a_ring_of_sums_must_be_allowed, clean),
        cmocka_unit_test_setup(what_cannot_be_is_refused_with_what_exists, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
