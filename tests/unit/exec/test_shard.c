/* test_shard.c - sharding stages 0 to 3 give the same weights bit for bit, on any number of ranks and any way. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* On n ranks, each a process. */
static tiny_run run_as(const tiny_run *asked, int n, const char *transport)
{
    tiny_run *run = tiny_run_create(asked->shard, asked->clip), copy;
    *run = *asked;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = RANKS_PROCESSES}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

static tiny_run run_on(int n, const char *transport, int shard, double clip)
{
    return run_as(&(tiny_run){.shard = shard, .prefetch = 1, .clip = clip, .bucket_mb = 0.02, .dropout = 0.1f}, n, transport);
}

static void assert_same(const tiny_run *a, const tiny_run *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_int_equal(a->weights, b->weights);
}

static void all_stages_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const ways[] = {"shm", "tcp", "nodes"};
    static const double clips[] = {0, 0.5};
    for (int n = 1; n <= 4; n *= 2)
        for (size_t c = 0; c < sizeof clips / sizeof *clips; c++) {
            tiny_run first = run_on(n, "shm", 0, clips[c]);
            assert_true(first.loss[TINY_STEPS - 1] < first.loss[0]);
            tiny_run slices = run_on(n, "shm", 1, clips[c]);
            assert_same(&first, &slices);
            for (size_t w = 0; w < (n == 1 ? 1 : sizeof ways / sizeof *ways); w++)
                for (int shard = 2; shard <= 3; shard++) {
                    tiny_run other = run_on(n, ways[w], shard, clips[c]);
                    assert_same(&first, &other);
                    assert_int_equal(other.gathers, shard == 3 && (w == 1 || (w == 2 && n == 4)));
                    for (int i = 0; i < TINY_STEPS; i++) /* other buckets sum squares in another order, in double */
                        assert_true(fabs(slices.grad_norm[i] - other.grad_norm[i]) <=
                                    (other.gathers ? 1e-12 * slices.grad_norm[i] : 0));
                }
        }
}

static void in_16_bits_too_all_stages_give_the_same_bits(void **state)
{
    (void)state;
    static const tdm_dtype types[] = {TDM_BF16, TDM_F16};
    for (int i = 0; i < 2; i++) {
        tiny_run asked = {.shard = 1, .prefetch = 1, .clip = 0.5, .bucket_mb = 0.02, .dropout = 0.1f, .precision = types[i]};
        tiny_run slices = run_as(&asked, 2, "shm");
        assert_true(slices.loss[TINY_STEPS - 1] < slices.loss[0]);
        for (asked.shard = 2; asked.shard <= 3; asked.shard++) {
            tiny_run other = run_as(&asked, 2, "shm");
            assert_same(&slices, &other);
            assert_true(other.gradient_nbytes < slices.gradient_nbytes);
        }
        asked.shard = 2;
        tiny_run two = run_as(&asked, 4, "nodes");
        asked.shard = 3;
        tiny_run gathered = run_as(&asked, 4, "nodes"), apart = run_as(&asked, 4, "tcp"), whole;
        asked.precision = TDM_F32;
        whole = run_as(&asked, 4, "nodes");
        assert_true(gathered.gathers && apart.gathers);
        assert_same(&two, &gathered);
        assert_same(&two, &apart);
        assert_true(gathered.parameter_nbytes < whole.parameter_nbytes); /* matrices come in 16 bits */
    }
}

static void stage_two_keeps_fewer_gradients(void **state)
{
    (void)state;
    tiny_run one = run_on(2, "shm", 1, 0), two = run_on(2, "shm", 2, 0), clipped = run_on(2, "shm", 2, 1);
    assert_true(two.gradient_nbytes * 10 < one.gradient_nbytes * 9);
    assert_true(clipped.gradient_nbytes == two.gradient_nbytes); /* and kept slices */
}

/* As threads: where the thread sanitizer sees who touches gradients whose memory is used again. */
static void ranks_that_are_threads_reuse_gradients_too(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        tiny_run slices = run_on(4, "shm", 1, clip), *run = tiny_run_create(2, clip);
        run->dropout = 0.1f;
        ranks_run(&(ranks_spec){.n = 4, .transport = "shm", .mode = RANKS_THREADS}, tiny_run_body, run);
        assert_same(&slices, run);
        tiny_run_free(run);
    }
}

static void how_far_ahead_units_come_changes_only_memory(void **state)
{
    (void)state;
    tiny_run asked = {.shard = 3, .prefetch = 1, .clip = 0.5, .bucket_mb = 0.02, .dropout = 0.1f};
    tiny_run one = run_as(&asked, 4, "nodes"), in_turn = run_as(&asked, 4, "nodes in turn");
    asked.prefetch = 3;
    tiny_run three = run_as(&asked, 4, "nodes");
    assert_true(one.gathers && in_turn.gathers && three.gathers);
    assert_false(in_turn.shared); /* ranks of a node have no neighbouring slices: each keeps its own */
    assert_same(&one, &three);
    assert_same(&one, &in_turn);
    assert_true(one.parameter_nbytes <= three.parameter_nbytes);
}

static void micro_batches_gather_once_more_each(void **state)
{
    (void)state;
    tiny_run asked = {.shard = 1, .prefetch = 1, .clip = 0.5, .bucket_mb = 0.02, .dropout = 0.1f, .windows = 16, .micro_batches = 4};
    tiny_run slices = run_as(&asked, 4, "shm");
    for (asked.shard = 2; asked.shard <= 3; asked.shard++) {
        tiny_run other = run_as(&asked, 4, "nodes");
        assert_int_equal(other.gathers, asked.shard == 3);
        assert_same(&slices, &other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_stages_give_the_same_bits),
        cmocka_unit_test(ranks_that_are_threads_reuse_gradients_too),
        cmocka_unit_test(how_far_ahead_units_come_changes_only_memory),
        cmocka_unit_test(micro_batches_gather_once_more_each),
        cmocka_unit_test(in_16_bits_too_all_stages_give_the_same_bits),
        cmocka_unit_test(stage_two_keeps_fewer_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
