/* test_plan.c - the rule that cuts gradients into buckets. */
#include "ddp/plan.h"

#include <math.h>
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
    assert_int_equal(tdmi_plan_buckets(nbytes, 7, (const size_t[]){8, 20}, 2, bucket_of), 3);
    assert_memory_equal(bucket_of, expected, sizeof expected);
}

static void an_item_larger_than_the_cap_is_not_split(void **state)
{
    (void)state;
    const size_t nbytes[] = {1, 500, 1};
    const int expected[] = {0, 0, 1};
    int bucket_of[3];
    assert_int_equal(tdmi_plan_buckets(nbytes, 3, (const size_t[]){8, 20}, 2, bucket_of), 2);
    assert_memory_equal(bucket_of, expected, sizeof expected);
}

static void an_empty_parameter_opens_no_bucket(void **state)
{
    (void)state;
    const size_t nbytes[] = {0, 8, 0, 0, 20, 0};
    const int expected[] = {0, 0, 0, 0, 1, 1};
    int bucket_of[6];
    assert_int_equal(tdmi_plan_buckets(nbytes, 6, (const size_t[]){8, 20}, 2, bucket_of), 2);
    assert_memory_equal(bucket_of, expected, sizeof expected);
    assert_int_equal(tdmi_plan_buckets(nbytes, 1, (const size_t[]){0}, 1, bucket_of), 1);
    assert_int_equal(tdmi_plan_buckets(nbytes, 0, (const size_t[]){8, 20}, 2, bucket_of), 0);
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
        int buckets = tdmi_plan_buckets(nbytes, count, (const size_t[]){first_cap, cap}, 2, bucket_of);
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

/* What every cut of the items costs, by trying all of them. */
static double fastest_by_force(const double *ready_s, const size_t *nbytes, int count, double alpha_s, double beta_s)
{
    double best = INFINITY;
    for (unsigned cut = 0; cut < 1u << (count - 1); cut++) {
        double now_s = 0, held = 0;
        for (int i = 0; i < count; i++) {
            held += (double)nbytes[i];
            if (i < count - 1 && (cut >> i & 1u) == 0)
                continue;
            now_s = fmax(now_s, ready_s[i]) + alpha_s + held * beta_s;
            held = 0;
        }
        best = fmin(best, now_s);
    }
    return best;
}

static void the_fastest_plan_is_as_fast_as_the_best_of_all_cuts(void **state)
{
    (void)state;
    srandom(2);
    for (int round = 0; round < 300; round++) {
        const int count = 1 + (int)(random() % 11);
        double ready_s[11], now_s = 0, finish_s, again_s = 0;
        size_t nbytes[11];
        int bucket_of[11], buckets;
        const double alpha_s = (double)(random() % 200) / 100, beta_s = (double)(random() % 100) / 5000;
        for (int i = 0; i < count; i++) {
            ready_s[i] = now_s += (double)(random() % 100) / 100;
            nbytes[i] = (size_t)random() % (random() % 2 ? 400 : 5);
        }
        assert_int_equal(tdmi_plan_fastest(ready_s, nbytes, count, alpha_s, beta_s, (size_t)random() % 500, bucket_of, &buckets, &finish_s), TDM_OK);
        assert_true(fabs(finish_s - fastest_by_force(ready_s, nbytes, count, alpha_s, beta_s)) < 1e-9);
        for (int i = 0; i < count;) { /* and the buckets are those */
            const int b = bucket_of[i];
            double held = 0, ready = 0;
            for (; i < count && bucket_of[i] == b; i++) {
                held += (double)nbytes[i];
                ready = ready_s[i];
            }
            again_s = fmax(again_s, ready) + alpha_s + held * beta_s;
        }
        assert_int_equal(bucket_of[count - 1], buckets - 1);
        assert_true(fabs(again_s - finish_s) < 1e-9);
    }
    int none = -1;
    double finish_s = -1;
    assert_int_equal(tdmi_plan_fastest(NULL, NULL, 0, 1, 1, 0, NULL, &none, &finish_s), TDM_OK);
    assert_true(none == 0 && finish_s == 0);
}

/* Nothing waits: the last item alone decides, so the others may share buckets. */
static void of_equally_fast_plans_one_with_few_buckets_is_taken(void **state)
{
    (void)state;
    const double ready_s[] = {10, 20, 30, 40, 50};
    const size_t nbytes[] = {1, 1, 1, 1, 1};
    int bucket_of[5], buckets;
    double finish_s;
    assert_int_equal(tdmi_plan_fastest(ready_s, nbytes, 5, 0.5, 0.5, 100, bucket_of, &buckets, &finish_s), TDM_OK);
    assert_int_equal(buckets, 2);
    assert_true(finish_s == 51);
    assert_int_equal(tdmi_plan_fastest(ready_s, nbytes, 5, 0.5, 0.5, 2, bucket_of, &buckets, &finish_s), TDM_OK);
    assert_int_equal(buckets, 3);
}

static void each_bucket_may_have_a_cap_of_its_own(void **state)
{
    (void)state;
    const size_t nbytes[] = {4, 4, 4, 4, 4, 4, 4, 4};
    const int expected[] = {0, 1, 1, 1, 2, 2, 3, 3};
    int bucket_of[8];
    assert_int_equal(tdmi_plan_buckets(nbytes, 8, (const size_t[]){1, 12, 8}, 3, bucket_of), 4);
    assert_memory_equal(bucket_of, expected, sizeof expected);
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
        cmocka_unit_test(an_item_larger_than_the_cap_is_not_split),
        cmocka_unit_test(an_empty_parameter_opens_no_bucket),
        cmocka_unit_test(every_plan_obeys_the_rule),
        cmocka_unit_test(the_fastest_plan_is_as_fast_as_the_best_of_all_cuts),
        cmocka_unit_test(of_equally_fast_plans_one_with_few_buckets_is_taken),
        cmocka_unit_test(each_bucket_may_have_a_cap_of_its_own),
        cmocka_unit_test(a_cap_given_alone_holds_for_the_first_bucket_too),
        cmocka_unit_test(padding_gives_each_rank_whole_cache_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
