/* test_writer.c - tokens one after the other: the window, the likeliest, draws. */
#include "train/writer.h"

#include "small.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static tdmi_writer *make(const char *name, bool zero)
{
    const tdmi_model *model = tdmi_model_find(name);
    tdmi_model_config config = small_config;
    tdmi_writer *w;
    if (strcmp(name, "mlp") == 0)
        config.heads = config.positions = 0;
    assert_int_equal(tdmi_writer_create(model, &config, NULL, NULL, &w), TDM_OK);
    if (!zero) /* memory of an executor is zero */
        assert_int_equal(small_init(model, &config, tdmi_writer_graph(w), tdmi_writer_exec(w)), TDM_OK);
    return w;
}

static tdmi_rng seeded(uint64_t seed)
{
    tdmi_rng rng;
    assert_int_equal(tdmi_rng_init(&rng, seed), TDM_OK);
    return rng;
}

static int32_t next(tdmi_writer *w, tdmi_rng *rng, double temperature, int top_k)
{
    int32_t token = -1;
    assert_int_equal(tdmi_writer_next(w, rng, temperature, top_k, &token), TDM_OK);
    assert_in_range(token, 0, 49);
    return token;
}

static void only_the_last_window_counts(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2", "mlp"};
    for (int m = 0; m < 2; m++) {
        tdmi_writer *a = make(models[m], false), *b = make(models[m], false);
        tdmi_rng rng = seeded(1);
        for (int32_t t = 0; t < 20; t++)
            assert_int_equal(tdmi_writer_push(a, (t * 7) % 50), TDM_OK);
        for (int32_t t = 12; t < 20; t++)
            assert_int_equal(tdmi_writer_push(b, (t * 7) % 50), TDM_OK);
        for (int i = 0; i < 12; i++) /* through several shifts of the window */
            assert_int_equal(next(a, &rng, 0, 0), next(b, &rng, 0, 0));
        tdmi_writer_destroy(a);
        tdmi_writer_destroy(b);
    }
}

static void a_short_text_is_a_prefix(void **state)
{
    (void)state;
    tdmi_writer *a = make("gpt2", false), *b = make("gpt2", false); /* what stands behind the text does not count */
    tdmi_rng rng = seeded(1);
    for (int32_t t = 0; t < 8; t++)
        assert_int_equal(tdmi_writer_push(a, 49 - t), TDM_OK); /* fills b's unused places with something else */
    tdmi_writer_destroy(a);
    a = make("gpt2", false);
    assert_int_equal(tdmi_writer_push(a, 5), TDM_OK);
    assert_int_equal(tdmi_writer_push(b, 5), TDM_OK);
    for (int i = 0; i < 7; i++)
        assert_int_equal(next(a, &rng, 0, 0), next(b, &rng, 0, 0));
    tdmi_writer_destroy(a);
    tdmi_writer_destroy(b);
    tdmi_writer *m = make("mlp", false); /* reads whole windows: the first token is repeated in front */
    tdmi_writer *full = make("mlp", false);
    assert_int_equal(tdmi_writer_push(m, 9), TDM_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(tdmi_writer_push(full, 9), TDM_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(next(m, &rng, 0, 0), next(full, &rng, 0, 0));
    tdmi_writer_destroy(m);
    tdmi_writer_destroy(full);
}

static void top_1_is_the_likeliest_and_a_seed_decides(void **state)
{
    (void)state;
    tdmi_writer *w[3] = {make("gpt2", false), make("gpt2", false), make("gpt2", false)};
    tdmi_rng rng[3] = {seeded(1), seeded(2), seeded(3)};
    for (int i = 0; i < 3; i++)
        assert_int_equal(tdmi_writer_push(w[i], 11), TDM_OK);
    for (int i = 0; i < 10; i++) {
        int32_t likeliest = next(w[0], &rng[0], 0, 0);
        assert_int_equal(likeliest, next(w[1], &rng[1], 5, 1));
        assert_int_equal(likeliest, next(w[2], &rng[2], 1e-6, 0)); /* as cold as that, nothing else is drawn */
    }
    int differ = 0;
    rng[0] = seeded(7);
    rng[1] = seeded(7);
    rng[2] = seeded(8);
    for (int i = 0; i < 20; i++) {
        int32_t drawn = next(w[0], &rng[0], 2, 0);
        assert_int_equal(drawn, next(w[1], &rng[1], 2, 0));
        differ += drawn != next(w[2], &rng[2], 2, 0);
    }
    assert_true(differ > 10);
    for (int i = 0; i < 3; i++)
        tdmi_writer_destroy(w[i]);
}

static void equal_logits_are_drawn_equally_often(void **state)
{
    (void)state;
    tdmi_writer *w = make("gpt2", true); /* all weights zero: all logits zero */
    tdmi_rng rng = seeded(4);
    int count[50] = {0}, two[50] = {0};
    assert_int_equal(tdmi_writer_push(w, 0), TDM_OK);
    for (int i = 0; i < 5000; i++)
        count[next(w, &rng, 1, 0)]++;
    for (int t = 0; t < 50; t++)
        assert_in_range(count[t], 60, 145); /* 100 and four deviations */
    for (int i = 0; i < 400; i++)
        two[next(w, &rng, 1, 2)]++;
    assert_in_range(two[0], 140, 260);
    assert_int_equal(two[0] + two[1], 400); /* of equals, the lower ids */
    tdmi_writer_destroy(w);
}

static void what_cannot_be_is_an_error(void **state)
{
    (void)state;
    tdmi_writer *w = make("gpt2", false);
    tdmi_rng rng = seeded(1);
    int32_t token;
    assert_int_equal(tdmi_writer_push(w, 50), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "token 50 is not in the model's vocabulary of 50"));
    assert_int_equal(tdmi_writer_push(w, -1), TDM_ERR_INVALID);
    assert_int_equal(tdmi_writer_push(w, 1), TDM_OK);
    float *bias = tdmi_exec_memory(tdmi_writer_exec(w), tdmi_graph_find(tdmi_writer_graph(w), "ln_f.bias"));
    bias[3] = NAN;
    assert_int_equal(tdmi_writer_next(w, &rng, 1, 0, &token), TDM_ERR_NOT_FINITE);
    assert_non_null(strstr(tdm_error_text(), "its weights are damaged"));
    tdmi_writer_destroy(w);
    tdmi_writer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_last_window_counts),
        cmocka_unit_test(a_short_text_is_a_prefix),
        cmocka_unit_test(top_1_is_the_likeliest_and_a_seed_decides),
        cmocka_unit_test(equal_logits_are_drawn_equally_often),
        cmocka_unit_test(what_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
