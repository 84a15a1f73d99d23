/* test_intervals.c - sets of spans. */
#include "job/intervals.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static tdmi_spans of(size_t count, const tdmi_span *span)
{
    tdmi_spans spans = {0};
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tdmi_spans_add(&spans, span[i].start_ns, span[i].end_ns), TDM_OK);
    tdmi_spans_merge(&spans);
    return spans;
}

static void spans_that_touch_or_overlap_become_one(void **state)
{
    (void)state;
    tdmi_spans s = of(5, (tdmi_span[]){{30, 40}, {0, 10}, {10, 12}, {5, 7}, {50, 50}});
    assert_int_equal(s.count, 2);
    assert_int_equal(s.of[0].end_ns, 12);
    assert_int_equal(tdmi_spans_total(&s), 22);
    tdmi_spans_free(&s);
}

static void what_two_sets_share_and_do_not_share(void **state)
{
    (void)state;
    tdmi_spans a = of(2, (tdmi_span[]){{0, 10}, {20, 30}}), b = of(3, (tdmi_span[]){{-5, 2}, {4, 6}, {8, 25}}), out = {0};
    assert_int_equal(tdmi_spans_common(&a, &b), 2 + 2 + 2 + 5);
    assert_int_equal(tdmi_spans_subtract(&a, &b, &out), TDM_OK);
    assert_int_equal(tdmi_spans_total(&out), 20 - 11);
    assert_int_equal(out.count, 3);
    assert_int_equal(tdmi_spans_intersect(&a, &b, &out), TDM_OK);
    assert_int_equal(tdmi_spans_total(&out), 11);
    assert_int_equal(tdmi_spans_within(&a, 5, 25), 10);
    assert_int_equal(tdmi_spans_clip(&a, 5, 25, &out), TDM_OK);
    assert_int_equal(out.of[1].start_ns, 20);
    assert_int_equal(out.of[1].end_ns, 25);
    tdmi_spans_free(&a);
    tdmi_spans_free(&b);
    tdmi_spans_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_that_touch_or_overlap_become_one),
        cmocka_unit_test(what_two_sets_share_and_do_not_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
