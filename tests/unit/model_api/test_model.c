/* The builders: names, errors that stick, first values. */
#include "small_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t two[] = {2}, square[] = {2, 2};

static tdm_model *created(void)
{
    tdm_model *m;
    assert_int_equal(tdm_model_create("m", &m), TDM_OK);
    return m;
}

/* The model's error has these words; it goes. */
static void fails_with(tdm_model *m, const char *words)
{
    assert_int_equal(tdm_model_status(m), TDM_ERR_INVALID);
    if (strstr(tdm_error_text(), words) == NULL)
        fail_msg("\"%s\" expected, said: %s", words, tdm_error_text());
    tdm_model_destroy(m);
}

static void the_first_error_sticks(void **state)
{
    (void)state;
    tdm_model *m = created();
    tdm_model_push(m, "h.%d", 3);
    const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, square), w = tdm_model_parameter(m, "w", 1, two, NULL);
    assert_int_equal(tdm_model_linear(m, "product", x, w, -1), -1);
    assert_int_equal(tdm_model_gelu(m, "gelu", x), -1);
    tdm_model_pop(m);
    tdm_model_pop(m);
    fails_with(m, "linear h.3.product: w must be [O,I]");
}

static void modules_are_opened_and_closed(void **state)
{
    (void)state;
    tdm_model *m = created();
    tdm_model_pop(m);
    fails_with(m, "a pop without a push");
    m = created();
    tdm_model_push(m, "body");
    fails_with(m, "module body. has no pop");
    m = created();
    for (int i = 0; i < 100; i++)
        tdm_model_push(m, "deep");
    fails_with(m, "too long, or it is 17 deep");
}

static void names_are_given_once(void **state)
{
    (void)state;
    tdm_model *m = created();
    (void)tdm_model_parameter(m, "w", 1, two, NULL);
    assert_int_equal(tdm_model_parameter(m, "w", 1, two, NULL), -1);
    fails_with(m, "two tensors named w");
    tdm_model *none;
    assert_int_equal(tdm_model_create("", &none), TDM_ERR_INVALID);
}

static void parameters_say_how_they_begin(void **state)
{
    (void)state;
    static const struct {
        tdm_parameter how;
        const char *words;
    } wrong[] = {
        {{.init = TDM_INIT_NORMAL}, "parameter w: first values of kind 2 with scale 0"},
        {{.init = TDM_INIT_VALUES}, "TDM_INIT_VALUES without values"},
        {{.group = 8}, "parameter w: group 8"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tdm_model *m = created();
        assert_int_equal(tdm_model_parameter(m, "w", 1, two, &wrong[i].how), -1);
        fails_with(m, wrong[i].words);
    }
}

static void losses_are_computed_numbers(void **state)
{
    (void)state;
    tdm_model *m = created();
    tdm_model_loss(m, tdm_model_input(m, "x", TDM_F32, 2, square), 1);
    fails_with(m, "x cannot be a loss");
    for (int weight = 0; weight < 2; weight++) {
        m = created();
        const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, square), t = tdm_model_input(m, "t", TDM_I32, 1, two);
        const tdm_tensor loss = tdm_model_cross_entropy(m, "loss", x, t);
        tdm_model_loss(m, loss, (float)weight);
        tdm_model_loss(m, loss, (float)weight);
        fails_with(m, weight == 0 ? "loss loss has the weight 0" : "loss is a loss or an output already");
    }
    m = created();
    const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, square), t = tdm_model_input(m, "t", TDM_I32, 1, two);
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "l%d", i);
        tdm_model_loss(m, tdm_model_cross_entropy(m, name, x, t), 1);
    }
    fails_with(m, "l4 would be loss 5");
}

static void own_ops_take_float32(void **state)
{
    (void)state;
    tdm_model *m = created();
    const tdm_own_op nothing = {NULL, NULL, NULL};
    const tdm_tensor t = tdm_model_input(m, "t", TDM_I32, 1, two);
    assert_int_equal(tdm_model_own_op(m, "mine", &nothing, 1, &t, 1, two), -1);
    fails_with(m, "own_op mine: its forward and backward functions must be given");
}

static const char *first_values(tdm_group *group, void *arg)
{
    (void)arg;
    enum { COUNT = 4000 };
    const int64_t count = COUNT, rows[] = {2, COUNT};
    static float values[COUNT], given[COUNT];
    for (int i = 0; i < COUNT; i++)
        given[i] = (float)i;
    const tdm_parameter how[] = {{.init = TDM_INIT_ZEROS}, {.init = TDM_INIT_ONES}, {.init = TDM_INIT_NORMAL, .scale = 0.5},
                                 {.init = TDM_INIT_UNIFORM, .scale = 0.5}, {.init = TDM_INIT_VALUES, .values = given}};
    static const double variance[] = {0, 0, 0.25, 1 / 12.0};
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    tdm_model *m;
    tdm_training *training;
    CHECK_OK(tdm_model_create("m", &m));
    tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, rows), p[5];
    for (int i = 0; i < 5; i++)
        p[i] = tdm_model_parameter(m, names[i], 1, &count, &how[i]);
    for (int i = 0; i < 5; i += 2)
        x = tdm_model_layernorm(m, names[i], x, p[i], p[i == 4 ? 3 : i + 1], 1e-5f);
    tdm_model_loss(m, tdm_model_cross_entropy(m, "loss", x, tdm_model_input(m, "t", TDM_I32, 1, two)), 1);
    CHECK_OK(tdm_training_create(m, group, NULL, &training));
    for (int i = 0; i < 5; i++) {
        double sum = 0, squares = 0;
        CHECK_OK(tdm_training_read(training, names[i], values, COUNT));
        for (int k = 0; k < COUNT; k++) {
            sum += (double)values[k];
            squares += (double)values[k] * (double)values[k];
        }
        const double mean = sum / COUNT;
        if (i == 4)
            CHECK_THAT(memcmp(values, given, sizeof given) == 0);
        else
            CHECK(fabs(mean - (i == 1)) < 0.05 && fabs(squares / COUNT - mean * mean - variance[i]) < 0.02, "%s: mean %g, squares %g", names[i],
                  mean, squares / COUNT);
    }
    tdm_training_destroy(training);
    tdm_model_destroy(m);
    return NULL;
}

static void first_values_are_as_said(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, first_values, NULL);
}

/* The same numbers as a linear layer whose parameters are written out. */
static const char *dense(tdm_group *group, void *arg)
{
    (void)arg;
    enum { IN = 400, OUT = 3 };
    const int64_t rows[] = {2, IN}, matrix[] = {OUT, IN};
    const tdm_parameter uniform = {.init = TDM_INIT_UNIFORM, .scale = 0.05};
    float weight[2][OUT * IN], bias[2][OUT], largest = 0;
    for (int one_call = 0; one_call < 2; one_call++) {
        tdm_model *m;
        tdm_training *training;
        CHECK_OK(tdm_model_create("m", &m));
        const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, rows), t = tdm_model_input(m, "t", TDM_I32, 1, two);
        tdm_model_push(m, "h");
        tdm_tensor y;
        if (one_call) {
            y = tdm_model_dense(m, "out", x, OUT);
        } else {
            const tdm_tensor w = tdm_model_parameter(m, "out.weight", 2, matrix, &uniform);
            y = tdm_model_linear(m, "out", x, w, tdm_model_parameter(m, "out.bias", 1, matrix, &uniform));
        }
        tdm_model_pop(m);
        tdm_model_loss(m, tdm_model_cross_entropy(m, "loss", y, t), 1);
        CHECK_OK(tdm_training_create(m, group, NULL, &training));
        CHECK_OK(tdm_training_read(training, "h.out.weight", weight[one_call], OUT * IN));
        CHECK_OK(tdm_training_read(training, "h.out.bias", bias[one_call], OUT));
        tdm_training_destroy(training);
        tdm_model_destroy(m);
    }
    CHECK_THAT(memcmp(weight[0], weight[1], sizeof weight[0]) == 0 && memcmp(bias[0], bias[1], sizeof bias[0]) == 0);
    for (int i = 0; i < OUT * IN; i++)
        largest = fmaxf(largest, fabsf(weight[1][i]));
    CHECK(largest > 0.049f && largest <= 0.05f, "the largest weight is %g", (double)largest);
    return NULL;
}

static void dense_is_linear_with_parameters_of_its_own(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, dense, NULL);
    tdm_model *m = created();
    assert_int_equal(tdm_model_dense(m, "out", 7, 3), -1);
    fails_with(m, "dense out: tensor 7 is not of model m");
    m = created();
    assert_int_equal(tdm_model_dense(m, "out", tdm_model_input(m, "t", TDM_I32, 2, square), 3), -1);
    fails_with(m, "linear out: x");
}

static const char *no_loss(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_training *training;
    tdm_model *m;
    CHECK_OK(tdm_model_create("m", &m));
    CHECK_THAT(tdm_training_create(m, group, NULL, &training) == TDM_ERR_INVALID);
    CHECK(strstr(tdm_error_text(), "model m has no loss") != NULL, "said: %s", tdm_error_text());
    tdm_model_destroy(m);
    return NULL;
}

static void a_training_needs_a_loss(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, no_loss, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_sticks),
        cmocka_unit_test(modules_are_opened_and_closed),
        cmocka_unit_test(names_are_given_once),
        cmocka_unit_test(parameters_say_how_they_begin),
        cmocka_unit_test(losses_are_computed_numbers),
        cmocka_unit_test(own_ops_take_float32),
        cmocka_unit_test(first_values_are_as_said),
        cmocka_unit_test(dense_is_linear_with_parameters_of_its_own),
        cmocka_unit_test(a_training_needs_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
