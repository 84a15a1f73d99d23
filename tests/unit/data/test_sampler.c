/* test_sampler.c - DistributedSampler's order, exact evaluation, positions. */
#include "data/sampler.h"
#include "golden_rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_sampler *sampler_of(uint64_t samples, int rank, int ranks, uint32_t batch, bool shuffle, tdmi_sampler_end end)
{
    tdmi_sampler_options options = {samples, rank, ranks, batch, shuffle, 42, end};
    tdmi_sampler *sampler;
    assert_int_equal(tdmi_sampler_create(&options, &sampler), TDM_OK);
    return sampler;
}

static void assert_epoch(tdmi_sampler *sampler, const uint32_t *expected, uint64_t count)
{
    assert_int_equal(tdmi_sampler_count(sampler), count);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(tdmi_sampler_at(sampler, i), expected[i]);
    tdmi_sampler_destroy(sampler);
}

static void shuffled_epochs_are_torchs(void **state)
{
    (void)state;
    const uint32_t *const golden[] = {sampler_10_3_rank0, sampler_10_3_rank1, sampler_10_3_rank2};
    for (int rank = 0; rank < 3; rank++) {
        tdmi_sampler *sampler = sampler_of(10, rank, 3, 1, true, TDMI_SAMPLER_PAD);
        assert_int_equal(tdmi_sampler_seek(sampler, (tdmi_sampler_position){1, 0}), TDM_OK);
        assert_epoch(sampler, golden[rank], 4);
    }
}

static void training_pads_with_the_head_or_drops_the_rest(void **state)
{
    (void)state;
    static const uint32_t padded[4][3] = {{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}};
    for (int rank = 0; rank < 4; rank++) {
        assert_epoch(sampler_of(10, rank, 4, 1, false, TDMI_SAMPLER_PAD), padded[rank], 3);
        assert_epoch(sampler_of(10, rank, 4, 1, false, TDMI_SAMPLER_DROP), padded[rank], 2);
    }
    for (int rank = 0; rank < 7; rank++) {
        uint32_t first = (uint32_t)rank % 3;
        assert_epoch(sampler_of(3, rank, 7, 1, false, TDMI_SAMPLER_PAD), &first, 1);
    }
}

static void every_sample_is_evaluated_once_over_all_ranks(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 10, 21, 64};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int ranks = 1; ranks <= 5; ranks++)
            for (uint32_t batch = 1; batch <= 4; batch++) {
                int seen[64] = {0};
                uint64_t batches = 0, listed = 0;
                for (int rank = 0; rank < ranks; rank++) {
                    tdmi_sampler *sampler = sampler_of(sizes[k], rank, ranks, batch, false, TDMI_SAMPLER_EXACT);
                    listed += tdmi_sampler_count(sampler);
                    uint64_t mine = 0;
                    for (bool last = false; !last; mine++) {
                        uint32_t indices[4], rows;
                        tdmi_sampler_next(sampler, indices, &rows, &last);
                        for (uint32_t i = 0; i < rows; i++)
                            seen[indices[i]]++;
                    }
                    assert_int_equal(mine, tdmi_sampler_batches(sampler));
                    assert_true(rank == 0 || mine == batches); /* as many batches on every rank: nobody waits for ever */
                    batches = mine;
                    assert_int_equal(tdmi_sampler_tell(sampler).epoch, 1);
                    tdmi_sampler_destroy(sampler);
                }
                assert_int_equal(listed, sizes[k]);
                for (uint64_t i = 0; i < sizes[k]; i++)
                    assert_int_equal(seen[i], 1);
            }
}

static void a_batch_covers_the_same_samples_for_any_number_of_ranks(void **state)
{
    (void)state;
    uint32_t first[12], rows;
    bool last;
    tdmi_sampler *one = sampler_of(100, 0, 1, 12, true, TDMI_SAMPLER_DROP);
    for (int step = 0; step < 20; step++) { /* beyond an epoch of 8 batches */
        tdmi_sampler_next(one, first, &rows, &last);
        assert_int_equal(last, step % 8 == 7);
        for (int rank = 0; rank < 4; rank++) {
            tdmi_sampler *four = sampler_of(100, rank, 4, 3, true, TDMI_SAMPLER_DROP);
            tdmi_sampler_position here = {(uint64_t)step / 8, (uint64_t)step % 8 * 12};
            assert_int_equal(tdmi_sampler_seek(four, here), TDM_OK);
            uint32_t part[3];
            tdmi_sampler_next(four, part, &rows, &last);
            assert_int_equal(rows, 3);
            for (int i = 0; i < 3; i++)
                assert_int_equal(part[i], first[rank + 4 * i]);
            tdmi_sampler_destroy(four);
        }
    }
    tdmi_sampler_destroy(one);
}

static void a_saved_position_goes_on_where_it_stopped(void **state)
{
    (void)state;
    tdmi_sampler *whole = sampler_of(50, 1, 2, 4, true, TDMI_SAMPLER_DROP);
    for (int step = 0; step < 30; step++) {
        tdmi_sampler *resumed = sampler_of(50, 1, 2, 4, true, TDMI_SAMPLER_DROP);
        assert_int_equal(tdmi_sampler_seek(resumed, tdmi_sampler_tell(whole)), TDM_OK);
        uint32_t a[4], b[4], rows;
        bool last;
        tdmi_sampler_next(whole, a, &rows, &last);
        tdmi_sampler_next(resumed, b, &rows, &last);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(tdmi_sampler_tell(whole).epoch, tdmi_sampler_tell(resumed).epoch);
        assert_int_equal(tdmi_sampler_tell(whole).next, tdmi_sampler_tell(resumed).next);
        tdmi_sampler_destroy(resumed);
    }
    tdmi_sampler_destroy(whole);
}

static void epochs_have_different_orders(void **state)
{
    (void)state;
    tdmi_sampler *sampler = sampler_of(64, 0, 1, 64, true, TDMI_SAMPLER_DROP);
    uint32_t a[64], b[64], rows;
    bool last;
    tdmi_sampler_next(sampler, a, &rows, &last);
    tdmi_sampler_next(sampler, b, &rows, &last);
    assert_memory_not_equal(a, b, sizeof a);
    tdmi_sampler_destroy(sampler);
}

static void too_few_samples_and_strange_positions_are_errors(void **state)
{
    (void)state;
    tdmi_sampler *sampler = NULL;
    tdmi_sampler_options options = {7, 0, 2, 4, true, 0, TDMI_SAMPLER_DROP};
    assert_int_equal(tdmi_sampler_create(&options, &sampler), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "7 samples are fewer than one batch (2 ranks of 4 samples: 8)"));
    options.samples = 0;
    options.end = TDMI_SAMPLER_EXACT;
    assert_int_equal(tdmi_sampler_create(&options, &sampler), TDM_ERR_BAD_FILE);
    options.samples = (uint64_t)1 << 40;
    assert_int_equal(tdmi_sampler_create(&options, &sampler), TDM_ERR_INVALID);
    options.samples = 8;
    options.rank = 2;
    assert_int_equal(tdmi_sampler_create(&options, &sampler), TDM_ERR_INVALID);
    assert_null(sampler);
    sampler = sampler_of(8, 0, 2, 4, true, TDMI_SAMPLER_DROP);
    assert_int_equal(tdmi_sampler_seek(sampler, (tdmi_sampler_position){0, 9}), TDM_ERR_BAD_FILE);
    tdmi_sampler_destroy(sampler);
    tdmi_sampler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffled_epochs_are_torchs),
        cmocka_unit_test(training_pads_with_the_head_or_drops_the_rest),
        cmocka_unit_test(every_sample_is_evaluated_once_over_all_ranks),
        cmocka_unit_test(a_batch_covers_the_same_samples_for_any_number_of_ranks),
        cmocka_unit_test(a_saved_position_goes_on_where_it_stopped),
        cmocka_unit_test(epochs_have_different_orders),
        cmocka_unit_test(too_few_samples_and_strange_positions_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
