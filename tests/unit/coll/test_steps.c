/* test_steps.c - building lists: what is kept out and what is counted. */
#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static tdmi_range out(size_t first, size_t count)
{
    return tdmi_range_of(TDMI_BUFFER_OUT, first, count);
}

static void an_exchange_of_nothing_is_no_step(void **state)
{
    (void)state;
    tdmi_steps s = {0};
    tdmi_steps_exchange(&s, 1, out(0, 0), 2, out(3, 0));
    assert_int_equal(s.count, 0);
    tdmi_steps_exchange(&s, 1, out(0, 5), 2, out(3, 0));
    assert_int_equal(s.count, 1);
    assert_int_equal(s.step[0].to, 1);
    assert_int_equal(s.step[0].from, -1); /* a side that moves nothing has no peer */
    tdmi_steps_exchange_reduce(&s, 1, out(0, 0), 2, out(3, 7), true);
    assert_int_equal(s.step[1].to, -1);
    assert_true(s.step[1].received_first);
    tdmi_steps_free(&s);
}

static void traffic_counts_what_is_sent(void **state)
{
    (void)state;
    tdmi_steps s = {0};
    tdmi_steps_copy(&s, out(0, 100), out(0, 100));
    tdmi_steps_exchange(&s, 1, out(0, 5), 2, out(5, 6));
    tdmi_steps_exchange_reduce(&s, -1, out(0, 0), 2, out(5, 6), false);
    tdmi_steps_exchange_reduce(&s, 3, out(0, 7), -1, out(0, 0), false);
    tdmi_traffic t = tdmi_steps_traffic(&s);
    assert_int_equal(t.messages, 2);
    assert_int_equal(t.elements_sent, 12);
    tdmi_steps_clear(&s);
    assert_int_equal(s.count, 0);
    assert_true(s.capacity > 0);
    tdmi_steps_free(&s);
}

static void chunks_cover_the_whole_and_differ_by_one_at_most(void **state)
{
    (void)state;
    for (int n = 1; n <= 33; n++)
        for (size_t count = 0; count < 100; count++) {
            assert_int_equal(tdmi_chunk_first(count, n, 0), 0);
            assert_int_equal(tdmi_chunk_first(count, n, n), count);
            for (int i = 0; i < n; i++) {
                size_t length = tdmi_chunk(TDMI_BUFFER_IN, count, n, i).count;
                assert_true(length == count / (size_t)n || length == count / (size_t)n + 1);
            }
        }
}

static void sums_are_kept_in_a_type_that_is_wide_enough(void **state)
{
    (void)state;
    assert_int_equal(tdmi_accumulate_dtype(TDM_BF16, TDM_MAX), TDM_F32);
    assert_int_equal(tdmi_accumulate_dtype(TDM_F16, TDM_SUM), TDM_F32);
    assert_int_equal(tdmi_accumulate_dtype(TDM_I8, TDM_AVG), TDM_I64);
    assert_int_equal(tdmi_accumulate_dtype(TDM_I8, TDM_SUM), TDM_I8);
    assert_int_equal(tdmi_accumulate_dtype(TDM_F64, TDM_AVG), TDM_F64);
    assert_string_equal(tdmi_coll_name(TDMI_COLL_REDUCE_SCATTER), "reduce_scatter");
    assert_string_equal(tdmi_coll_name((tdmi_coll)77), "unknown");
}

/* Elements of the caller's buffers, and of scratch. */
static size_t limit_of(const tdmi_steps *s, const tdmi_call *call, tdmi_buffer buffer, int n)
{
    switch (buffer) {
    case TDMI_BUFFER_IN: return call->count * (size_t)(tdmi_call_in_count(call, call->root, n) > call->count ? n : 1);
    case TDMI_BUFFER_OUT: return call->count * (size_t)(tdmi_call_out_count(call, call->root, n) > call->count ? n : 1);
    case TDMI_BUFFER_ACC: return s->acc_count;
    default: return s->stage_count;
    }
}

/* Counts beyond 32 bits stay whole: every range lies in its buffer, and what is sent is what the cost says. */
static void counts_beyond_32_bits_are_cut_right(void **state)
{
    (void)state;
    static const int ns[] = {2, 3};
    tdmi_steps s = {0};
    for (size_t a = 0; a < tdmi_algorithm_count; a++)
        for (int coll = 0; coll < TDMI_COLL_BARRIER; coll++)
            for (size_t i = 0; i < 2 && tdmi_algorithms[a]->supports((tdmi_coll)coll, false) && tdmi_algorithms[a]->max_bytes == 0; i++) {
                const tdmi_call call = {.coll = (tdmi_coll)coll, .dtype = TDM_U8, .op = TDM_SUM,
                                        .root = coll == TDMI_COLL_BROADCAST || coll >= TDMI_COLL_REDUCE ? 1 : -1, .count = ((size_t)1 << 32) + 17};
                for (int rank = 0; rank < ns[i]; rank += ns[i] - 1) {
                    tdmi_steps_clear(&s);
                    const tdmi_topology topology = {.rank = rank, .n = ns[i]};
                    tdmi_algorithms[a]->steps(&s, &call, &topology);
                    assert_int_equal(s.status, TDM_OK);
                    size_t limits[TDMI_BUFFER_SLOT + 1], outside = 0;
                    for (int b = TDMI_BUFFER_IN; b <= TDMI_BUFFER_SLOT; b++)
                        limits[b] = limit_of(&s, &call, (tdmi_buffer)b, ns[i]);
                    for (const tdmi_step *step = s.step; step < s.step + s.count; step++)
                        outside += step->src.first + step->src.count > limits[step->src.buffer] ||
                                   step->dst.first + step->dst.count > limits[step->dst.buffer];
                    assert_int_equal(outside, 0);
                    assert_true(tdmi_steps_traffic(&s).elements_sent == tdmi_algorithms[a]->cost(&call, &topology).elements_sent);
                }
            }
    tdmi_steps_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_of_nothing_is_no_step),
        cmocka_unit_test(traffic_counts_what_is_sent),
        cmocka_unit_test(chunks_cover_the_whole_and_differ_by_one_at_most),
        cmocka_unit_test(counts_beyond_32_bits_are_cut_right),
        cmocka_unit_test(sums_are_kept_in_a_type_that_is_wide_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
