/* test_step.c - training steps: N ranks equal one, the same bits again and on every way, no allocation, clear ends. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static tiny_run run_on(int n, const char *transport, ranks_mode mode, int shard, double clip)
{
    tiny_run *run = tiny_run_create(shard, clip), copy;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = mode}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

static void assert_same_losses(const tiny_run *a, const tiny_run *b)
{
    for (int i = 0; i < TINY_STEPS; i++)
        assert_true(fabs(a->loss[i] - b->loss[i]) <= 1e-5 * fabs(a->loss[i]));
}

static void ranks_together_learn_what_one_learns(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        tiny_run one = run_on(1, "shm", RANKS_THREADS, 1, clip);
        assert_true(one.loss[TINY_STEPS - 1] < one.loss[0]);
        for (int n = 2; n <= 4; n += 2) {
            tiny_run many = run_on(n, "shm", RANKS_THREADS, 1, clip);
            assert_same_losses(&one, &many);
            assert_true(many.shared);
        }
    }
}

static void weights_have_the_same_bits_on_every_transport_and_again(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        tiny_run shm = run_on(4, "shm", RANKS_PROCESSES, 1, clip);
        static const char *const others[] = {"shm", "tcp", "nodes"};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            tiny_run other = run_on(4, others[i], RANKS_PROCESSES, 1, clip);
            assert_int_equal(shm.weights, other.weights);
            assert_memory_equal(shm.loss, other.loss, sizeof shm.loss);
            assert_memory_equal(shm.grad_norm, other.grad_norm, sizeof shm.grad_norm);
            assert_int_equal(other.shared, i != 1); /* one copy a node; over tcp everywhere, one a rank */
        }
    }
}

static void sharding_changes_who_updates_and_not_the_weights(void **state)
{
    (void)state;
    tiny_run slices = run_on(2, "shm", RANKS_THREADS, 1, 0), whole = run_on(2, "shm", RANKS_THREADS, 0, 0);
    assert_int_equal(slices.weights, whole.weights);
    assert_false(whole.shared);
}

/* Buckets of 4 KiB: the larger matrices lie in up to five of them. */
static void parameters_in_several_buckets_learn_the_same_weights(void **state)
{
    (void)state;
    static const char *const ways[] = {"shm", "tcp", "nodes"};
    for (int n = 2; n <= 4; n *= 2)
        for (int clip = 0; clip < 2; clip++) {
            const tiny_run whole = run_on(n, "shm", RANKS_PROCESSES, 1, clip * 1e6);
            for (int shard = 0; shard <= 3; shard++) {
                tiny_run *parts = tiny_run_create(shard, clip * 1e6);
                parts->bucket_mb = 0.004;
                ranks_run(&(ranks_spec){.n = n, .transport = n == 4 ? ways[shard % 3] : ways[shard % 2], .mode = RANKS_PROCESSES},
                          tiny_run_body, parts);
                assert_int_equal(parts->weights, whole.weights);
                assert_memory_equal(parts->loss, whole.loss, sizeof whole.loss);
                tiny_run_free(parts);
            }
        }
}

static void halves_in_several_buckets_learn_the_same_weights(void **state)
{
    (void)state;
    static const tdm_dtype types[] = {TDM_BF16, TDM_F16};
    for (int i = 0; i < 2; i++) {
        uint64_t weights[2];
        for (int parts = 0; parts < 2; parts++) {
            tiny_run *run = tiny_run_create(1 + i, 1e6);
            run->precision = types[i];
            run->bucket_mb = parts ? 0.003 : 1;
            ranks_run(&(ranks_spec){.n = 2, .transport = i == 0 ? "shm" : "tcp", .mode = RANKS_PROCESSES}, tiny_run_body, run);
            weights[parts] = run->weights;
            tiny_run_free(run);
        }
        assert_int_equal(weights[0], weights[1]);
    }
}

static void clipping_that_never_bites_changes_nothing(void **state)
{
    (void)state;
    tiny_run none = run_on(2, "shm", RANKS_THREADS, 1, 0), loose = run_on(2, "shm", RANKS_THREADS, 1, 1e6);
    assert_int_equal(none.weights, loose.weights); /* one pass over memory, or two: the same bits */
    tiny_run tight = run_on(2, "shm", RANKS_THREADS, 1, 0.1);
    assert_int_not_equal(none.weights, tight.weights);
    assert_true(fabs(none.grad_norm[0] - tight.grad_norm[0]) < 1e-6 * none.grad_norm[0]); /* the norm before clipping */
}

static void a_warm_step_allocates_nothing(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        tiny_run run = run_on(2, "shm", RANKS_PROCESSES, 1, clip);
        assert_int_equal(run.allocations, 0);
        assert_int_equal(run.heap_growth, 0);
    }
}

/* A rank alone moves nothing: what its fused reductions take is updating. */
static void an_update_inside_a_reduction_is_optimizer_time(void **state)
{
    (void)state;
    tiny_run one = run_on(1, "shm", RANKS_THREADS, 1, 0), two = run_on(2, "shm", RANKS_THREADS, 1, 0);
    assert_true(one.optimizer_ns > one.comm_exposed_ns);
    assert_true(two.optimizer_ns > 0);
}

/* ---- a loss that is not finite ---- */

static const char *poison_body(tdm_group *group, void *arg)
{
    return tiny_poisoned_body(group, *(const bool *)arg);
}

static void a_loss_that_is_not_finite_names_step_rank_and_node_on_every_rank(void **state)
{
    (void)state;
    bool fused = false;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, poison_body, &fused);
    fused = true;
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, poison_body, &fused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_together_learn_what_one_learns),
        cmocka_unit_test(weights_have_the_same_bits_on_every_transport_and_again),
        cmocka_unit_test(sharding_changes_who_updates_and_not_the_weights),
        cmocka_unit_test(parameters_in_several_buckets_learn_the_same_weights),
        cmocka_unit_test(halves_in_several_buckets_learn_the_same_weights),
        cmocka_unit_test(clipping_that_never_bites_changes_nothing),
        cmocka_unit_test(a_warm_step_allocates_nothing),
        cmocka_unit_test(an_update_inside_a_reduction_is_optimizer_time),
        cmocka_unit_test(a_loss_that_is_not_finite_names_step_rank_and_node_on_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
