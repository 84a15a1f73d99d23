/* test_remat.c - activations computed again give the same bits, with dropout, on any number of ranks and with every other pass. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tiny_run run_on(int n, const char *transport, tiny_run ask)
{
    tiny_run *run = tiny_run_create(ask.shard, ask.clip), copy;
    const double bucket_mb = run->bucket_mb;
    *run = ask;
    run->bucket_mb = bucket_mb;
    run->dropout = 0.1f;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = RANKS_PROCESSES}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

/* Of the two blocks both, or the second. */
static void assert_same_bits(int n, const char *transport, tiny_run ask)
{
    ask.remat = 0;
    const tiny_run kept = run_on(n, transport, ask);
    assert_true(kept.loss[TINY_STEPS - 1] < kept.loss[0]);
    for (ask.remat = 1; ask.remat <= 2; ask.remat++) {
        const tiny_run again = run_on(n, transport, ask);
        assert_memory_equal(kept.loss, again.loss, sizeof kept.loss);
        assert_memory_equal(kept.grad_norm, again.grad_norm, sizeof kept.grad_norm);
        assert_int_equal(kept.weights, again.weights);
        assert_true(again.slab_nbytes < kept.slab_nbytes);
        assert_int_equal(again.allocations, 0);
    }
}

static void computing_again_changes_no_bit(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        assert_same_bits(n, "shm", (tiny_run){.shard = 1, .clip = 0.5});
        assert_same_bits(n, "shm", (tiny_run){.shard = 1});
    }
    assert_same_bits(2, "tcp", (tiny_run){.shard = 0, .clip = 0.5});
}

static void it_goes_with_micro_batches_sharding_and_halves(void **state)
{
    (void)state;
    assert_same_bits(2, "shm", (tiny_run){.shard = 1, .micro_batches = 2});
    assert_same_bits(2, "shm", (tiny_run){.shard = 2, .clip = 0.5});
    assert_same_bits(2, "shm", (tiny_run){.shard = 3, .micro_batches = 2, .clip = 0.5});
    assert_same_bits(2, "shm", (tiny_run){.shard = 1, .precision = TDM_BF16, .clip = 0.5});
    assert_same_bits(2, "shm", (tiny_run){.shard = 1, .clip = 1, .compress = {.codec = TDM_CODEC_POWERSGD, .rank = 2, .seed = 5}});
    assert_same_bits(2, "shm", (tiny_run){.shard = 2, .precision = TDM_F16, .micro_batches = 2, .clip = 0.5});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computing_again_changes_no_bit),
        cmocka_unit_test(it_goes_with_micro_batches_sharding_and_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
