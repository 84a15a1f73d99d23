/* test_plan.c - the rule that cuts gradients into buckets. */
#include "ddp/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void a_bucket_closes_once_it_holds_its_cap(void **state)
{
    (void)state;
    const size_t nbytes[] = {4, 4, 10, 30, 5, 5, 5};
    const int expected[] = {0, 0, 1, 1, 2, 2, 2};
    int bucket_of[7];
    assert_int_equal(tdmi_plan_buckets(nbytes, 7, 8, 20, bucket_of), 3);
    assert_memory_equal(bucket_of, expected, sizeof expected);
}

static void a_parameter_larger_than_the_cap_is_not_split(void **state)
{
    (void)state;
    const size_t nbytes[] = {1, 500, 1};
    const int expected[] = {0, 0, 1};
    int bucket_of[3];
    assert_int_equal(tdmi_plan_buckets(nbytes, 3, 8, 20, bucket_of), 2);
    assert_memory_equal(bucket_of, expected, sizeof expected);
}

static void an_empty_parameter_opens_no_bucket(void **state)
{
    (void)state;
    const size_t nbytes[] = {0, 8, 0, 0, 20, 0};
    const int expected[] = {0, 0, 0, 0, 1, 1};
    int bucket_of[6];
    assert_int_equal(tdmi_plan_buckets(nbytes, 6, 8, 20, bucket_of), 2);
    assert_memory_equal(bucket_of, expected, sizeof expected);
    assert_int_equal(tdmi_plan_buckets(nbytes, 1, 0, 0, bucket_of), 1);
    assert_int_equal(tdmi_plan_buckets(nbytes, 0, 8, 20, bucket_of), 0);
}

/* Sizes cover every parameter once, buckets are contiguous, and each but the last has reached its cap with its last
 * parameter and not before: for many random models. */
static void every_plan_obeys_the_rule(void **state)
{
    (void)state;
    srandom(24);
    for (int round = 0; round < 500; round++) {
        size_t nbytes[40];
        int bucket_of[40], count = 1 + (int)(random() % 40);
        size_t first_cap = 1 + (size_t)random() % 100, cap = 1 + (size_t)random() % 400;
        for (int i = 0; i < count; i++)
            nbytes[i] = 1 + (size_t)random() % 150;
        int buckets = tdmi_plan_buckets(nbytes, count, first_cap, cap, bucket_of);
        int i = 0;
        for (int b = 0; b < buckets; b++) {
            size_t held = 0, before_last = 0, limit = b == 0 ? first_cap : cap;
            assert_int_equal(bucket_of[i], b);
            for (; i < count && bucket_of[i] == b; i++) {
                before_last = held;
                held += nbytes[i];
            }
            assert_true(before_last < limit);
            assert_true(held >= limit || b == buckets - 1);
        }
        assert_int_equal(i, count);
    }
}

static void a_cap_given_alone_holds_for_the_first_bucket_too(void **state)
{
    (void)state;
    size_t cap, first;
    tdmi_plan_caps(0, 0, &cap, &first);
    assert_int_equal(cap, 25u << 20);
    assert_int_equal(first, 1u << 20);
    tdmi_plan_caps(100, 0, &cap, &first);
    assert_int_equal(cap, 100u << 20);
    assert_int_equal(first, 100u << 20);
    tdmi_plan_caps(4, 0.5, &cap, &first);
    assert_int_equal(cap, 4u << 20);
    assert_int_equal(first, 1u << 19);
    tdmi_plan_caps(0, 2, &cap, &first);
    assert_int_equal(cap, 25u << 20);
    assert_int_equal(first, 2u << 20);
    tdmi_plan_caps(1e30, 0, &cap, &first);
    assert_true(cap >= SIZE_MAX / 2);
}

static void padding_gives_each_rank_whole_cache_lines(void **state)
{
    (void)state;
    for (int world = 1; world <= 9; world++)
        for (size_t elem_size = 2; elem_size <= 8; elem_size *= 2)
            for (size_t used = 0; used < 300; used++) {
                size_t padded = tdmi_plan_padded(used, elem_size, world), slice = padded / (size_t)world;
                assert_true(padded >= used && padded % (size_t)world == 0);
                assert_int_equal(slice * elem_size % 64, 0);
                assert_true(padded - used < (size_t)world * (64 / elem_size + 1));
            }
    assert_int_equal(tdmi_plan_padded(0, 4, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_closes_once_it_holds_its_cap),
        cmocka_unit_test(a_parameter_larger_than_the_cap_is_not_split),
        cmocka_unit_test(an_empty_parameter_opens_no_bucket),
        cmocka_unit_test(every_plan_obeys_the_rule),
        cmocka_unit_test(a_cap_given_alone_holds_for_the_first_bucket_too),
        cmocka_unit_test(padding_gives_each_rank_whole_cache_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
