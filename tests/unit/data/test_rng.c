/* test_rng.c - every value PyTorch would draw, compared bit for bit (golden_rng.h, made by golden_rng.py). */
#include "core/dtype.h"
#include "core/memory.h"
#include "data/rng.h"
#include "data/rng_transform.h"
#include "golden_rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static tdmi_rng seeded(uint64_t seed, tdmi_rng_variant variant)
{
    tdmi_rng rng;
    assert_int_equal(tdmi_rng_init(&rng, seed), TDM_OK);
    rng.variant = variant;
    return rng;
}

static uint64_t hashed(const void *data, size_t count)
{
    const uint32_t *bits = data;
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++)
        hash = hash * 1000003u + bits[i];
    return hash;
}

static void mt19937_gives_the_known_words(void **state)
{
    (void)state;
    tdmi_rng rng = seeded(42, TDMI_RNG_AVX2);
    static const uint32_t known[] = {1608637542, 3421126067, 4083286876, 787846414};
    for (size_t i = 0; i < COUNT(known); i++)
        assert_int_equal(tdmi_rng_u32(&rng), known[i]);
    rng = seeded(0, TDMI_RNG_AVX2);
    assert_true((tdmi_rng_u64(&rng) & INT64_MAX) == 900450186894289455u); /* the first draw is the high word */
    rng = seeded(5489, TDMI_RNG_AVX2);
    tdmi_rng_skip(&rng, 9999);
    assert_int_equal(tdmi_rng_u32(&rng), 4123659995u); /* the 10,000th word, as the C++ standard prescribes it */
}

static void filling_and_skipping_move_like_single_draws(void **state)
{
    (void)state;
    static const size_t steps[] = {0, 1, 3, 623, 624, 625, 1248, 100, 2000};
    static uint32_t filled[2000];
    tdmi_rng one = seeded(3, TDMI_RNG_AVX2), many = one, skipping = one;
    for (size_t i = 0; i < COUNT(steps); i++) {
        tdmi_rng_fill(&many, filled, steps[i]);
        tdmi_rng_skip(&skipping, steps[i]);
        for (size_t k = 0; k < steps[i]; k++)
            assert_int_equal(tdmi_rng_u32(&one), filled[k]);
    }
    assert_int_equal(tdmi_rng_u32(&many), tdmi_rng_u32(&skipping));
}

static void permutations_are_torchs(void **state)
{
    (void)state;
    static uint32_t order[100003];
    static const struct {
        uint64_t seed;
        const uint32_t *golden;
        uint32_t count;
    } cases[] = {{0, perm10_0, 10}, {42, perm10_42, 10}, {((uint64_t)1 << 32) + 42, perm10_wrapped, 10},
                 {1, perm16_1, 16}, {(uint64_t)-5, perm6_negative, 6}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdmi_rng rng = seeded(cases[i].seed, TDMI_RNG_AVX2);
        tdmi_rng_permutation(&rng, order, cases[i].count);
        assert_memory_equal(order, cases[i].golden, cases[i].count * sizeof *order);
    }
    tdmi_rng rng = seeded(7, TDMI_RNG_AVX2);
    tdmi_rng_permutation(&rng, order, 1000);
    assert_true(hashed(order, 1000) == perm1000_hash);
    rng = seeded(3, TDMI_RNG_AVX2);
    tdmi_rng_permutation(&rng, order, 100003);
    assert_true(hashed(order, 100003) == perm100003_hash);
}

static void integers_are_torchs(void **state)
{
    (void)state;
    int64_t values[8];
    tdmi_rng rng = seeded(0, TDMI_RNG_AVX2);
    tdmi_rng_integers(&rng, values, 8, 0, 100);
    assert_memory_equal(values, randint8, sizeof randint8);
    rng = seeded(3, TDMI_RNG_AVX2);
    tdmi_rng_integers(&rng, values, 6, -5, (int64_t)1 << 40);
    assert_memory_equal(values, randint_wide, sizeof randint_wide);
}

static void check_variant(tdmi_rng_variant variant)
{
    const bool avx2 = variant == TDMI_RNG_AVX2;
    enum { NORMALS = 1000003, UNIFORMS = 300001 };
    float *values = tdmi_malloc(NORMALS * sizeof *values, "test");
    tdmi_rng rng = seeded(0, variant);
    tdmi_rng_uniform(&rng, values, 4, 0, 1);
    assert_memory_equal(values, rand4, sizeof rand4);
    rng = seeded(0, variant);
    tdmi_rng_uniform(&rng, values, 4, -0.3, 0.3);
    assert_memory_equal(values, avx2 ? uniform4_avx2 : uniform4_default, sizeof uniform4_avx2);
    rng = seeded(7, variant);
    tdmi_rng_uniform(&rng, values, UNIFORMS, -0.05, 0.05);
    assert_true(hashed(values, UNIFORMS) == (avx2 ? uniform_hash_avx2 : uniform_hash_default));
    rng = seeded(0, variant);
    tdmi_rng_normal(&rng, values, 5, 0, 1);
    assert_memory_equal(values, randn5, sizeof randn5);
    rng = seeded(0, variant);
    tdmi_rng_normal(&rng, values, 16, 0, 1);
    assert_memory_equal(values, avx2 ? randn16_avx2 : randn16_default, sizeof randn16_avx2);
    rng = seeded(0, variant);
    tdmi_rng_normal(&rng, values, 20, 0, 1);
    assert_memory_equal(values, avx2 ? randn20_avx2 : randn20_default, sizeof randn20_avx2);
    rng = seeded(1234, variant);
    tdmi_rng_normal(&rng, values, 18, 0, 0.02);
    assert_memory_equal(values, avx2 ? normal18_avx2 : normal18_default, sizeof normal18_avx2);
    rng = seeded(42, variant);
    tdmi_rng_normal(&rng, values, NORMALS, 0, 0.02);
    assert_true(hashed(values, NORMALS) == (avx2 ? normal_hash_avx2 : normal_hash_default));
    rng = seeded(0, variant);
    tdmi_rng_linear(&rng, values, values + 6, 2, 3, true);
    assert_memory_equal(values, avx2 ? linear_weight_avx2 : linear_weight_default, sizeof linear_weight_avx2);
    assert_memory_equal(values + 6, avx2 ? linear_bias_avx2 : linear_bias_default, sizeof linear_bias_avx2);
    rng = seeded(99, variant);
    tdmi_rng_linear(&rng, values, values + 77 * 300, 77, 300, true);
    assert_true(hashed(values, 77 * 301) == (avx2 ? linear_hash_avx2 : linear_hash_default));
    tdmi_rng_embedding(&rng, values, 1000, 65);
    assert_true(hashed(values, 1000 * 65) == (avx2 ? embedding_hash_avx2 : embedding_hash_default));
    tdmi_free(values);
}

static void the_avx2_variant_draws_torchs_bits(void **state)
{
    (void)state;
    check_variant(TDMI_RNG_AVX2);
}

static void the_default_variant_draws_torchs_bits(void **state)
{
    (void)state;
    check_variant(TDMI_RNG_DEFAULT);
}

static void the_plain_build_gives_the_bits_of_the_avx2_build(void **state)
{
    (void)state;
    enum { N = 16 * 4096 };
    uint32_t *draws = tdmi_malloc(N * sizeof *draws, "test");
    float *values = tdmi_malloc(N * sizeof *values, "test"), *again = tdmi_malloc(N * sizeof *again, "test");
    tdmi_rng rng = seeded(8, TDMI_RNG_AVX2), same = rng;
    tdmi_rng_fill(&rng, draws, N);
    rng = same;
    draws[0] = 0; /* 1 - u1 is 1: the logarithm of one */
    draws[1] = 0xffffff; /* the smallest argument of the logarithm */
    draws[8] = 0;
    draws[9] = 0xffffff;
    tdmi_rng_transform_plain.normal(draws, values, N / 16, 0.5f, 2.0f);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        tdmi_rng_transform_avx2.normal(draws, again, N / 16, 0.5f, 2.0f);
        assert_memory_equal(values, again, N * sizeof *values);
        tdmi_rng_transform_plain.uniform(draws, values, N - 3, -0.1f, 0.7f);
        tdmi_rng_transform_avx2.uniform(draws, again, N - 3, -0.1f, 0.7f);
        assert_memory_equal(values, again, (N - 3) * sizeof *values);
    }
#endif
    tdmi_free(draws);
    tdmi_free(values);
    tdmi_free(again);
}

static void small_normals_keep_their_second_value_across_calls(void **state)
{
    (void)state;
    float values[5];
    tdmi_rng rng = seeded(0, TDMI_RNG_AVX2);
    tdmi_rng_normal(&rng, values, 3, 0, 1);
    tdmi_rng_normal(&rng, values + 3, 2, 0, 1);
    assert_memory_equal(values, randn3_then_2, sizeof values);
    tdmi_rng_normal(&rng, NULL, 1, 0, 1); /* leaves one behind ... */
    tdmi_rng_seed(&rng, 0);               /* ... and a new seed forgets it */
    tdmi_rng_normal(&rng, values, 5, 0, 1);
    assert_memory_equal(values, randn5, sizeof values);
}

static void mixed_calls_on_one_generator_stay_in_step(void **state)
{
    (void)state;
    float values[45];
    uint32_t order[9];
    tdmi_rng rng = seeded(11, TDMI_RNG_AVX2);
    tdmi_rng_normal(&rng, values, 3, 0, 1);
    tdmi_rng_uniform(&rng, values + 3, 5, 0, 1);
    tdmi_rng_normal(&rng, values + 8, 33, 0, 1);
    tdmi_rng_normal(&rng, values + 41, 2, 0, 1);
    tdmi_rng_permutation(&rng, order, 9);
    tdmi_rng_normal(&rng, values + 43, 1, 1, 2);
    tdmi_rng_uniform(&rng, values + 44, 1, 0, 1);
    assert_true(hashed(values, 45) == mixed_hash_avx2);
}

static void values_that_nobody_keeps_cost_the_same_draws(void **state)
{
    (void)state;
    static float values[3000];
    tdmi_rng kept = seeded(17, TDMI_RNG_AVX2), skipped = kept;
    static const size_t counts[] = {0, 1, 7, 15, 16, 17, 640, 2999};
    for (size_t i = 0; i < COUNT(counts); i++) {
        tdmi_rng_normal(&kept, values, counts[i], 0, 1);
        tdmi_rng_normal(&skipped, NULL, counts[i], 0, 1);
        tdmi_rng_uniform(&kept, values, counts[i], 0, 1);
        tdmi_rng_uniform(&skipped, NULL, counts[i], 0, 1);
        tdmi_rng_linear(&kept, values, values + 30, 10, 3, true);
        tdmi_rng_linear(&skipped, NULL, NULL, 10, 3, true);
        tdmi_rng_embedding(&kept, values, 20, 7);
        tdmi_rng_embedding(&skipped, NULL, 20, 7);
        assert_int_equal(tdmi_rng_u32(&kept), tdmi_rng_u32(&skipped));
    }
}

static void assert_bits(const uint8_t *mask, const char *golden)
{
    for (size_t i = 0; golden[i] != '\0'; i++)
        assert_int_equal(mask[i], golden[i] - '0');
}

static void bernoulli_numbers_are_torchs(void **state)
{
    (void)state;
    enum { N = 100003 };
    static uint8_t mask[N];
    static uint32_t widened[N];
    tdmi_rng rng = seeded(0, TDMI_RNG_AVX2);
    tdmi_rng_bernoulli(&rng, mask, 48, 0.5);
    assert_bits(mask, bernoulli_half);
    rng = seeded(0, TDMI_RNG_AVX2);
    tdmi_rng_bernoulli(&rng, mask, 48, 0.1);
    assert_bits(mask, bernoulli_tenth);
    rng = seeded(5, TDMI_RNG_AVX2);
    tdmi_rng_bernoulli(&rng, mask, N, 0.9);
    for (size_t i = 0; i < N; i++)
        widened[i] = mask[i];
    assert_true(hashed(widened, N) == bernoulli_hash);
    tdmi_rng_bernoulli(&rng, mask, 100, 1.0);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(mask[i], 1);
    tdmi_rng_bernoulli(&rng, mask, 100, 0.0);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(mask[i], 0);
}

static void mkl_bernoulli_numbers_follow_mcg31m1(void **state)
{
    (void)state;
    setenv("TANDEM_DROPOUT_RNG", "mkl", 1);
    static uint8_t mask[1003];
    tdmi_rng rng = seeded(0, TDMI_RNG_AVX2), same = rng;
    tdmi_rng_bernoulli(&rng, mask, 16, 0.5);
    assert_bits(mask, "1001100111100111");
    rng = same; /* any length, against the recurrence itself */
    uint64_t x = tdmi_rng_u32(&rng) % 0x7fffffff;
    rng = same;
    tdmi_rng_bernoulli(&rng, mask, sizeof mask, 0.9);
    for (size_t i = 0; i < sizeof mask; i++) {
        assert_int_equal(mask[i], (double)x / 2147483647.0 < 0.9);
        x = x * 1132489760 % 0x7fffffff;
    }
    tdmi_rng_u32(&same); /* however long the mask is, one draw */
    assert_int_equal(tdmi_rng_u32(&rng), tdmi_rng_u32(&same));
    unsetenv("TANDEM_DROPOUT_RNG");
}

static void variables_choose_the_variant_and_wrong_ones_are_refused(void **state)
{
    (void)state;
    tdmi_rng rng;
    setenv("TANDEM_RNG", "default", 1);
    assert_int_equal(tdmi_rng_init(&rng, 1), TDM_OK);
    assert_string_equal(tdmi_rng_variant_name(rng.variant), "default");
    assert_string_equal(tdmi_rng_dropout_name(rng.dropout), "plain");
    setenv("TANDEM_RNG", "sse", 1);
    assert_int_equal(tdmi_rng_init(&rng, 1), TDM_ERR_INVALID);
    assert_string_equal(tdm_error_text(), "TANDEM_RNG=sse is not one of avx2, default");
    unsetenv("TANDEM_RNG");
    setenv("TANDEM_DROPOUT_RNG", "cuda", 1);
    assert_int_equal(tdmi_rng_init(&rng, 1), TDM_ERR_INVALID);
    assert_string_equal(tdm_error_text(), "TANDEM_DROPOUT_RNG=cuda is not one of auto, plain, mkl");
    unsetenv("TANDEM_DROPOUT_RNG");
}

static void a_saved_state_goes_on_with_the_same_numbers(void **state)
{
    (void)state;
    uint8_t bytes[TDMI_RNG_STATE_BYTES];
    float values[40], again[40];
    tdmi_rng rng = seeded(21, TDMI_RNG_DEFAULT);
    tdmi_rng_normal(&rng, values, 3, 0, 1);
    tdmi_rng_skip(&rng, 700);
    tdmi_rng_save(&rng, bytes);
    tdmi_rng_normal(&rng, values, 1, 0, 1);
    tdmi_rng_normal(&rng, values + 1, 39, 0, 1);
    tdmi_rng other = seeded(1, TDMI_RNG_AVX2);
    assert_int_equal(tdmi_rng_load(&other, bytes, sizeof bytes), TDM_OK);
    tdmi_rng_normal(&other, again, 1, 0, 1);
    tdmi_rng_normal(&other, again + 1, 39, 0, 1);
    assert_memory_equal(values, again, sizeof values);
}

static void a_damaged_state_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    uint8_t bytes[TDMI_RNG_STATE_BYTES];
    tdmi_rng rng = seeded(21, TDMI_RNG_AVX2), before = rng;
    tdmi_rng_save(&rng, bytes);
    assert_int_equal(tdmi_rng_load(&rng, bytes, sizeof bytes - 1), TDM_ERR_BAD_FILE);
    static const struct {
        size_t at;
        uint8_t value;
    } damage[] = {{0, 9}, {1, 2}, {2, 2}, {3, 2}, {5, 200}};
    for (size_t i = 0; i < COUNT(damage); i++) {
        uint8_t kept = bytes[damage[i].at];
        bytes[damage[i].at] = damage[i].value;
        assert_int_equal(tdmi_rng_load(&rng, bytes, sizeof bytes), TDM_ERR_BAD_FILE);
        bytes[damage[i].at] = kept;
    }
    assert_int_equal(tdmi_rng_u32(&rng), tdmi_rng_u32(&before));
}

static int compare_words(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void no_two_streams_of_a_job_share_a_seed(void **state)
{
    (void)state;
    enum { STREAMS = 100000 };
    uint32_t *seeds = tdmi_malloc(STREAMS * sizeof *seeds, "test");
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (uint32_t i = 0; i < STREAMS; i++)
            seeds[i] = tdmi_rng_stream_seed(seed, i);
        qsort(seeds, STREAMS, sizeof *seeds, compare_words);
        for (uint32_t i = 1; i < STREAMS; i++)
            assert_true(seeds[i] != seeds[i - 1]);
    }
    tdmi_free(seeds);
    assert_int_equal(tdmi_rng_stream_seed(1, 2), tdmi_rng_stream_seed(1, 2));
    assert_int_not_equal(tdmi_rng_stream_seed(1, 2), tdmi_rng_stream_seed(2, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mt19937_gives_the_known_words),
        cmocka_unit_test(filling_and_skipping_move_like_single_draws),
        cmocka_unit_test(permutations_are_torchs),
        cmocka_unit_test(integers_are_torchs),
        cmocka_unit_test(the_avx2_variant_draws_torchs_bits),
        cmocka_unit_test(the_default_variant_draws_torchs_bits),
        cmocka_unit_test(the_plain_build_gives_the_bits_of_the_avx2_build),
        cmocka_unit_test(small_normals_keep_their_second_value_across_calls),
        cmocka_unit_test(mixed_calls_on_one_generator_stay_in_step),
        cmocka_unit_test(values_that_nobody_keeps_cost_the_same_draws),
        cmocka_unit_test(bernoulli_numbers_are_torchs),
        cmocka_unit_test(mkl_bernoulli_numbers_follow_mcg31m1),
        cmocka_unit_test(variables_choose_the_variant_and_wrong_ones_are_refused),
        cmocka_unit_test(a_saved_state_goes_on_with_the_same_numbers),
        cmocka_unit_test(a_damaged_state_is_refused_and_changes_nothing),
        cmocka_unit_test(no_two_streams_of_a_job_share_a_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
