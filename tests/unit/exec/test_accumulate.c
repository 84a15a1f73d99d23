/* test_accumulate.c - a step of several micro-batches is the step of one large batch: gradients, losses, norms; also where some
 * targets do not count, and where the step is short. */
#include "tiny_run.h"

#include "on_ranks.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Sums of the same numbers in another order: of up to 128 rows, each rounded to 24 bits. */
#define GRADIENT_BOUND 2e-6 /* of the largest */

typedef struct way {
    int ranks, micro_batches;
    const char *transport;
    ranks_mode mode;
} way;

static tiny_run *run_as(const way *w, tiny_run ask)
{
    tiny_run *run = tiny_run_create(ask.shard, ask.clip);
    const double bucket_mb = run->bucket_mb;
    float *gradient = run->gradient;
    *run = ask;
    run->bucket_mb = bucket_mb;
    run->gradient = gradient;
    run->micro_batches = w->micro_batches;
    ranks_run(&(ranks_spec){.n = w->ranks, .transport = w->transport, .mode = w->mode}, tiny_run_body, run);
    return run;
}

static double largest_gradient(const tiny_run *run)
{
    double most = 0;
    for (size_t i = 0; i < run->gradient_count; i++)
        most = fmax(most, fabs((double)run->gradient[i]));
    return most;
}

static void assert_same_step(const tiny_run *a, const tiny_run *b)
{
    double apart = 0;
    assert_int_equal(a->gradient_count, b->gradient_count);
    for (size_t i = 0; i < a->gradient_count; i++)
        apart = fmax(apart, fabs((double)a->gradient[i] - (double)b->gradient[i]));
    assert_true(apart <= GRADIENT_BOUND * largest_gradient(a));
    for (int i = 0; i < TINY_STEPS; i++) {
        assert_true(fabs(a->loss[i] - b->loss[i]) <= 1e-5 * a->loss[i]);
        assert_true(fabs(a->grad_norm[i] - b->grad_norm[i]) <= 1e-4 * a->grad_norm[i]);
    }
}

/* Unsharded, so that every rank sees whole gradients; clipping is loose. */
static const tiny_run whole = {.shard = 0, .clip = 1e6, .windows = 8};

static void a_batch_may_be_cut_in_any_way(void **state)
{
    (void)state;
    static const way one_by_one = {1, 1, "shm", RANKS_THREADS};
    static const way others[] = {{1, 2, "shm", RANKS_THREADS}, {1, 4, "shm", RANKS_THREADS},   {1, 8, "shm", RANKS_THREADS},
                                 {2, 1, "shm", RANKS_THREADS}, {2, 2, "shm", RANKS_PROCESSES}, {2, 4, "tcp", RANKS_THREADS},
                                 {4, 2, "shm", RANKS_THREADS}};
    tiny_run *reference = run_as(&one_by_one, whole);
    assert_true(reference->loss[TINY_STEPS - 1] < reference->loss[0]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tiny_run *run = run_as(&others[i], whole);
        assert_same_step(reference, run);
        tiny_run_free(run);
    }
    tiny_run_free(reference);
}

static void targets_count_alike_however_the_batch_is_cut(void **state)
{
    (void)state;
    static const way ways[] = {{1, 1, "shm", RANKS_THREADS}, {1, 8, "shm", RANKS_THREADS}, {2, 4, "shm", RANKS_THREADS}, {4, 1, "tcp", RANKS_THREADS}};
    tiny_run some = whole, even = whole, only_even = whole;
    some.counts = TINY_SOME_COUNT;
    even.counts = TINY_EVEN_COUNT;
    only_even.windows = 4;
    only_even.stride = 2;
    tiny_run *reference = run_as(&ways[0], some), *half = run_as(&ways[0], only_even);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        tiny_run *run = run_as(&ways[i], some);
        assert_same_step(reference, run);
        tiny_run_free(run);
        run = run_as(&ways[i], even); /* windows that do not count are as if they were not there */
        assert_same_step(half, run);
        tiny_run_free(run);
    }
    tiny_run_free(reference);
    tiny_run_free(half);
}

/* A step of 2 micro-batches in a graph made for 4: factors are powers of two, so the bits are those of a graph made for 2. */
static void a_short_step_is_a_whole_one_of_fewer_micro_batches(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        const tiny_run of_four = {.shard = fused, .clip = fused ? 0 : 1, .windows = 8, .short_by = 2};
        const tiny_run of_two = {.shard = fused, .clip = fused ? 0 : 1, .windows = 4};
        tiny_run *a = run_as(&(way){2, 4, "shm", RANKS_THREADS}, of_four), *b = run_as(&(way){2, 2, "shm", RANKS_THREADS}, of_two);
        assert_memory_equal(a->loss, b->loss, sizeof a->loss);
        assert_memory_equal(a->grad_norm, b->grad_norm, sizeof a->grad_norm);
        assert_int_equal(a->weights, b->weights);
        tiny_run_free(a);
        tiny_run_free(b);
    }
}

static void micro_batches_have_the_same_bits_on_every_transport_and_again(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        const tiny_run ask = {.shard = 1, .clip = clip, .windows = 12, .dropout = 0.1f};
        tiny_run *shm = run_as(&(way){2, 3, "shm", RANKS_PROCESSES}, ask);
        assert_int_equal(shm->allocations, 0);
        static const char *const others[] = {"shm", "tcp"};
        for (size_t i = 0; i < 2; i++) {
            tiny_run *other = run_as(&(way){2, 3, others[i], RANKS_PROCESSES}, ask);
            assert_int_equal(shm->weights, other->weights);
            assert_memory_equal(shm->loss, other->loss, sizeof shm->loss);
            tiny_run_free(other);
        }
        tiny_run_free(shm);
    }
}

/* Sums of halves stay close, however a batch is cut; every cut has its bits. */
static void halves_accumulate(void **state)
{
    (void)state;
    static const tdm_dtype types[] = {TDM_BF16, TDM_F16};
    for (int i = 0; i < 2; i++) {
        const tiny_run ask = {.shard = 1, .clip = 1, .windows = 8, .precision = types[i], .counts = TINY_SOME_COUNT};
        tiny_run *large = run_as(&(way){2, 1, "shm", RANKS_THREADS}, ask), *cut = run_as(&(way){2, 4, "shm", RANKS_THREADS}, ask);
        for (int step = 0; step < TINY_STEPS; step++)
            assert_true(fabs(large->loss[step] - cut->loss[step]) <= 1e-2 * large->loss[step]);
        tiny_run *again = run_as(&(way){2, 4, "tcp", RANKS_PROCESSES}, ask);
        assert_int_equal(cut->weights, again->weights);
        tiny_run_free(large);
        tiny_run_free(cut);
        tiny_run_free(again);
    }
}

/* Gradients that add up need their memory from the first micro-batch to the last. */
static void stages_of_sharding_accumulate_the_same_bits(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        tiny_run ask = {.clip = clip, .windows = 12, .dropout = 0.1f};
        tiny_run *first = run_as(&(way){2, 3, "shm", RANKS_THREADS}, ask);
        for (ask.shard = 1; ask.shard <= 3; ask.shard++) {
            tiny_run *other = run_as(&(way){2, 3, "shm", RANKS_THREADS}, ask);
            assert_int_equal(first->weights, other->weights);
            assert_memory_equal(first->loss, other->loss, sizeof first->loss);
            tiny_run_free(other);
        }
        tiny_run_free(first);
    }
}

/* ---- what cannot be ---- */

static const char *asks_for_too_much(tdm_group *group, void *arg)
{
    (void)arg;
    return tiny_refused_body(group);
}

static void steps_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, asks_for_too_much, NULL);
    tdmi_graph *g = tdmi_graph_create("small");
    assert_int_equal(tdmi_pass_accumulate(g, &(tdmi_pipeline_options){.micro_batches = -1}), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "a step of -1 micro-batches"));
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_may_be_cut_in_any_way),
        cmocka_unit_test(targets_count_alike_however_the_batch_is_cut),
        cmocka_unit_test(a_short_step_is_a_whole_one_of_fewer_micro_batches),
        cmocka_unit_test(micro_batches_have_the_same_bits_on_every_transport_and_again),
        cmocka_unit_test(halves_accumulate),
        cmocka_unit_test(stages_of_sharding_accumulate_the_same_bits),
        cmocka_unit_test(steps_that_cannot_be_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
