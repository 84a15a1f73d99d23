/* test_compress.c - compressed steps: learnt as well, the same bits on every way, fewer bytes, no allocation. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const tdm_compression codecs[] = {{.codec = TDM_CODEC_NONE},
                                         {.codec = TDM_CODEC_BF16},
                                         {.codec = TDM_CODEC_F16},
                                         {.codec = TDM_CODEC_POWERSGD, .rank = 2, .seed = 5},
                                         {.codec = TDM_CODEC_ONEBIT, .warmup = 4},
                                         {.codec = TDM_CODEC_TOPK, .fraction = 0.1}};
enum { CODECS = sizeof codecs / sizeof *codecs };

static tiny_run run_at(double lr, int n, const char *transport, ranks_mode mode, int shard, double clip, const tdm_compression *compress)
{
    tiny_run *run = tiny_run_create(shard, clip), copy;
    run->lr = lr;
    run->compress = *compress;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = mode}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

static tiny_run run_on(int n, const char *transport, ranks_mode mode, int shard, double clip, const tdm_compression *compress)
{
    return run_at(0, n, transport, mode, shard, clip, compress);
}

static double clip_of(const tdm_compression *c)
{
    return c->codec == TDM_CODEC_ONEBIT ? 0 : 1;
}

static void compressed_runs_learn(void **state)
{
    (void)state;
    for (int i = 1; i < CODECS; i++) {
        tiny_run plain = run_on(2, "shm", RANKS_THREADS, 1, clip_of(&codecs[i]), &codecs[0]);
        tiny_run run = run_on(2, "shm", RANKS_THREADS, 1, clip_of(&codecs[i]), &codecs[i]);
        const double gained = plain.loss[0] - plain.loss[TINY_STEPS - 1];
        assert_true(run.loss[0] == plain.loss[0] && run.weights != plain.weights);
        if (!(run.loss[0] - run.loss[TINY_STEPS - 1] > 0.5 * gained))
            fail_msg("%s: from %g to %g, where %g can be reached", tdm_codec_name(codecs[i].codec), run.loss[0],
                     run.loss[TINY_STEPS - 1], plain.loss[TINY_STEPS - 1]);
    }
}

/* Sharded inside a node, replicated over nodes, unsharded: who updates and saves what differs, the weights do not. */
static void weights_have_the_same_bits_on_every_way_and_at_both_stages(void **state)
{
    (void)state;
    for (int i = 1; i < CODECS; i++) {
        tiny_run first = run_on(4, "shm", RANKS_PROCESSES, 1, clip_of(&codecs[i]), &codecs[i]);
        static const char *const ways[] = {"shm", "tcp", "nodes", "shm"};
        for (int w = 0; w < 4; w++) {
            tiny_run other = run_on(4, ways[w], RANKS_PROCESSES, w < 3, clip_of(&codecs[i]), &codecs[i]);
            assert_int_equal(first.weights, other.weights);
            assert_memory_equal(first.loss, other.loss, sizeof first.loss);
            for (int s = 0; s < TINY_STEPS; s++) /* summed slice by slice */
                assert_true(fabs(first.grad_norm[s] - other.grad_norm[s]) <= 1e-6 * first.grad_norm[s]);
            assert_int_equal(other.shared, w == 0 || w == 2);
        }
    }
}

static void a_warm_up_that_never_ends_is_adamw(void **state)
{
    (void)state;
    const tdm_compression late = {.codec = TDM_CODEC_ONEBIT, .warmup = TINY_STEPS};
    for (int shard = 0; shard < 2; shard++) {
        tiny_run plain = run_on(2, "shm", RANKS_THREADS, shard, 0, &codecs[0]);
        tiny_run run = run_on(2, "shm", RANKS_THREADS, shard, 0, &late);
        assert_int_equal(plain.weights, run.weights);
    }
}

static void bytes_are_counted(void **state)
{
    (void)state;
    static const double most[CODECS] = {1, 0.51, 0.51, 0.7, 0.04, 0.21}; /* of matrices of 32 columns factors save little */
    for (int i = 0; i < CODECS; i++) {
        tiny_run run = run_on(2, "tcp", RANKS_PROCESSES, 1, clip_of(&codecs[i]), &codecs[i]);
        assert_true(run.sent[TINY_STEPS - 1] > 0 && run.sent[TINY_STEPS - 1] <= most[i] * run.plain + 4096 * (i == 0));
        if (codecs[i].codec == TDM_CODEC_ONEBIT)
            assert_true(fabs(run.sent[0] - run.plain) < 0.05 * run.plain); /* in the warm-up, padding apart */
    }
}

static void a_warm_step_allocates_nothing(void **state)
{
    (void)state;
    for (int i = 1; i < CODECS; i++) {
        tdm_compression c = codecs[i];
        c.warmup = c.warmup > 0 ? 1 : 0; /* warm before step 2 ends; at a common rate that diverges */
        tiny_run run = run_at(1e-6, 2, "shm", RANKS_PROCESSES, 1, clip_of(&c), &c);
        assert_int_equal(run.allocations, 0);
        assert_int_equal(run.heap_growth, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_runs_learn),
        cmocka_unit_test(weights_have_the_same_bits_on_every_way_and_at_both_stages),
        cmocka_unit_test(a_warm_up_that_never_ends_is_adamw),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(a_warm_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
