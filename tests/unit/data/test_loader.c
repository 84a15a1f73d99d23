/* test_loader.c - batches in order, read ahead, resumed, and their errors. */
#include "core/memory.h"
#include "data/loader.h"
#include "files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SEQ = 5 };
static tdmi_tokens *tokens; /* 1001 bytes counting up: training 801 tokens (160 windows of 5), validation 200 (39) */
static tdmi_windows train, val;

static int open_data(void **state)
{
    if (files_begin(state) != 0)
        return 1;
    uint8_t bytes[1001];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    return tdmi_tokens_open(files_write("data.txt", bytes, sizeof bytes), TDMI_TOKENS_AUTO, 0, &tokens) != TDM_OK ||
           tdmi_tokens_split(tokens, 0.2, SEQ, &train, &val) != TDM_OK;
}

static int close_data(void **state)
{
    tdmi_tokens_close(tokens);
    return files_end(state);
}

static tdmi_loader_options training(int rank, int ranks, uint32_t batch)
{
    return (tdmi_loader_options){.windows = train, .rank = rank, .ranks = ranks, .batch = batch, .shuffle = true, .seed = 42,
                                 .end = TDMI_SAMPLER_DROP, .timeout_s = 30};
}

static tdmi_loader *started(tdmi_loader_options options)
{
    tdmi_loader *loader;
    assert_int_equal(tdmi_loader_create(&options, &loader), TDM_OK);
    return loader;
}

static void assert_row(const tdmi_batch *batch, uint32_t row, const tdmi_windows *windows, uint64_t index)
{
    int32_t window[SEQ + 1];
    assert_int_equal(tdmi_windows_read(windows, index, window), TDM_OK);
    assert_memory_equal(batch->inputs + row * SEQ, window, SEQ * sizeof *window);
    assert_memory_equal(batch->targets + row * SEQ, window + 1, SEQ * sizeof *window);
}

static void batches_follow_the_sampler_over_epochs(void **state)
{
    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        tdmi_sampler_options same = {train.windows, rank, 3, 7, true, 42, TDMI_SAMPLER_DROP};
        tdmi_sampler *sampler;
        assert_int_equal(tdmi_sampler_create(&same, &sampler), TDM_OK);
        tdmi_loader *loader = started(training(rank, 3, 7));
        assert_int_equal(tdmi_loader_batches(loader), 7); /* 160 windows, 21 a batch: 13 are dropped */
        for (int step = 0; step < 20; step++) {
            uint32_t indices[7], rows;
            bool last;
            tdmi_batch batch;
            tdmi_sampler_next(sampler, indices, &rows, &last);
            assert_int_equal(tdmi_loader_next(loader, &batch), TDM_OK);
            assert_int_equal(batch.rows, 7);
            assert_int_equal(batch.last, last);
            assert_int_equal(tdmi_loader_left(loader), 6 - (step % 7) == 0 ? 7 : 6 - (step % 7)); /* whatever was read ahead */
            assert_int_equal(batch.epoch, step / 7);
            for (uint32_t row = 0; row < 7; row++)
                assert_row(&batch, row, &train, indices[row]);
        }
        tdmi_loader_destroy(loader);
        tdmi_sampler_destroy(sampler);
    }
}

static void a_run_resumed_at_any_step_sees_the_same_batches(void **state)
{
    (void)state;
    tdmi_loader *whole = started(training(1, 2, 16));
    for (int step = 0; step < 12; step++) { /* an epoch has 5 batches */
        tdmi_loader_options options = training(1, 2, 16);
        options.start = tdmi_loader_position(whole);
        tdmi_loader *resumed = started(options);
        tdmi_batch a, b;
        assert_int_equal(tdmi_loader_next(whole, &a), TDM_OK);
        assert_int_equal(tdmi_loader_next(resumed, &b), TDM_OK);
        assert_memory_equal(a.inputs, b.inputs, 16 * SEQ * sizeof *a.inputs);
        assert_memory_equal(a.targets, b.targets, 16 * SEQ * sizeof *a.targets);
        assert_int_equal(a.epoch, b.epoch);
        tdmi_loader_destroy(resumed);
    }
    tdmi_loader_destroy(whole);
}

static void evaluation_counts_every_window_once(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        for (uint64_t limit = 0; limit <= 21; limit += 21) {
            const uint64_t windows = limit != 0 ? limit : val.windows;
            uint64_t seen = 0;
            for (int rank = 0; rank < ranks; rank++) {
                tdmi_loader_options options = {.windows = val, .limit = limit, .rank = rank, .ranks = ranks, .batch = 8,
                                               .end = TDMI_SAMPLER_EXACT, .timeout_s = 30};
                tdmi_loader *loader = started(options);
                for (int pass = 0; pass < 2; pass++) { /* the second evaluation sees the same */
                    tdmi_batch batch = {.last = false};
                    for (uint64_t k = 0; !batch.last; k++) {
                        assert_int_equal(tdmi_loader_next(loader, &batch), TDM_OK);
                        for (uint32_t row = 0; row < batch.rows; row++)
                            assert_row(&batch, row, &val, (k * 8 + row) * (uint64_t)ranks + (uint64_t)rank);
                        for (uint32_t i = batch.rows * SEQ; i < 8 * SEQ; i++)
                            assert_true(batch.inputs[i] == 0 && batch.targets[i] == 0);
                        seen += batch.rows;
                    }
                }
                tdmi_loader_destroy(loader);
            }
            assert_int_equal(seen, 2 * windows);
        }
}

static void batches_allocate_nothing_and_are_ready_in_time(void **state)
{
    (void)state;
    tdmi_loader *loader = started(training(0, 1, 16));
    tdmi_batch batch;
    assert_int_equal(tdmi_loader_next(loader, &batch), TDM_OK);
    const uint64_t before = tdmi_memory_allocations();
    int64_t shortest = INT64_MAX;
    for (int step = 0; step < 50; step++) {
        usleep(1000); /* a step's work */
        assert_int_equal(tdmi_loader_next(loader, &batch), TDM_OK);
        if (batch.wait_ns < shortest)
            shortest = batch.wait_ns;
    }
    assert_int_equal(tdmi_memory_allocations(), before);
    assert_true(shortest < 500000); /* reading itself would take longer than taking a batch that waits */
    tdmi_loader_destroy(loader);
}

static void too_little_data_is_refused_with_the_numbers(void **state)
{
    (void)state;
    tdmi_loader *loader = NULL;
    tdmi_loader_options options = training(0, 2, 81);
    assert_int_equal(tdmi_loader_create(&options, &loader), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "data.txt: its 801 tokens for training make 160 windows of 5 tokens; 160 samples "
                                             "are fewer than one batch (2 ranks of 81 samples: 162)"));
    options = training(0, 1, 1);
    options.windows.windows = 0;
    options.windows.count = 3;
    options.end = TDMI_SAMPLER_EXACT;
    assert_int_equal(tdmi_loader_create(&options, &loader), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "its 3 tokens for validation make 0 windows"));
    options = training(0, 2, 8);
    options.start.next = 161;
    assert_int_equal(tdmi_loader_create(&options, &loader), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "position 161 lies beyond an epoch of 160"));
    options = training(3, 2, 8);
    assert_int_equal(tdmi_loader_create(&options, &loader), TDM_ERR_INVALID);
    assert_null(loader);
    tdmi_loader_destroy(NULL);
}

static void an_error_of_reading_reaches_the_caller_and_stays(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'a', sizeof text);
    tdmi_tokens *shrinking;
    const char *path = files_write("shrinking.txt", text, sizeof text);
    assert_int_equal(tdmi_tokens_open(path, TDMI_TOKENS_AUTO, 0, &shrinking), TDM_OK);
    tdmi_loader_options options = training(0, 1, 10);
    tdmi_windows none;
    assert_int_equal(tdmi_tokens_split(shrinking, 0, SEQ, &options.windows, &none), TDM_OK);
    tdmi_loader *loader = started(options);
    tdmi_batch batch;
    assert_int_equal(tdmi_loader_next(loader, &batch), TDM_OK);
    assert_int_equal(truncate(path, 0), 0);
    tdm_status st = TDM_OK;
    for (int i = 0; i < 10 && st == TDM_OK; i++) /* those already read still come */
        st = tdmi_loader_next(loader, &batch);
    assert_int_equal(st, TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "shrinking.txt ends at byte"));
    assert_int_equal(tdmi_loader_next(loader, &batch), TDM_ERR_BAD_FILE);
    tdmi_loader_destroy(loader);
    tdmi_tokens_close(shrinking);
}

static void waiting_too_long_names_rank_file_and_window(void **state)
{
    (void)state;
    tdmi_loader_options options = training(1, 2, 80);
    options.timeout_s = 1e-9;
    tdmi_loader *loader = started(options);
    tdmi_batch batch;
    tdm_status st = TDM_OK;
    for (int i = 0; i < 100000 && st == TDM_OK; i++) /* taking is faster than reading: the ring runs empty */
        st = tdmi_loader_next(loader, &batch);
    assert_int_equal(st, TDM_ERR_TIMEOUT);
    assert_non_null(strstr(tdm_error_text(), "rank 1 has waited"));
    assert_non_null(strstr(tdm_error_text(), "data.txt"));
    while (tdmi_loader_next(loader, &batch) != TDM_OK) /* the batch is late, not lost */
        usleep(1000);
    assert_int_equal(batch.rows, 80);
    tdmi_loader_destroy(loader);
}

static void a_loader_ends_at_once_in_any_state(void **state)
{
    (void)state;
    for (int taken = 0; taken < 4; taken++)
        for (int i = 0; i < 20; i++) {
            tdmi_loader *loader = started(training(0, 1, 4));
            tdmi_batch batch;
            for (int k = 0; k < taken; k++)
                assert_int_equal(tdmi_loader_next(loader, &batch), TDM_OK);
            tdmi_loader_destroy(loader);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_follow_the_sampler_over_epochs),
        cmocka_unit_test(a_run_resumed_at_any_step_sees_the_same_batches),
        cmocka_unit_test(evaluation_counts_every_window_once),
        cmocka_unit_test(batches_allocate_nothing_and_are_ready_in_time),
        cmocka_unit_test(too_little_data_is_refused_with_the_numbers),
        cmocka_unit_test(an_error_of_reading_reaches_the_caller_and_stays),
        cmocka_unit_test(waiting_too_long_names_rank_file_and_window),
        cmocka_unit_test(a_loader_ends_at_once_in_any_state),
    };
    return cmocka_run_group_tests(tests, open_data, close_data) != 0;
}
