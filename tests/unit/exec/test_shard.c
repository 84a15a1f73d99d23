/* test_shard.c - sharding stages 0 to 3 give the same weights bit for bit, on any number of ranks and any way. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tiny_run run_on(int n, const char *transport, int shard, double clip)
{
    tiny_run *run = tiny_run_create(shard, clip), copy;
    run->dropout = 0.1f;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = RANKS_PROCESSES}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
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
                    assert_memory_equal(slices.grad_norm, other.grad_norm, sizeof slices.grad_norm);
                }
        }
}

static void stage_two_keeps_fewer_gradients(void **state)
{
    (void)state;
    tiny_run one = run_on(2, "shm", 1, 0), two = run_on(2, "shm", 2, 0), clipped = run_on(2, "shm", 2, 1);
    assert_true(two.gradient_nbytes * 10 < one.gradient_nbytes * 9);
    assert_true(clipped.gradient_nbytes == two.gradient_nbytes); /* and kept slices */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_stages_give_the_same_bits),
        cmocka_unit_test(stage_two_keeps_fewer_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
