/* test_amp.c - training steps in bfloat16 and float16: they learn as float32 does, have the same bits however they are sharded and
 * carried, and skip a step together when one rank's gradient overflows. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const tdm_dtype halves[] = {TDM_BF16, TDM_F16};

static tiny_run run_with(int n, const char *transport, ranks_mode mode, const tiny_run *ask)
{
    tiny_run *run = tiny_run_create(ask->shard, ask->clip), copy;
    const double bucket_mb = run->bucket_mb;
    *run = *ask;
    run->bucket_mb = bucket_mb;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = mode}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

/* Losses of a few steps: one rounding of an activation is 2^-9 (bfloat16) or 2^-12 of it. */
static void halves_learn_what_float32_learns(void **state)
{
    (void)state;
    static const double bound[] = {4e-3, 5e-4};
    for (int clip = 0; clip < 2; clip++) {
        const tiny_run exact = run_with(1, "shm", RANKS_THREADS, &(tiny_run){.shard = 1, .clip = clip});
        for (int h = 0; h < 2; h++)
            for (int n = 1; n <= 4; n *= 2) {
                const tiny_run run = run_with(n, "shm", RANKS_THREADS, &(tiny_run){.shard = 1, .clip = clip, .precision = halves[h]});
                for (int i = 0; i < TINY_STEPS; i++)
                    assert_true(fabs(run.loss[i] - exact.loss[i]) <= bound[h] * exact.loss[i]);
                assert_true(run.loss[TINY_STEPS - 1] < run.loss[0]);
                assert_true(run.loss[0] != exact.loss[0]); /* they were used */
            }
    }
}

static void weights_have_the_same_bits_however_they_are_sharded_and_carried(void **state)
{
    (void)state;
    static const char *const transports[] = {"shm", "tcp", "nodes"};
    for (int h = 0; h < 2; h++) {
        const tiny_run first = run_with(4, "shm", RANKS_PROCESSES, &(tiny_run){.shard = 1, .precision = halves[h]});
        for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
            for (int shard = 0; shard <= 2; shard++) {
                const tiny_run run = run_with(4, transports[i], RANKS_PROCESSES,
                                              &(tiny_run){.shard = shard, .clip = shard == 2 ? 1e6 : 0, .precision = halves[h]});
                assert_int_equal(run.weights, first.weights);
                assert_memory_equal(run.loss, first.loss, sizeof run.loss);
            }
    }
}

/* Fused kernels do what the plain ones do one after the other. */
static void fusing_changes_no_bit(void **state)
{
    (void)state;
    static const tdm_dtype types[] = {TDM_F32, TDM_BF16, TDM_F16};
    for (size_t t = 0; t < 3; t++)
        for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
            tiny_run ask = {.shard = 1, .precision = types[t], .micro_batches = micro_batches, .dropout = micro_batches == 2 ? 0.1f : 0};
            const tiny_run fused = run_with(2, "shm", RANKS_THREADS, &ask);
            ask.unfused = true;
            const tiny_run plain = run_with(2, "shm", RANKS_THREADS, &ask);
            assert_int_equal(fused.weights, plain.weights);
            assert_memory_equal(fused.loss, plain.loss, sizeof fused.loss);
            assert_memory_equal(fused.grad_norm, plain.grad_norm, sizeof fused.grad_norm);
        }
}

/* Gradients of micro-batches add up in float32: rounded less often than those of one batch. */
static void micro_batches_change_the_rounding_only(void **state)
{
    (void)state;
    for (int h = 0; h < 2; h++) {
        const tiny_run one = run_with(2, "shm", RANKS_THREADS, &(tiny_run){.shard = 1, .precision = halves[h]});
        const tiny_run two = run_with(2, "shm", RANKS_THREADS, &(tiny_run){.shard = 1, .precision = halves[h], .micro_batches = 2});
        for (int i = 0; i < TINY_STEPS; i++)
            assert_true(fabs(one.loss[i] - two.loss[i]) <= 4e-3 * one.loss[i]);
    }
}

static void a_warm_step_allocates_nothing(void **state)
{
    (void)state;
    for (int h = 0; h < 2; h++) {
        const tiny_run run = run_with(2, "shm", RANKS_PROCESSES, &(tiny_run){.shard = 1, .precision = halves[h]});
        assert_int_equal(run.allocations, 0);
    }
}

/* Report 34. Rank 2 of 4 overflows in steps 3 and 4. */
static void all_ranks_skip_the_step_that_overflows_on_one(void **state)
{
    (void)state;
    for (int shard = 0; shard <= 2; shard++) {
        const tiny_run clean = run_with(4, "shm", RANKS_THREADS, &(tiny_run){.shard = shard, .precision = TDM_F16});
        const tiny_run run = run_with(4, "shm", RANKS_THREADS, &(tiny_run){.shard = shard, .precision = TDM_F16, .overflow = 1});
        static const float scales[TINY_STEPS] = {65536, 65536, 32768, 16384, 16384, 16384}; /* after each step */
        assert_memory_equal(run.scale, scales, sizeof scales);
        for (int i = 0; i < TINY_STEPS; i++)
            assert_int_equal(run.skipped[i], i == 2 || i == 3);
        assert_true(run.loss[3] == run.loss[2] && run.loss[4] == run.loss[2]); /* nothing was updated in between */
        assert_true(run.loss[5] < run.loss[4]);
        assert_true(fabs(run.loss[5] - clean.loss[3]) < 1e-3 * run.loss[5]); /* step 6 comes after three updates, as clean step 4 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_learn_what_float32_learns),
        cmocka_unit_test(weights_have_the_same_bits_however_they_are_sharded_and_carried),
        cmocka_unit_test(fusing_changes_no_bit),
        cmocka_unit_test(micro_batches_change_the_rounding_only),
        cmocka_unit_test(a_warm_step_allocates_nothing),
        cmocka_unit_test(all_ranks_skip_the_step_that_overflows_on_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
