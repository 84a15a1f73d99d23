/* The training of a user's model: losses, frozen and unused parameters, groups, values by name, and what it refuses. */
#include "small_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TABLE = SMALL_LETTERS * SMALL_WIDTH, MATRIX = SMALL_WIDTH * SMALL_WIDTH };

/* One rank. */
static void on_one(ranks_body body)
{
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, body, NULL);
}

static const char *two_losses(tdm_group *group, void *arg)
{
    (void)arg;
    static const char *const precision[] = {"f32", "f16"};
    for (int p = 0; p < 2; p++)
        for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
            tdm_training_options o = small_options();
            o.precision = precision[p];
            o.micro_batches = 2;
            small_run run;
            double loss, size;
            CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4, .size_weight = 0.25f}, &o));
            CHECK_OK(small_step(&run, micro_batches)); /* one of two is a short step */
            CHECK_OK(tdm_training_loss(run.training, "loss", &loss));
            CHECK_OK(tdm_training_loss(run.training, "size", &size));
            const double sum = loss + 0.25 * size;
            CHECK(loss > 0.5 && size > 0.01, "losses %g and %g", loss, size);
            CHECK(fabs(run.result.loss - sum) < 1e-5 * sum, "%d micro-batches: the sum is %.9g, not %.9g", micro_batches, run.result.loss, sum);
            CHECK(tdm_training_loss(run.training, "none", &loss) == TDM_ERR_INVALID && strstr(tdm_error_text(), "loss, size") != NULL,
                  "said: %s", tdm_error_text());
            small_end(&run);
        }
    return NULL;
}

static void several_losses_are_summed_and_read(void **state)
{
    (void)state;
    on_one(two_losses);
}

static const char *frozen(tdm_group *group, void *arg)
{
    (void)arg;
    float before[TABLE], after[TABLE], weight[MATRIX], weight_after[MATRIX];
    static const char *const precision[] = {"f32", "bf16"};
    for (int p = 0; p < 2; p++) {
        tdm_training_options o = small_options();
        o.precision = precision[p];
        o.weight_decay = 0.1;
        small_run run;
        CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4, .freeze_table = true}, &o));
        CHECK_OK(tdm_training_read(run.training, "table", before, TABLE));
        CHECK_OK(tdm_training_read(run.training, "h.0.in.weight", weight, MATRIX));
        CHECK_OK(small_step(&run, 1));
        CHECK_OK(tdm_training_read(run.training, "table", after, TABLE));
        CHECK_OK(tdm_training_read(run.training, "h.0.in.weight", weight_after, MATRIX));
        CHECK_THAT(memcmp(before, after, sizeof before) == 0);
        CHECK_THAT(memcmp(weight, weight_after, sizeof weight) != 0);
        small_end(&run);
    }
    return NULL;
}

static void frozen_parameters_stay(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, frozen, NULL);
}

/* Weights or biases that are frozen beside trained ones: a linear and a layernorm with every combination. */
static const char *frozen_one_by_one(tdm_group *group, void *arg)
{
    (void)arg;
    const int64_t width = 4, rows[] = {3, 4}, square[] = {4, 4}, three = 3;
    static const char *const names[] = {"norm.w", "norm.b", "mix.w", "mix.b"};
    static const size_t counts[] = {4, 4, 16, 4};
    for (unsigned mask = 0; mask < 15; mask++) {
        tdm_model *m;
        tdm_parameter how[4];
        tdm_tensor p[4];
        CHECK_OK(tdm_model_create("mixed", &m));
        const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, rows), t = tdm_model_input(m, "t", TDM_I32, 1, &three);
        for (int i = 0; i < 4; i++) {
            how[i] = (tdm_parameter){.init = TDM_INIT_UNIFORM, .scale = 1, .frozen = (mask >> i & 1u) != 0};
            p[i] = tdm_model_parameter(m, names[i], i == 2 ? 2 : 1, i == 2 ? square : &width, &how[i]);
        }
        const tdm_tensor y = tdm_model_layernorm(m, "norm", x, p[0], p[1], 1e-5f);
        tdm_model_loss(m, tdm_model_cross_entropy(m, "loss", tdm_model_linear(m, "mix", y, p[2], p[3]), t), 1);
        tdm_training_options o = small_options();
        o.precision = mask % 2 == 0 ? "f32" : "bf16";
        o.micro_batches = 1 + (int)(mask >> 1 & 1u);
        tdm_training *training;
        tdm_training_result result;
        CHECK(tdm_training_create(m, group, &o, &training) == TDM_OK, "mask %u: %s", mask, tdm_error_text());
        float before[4][16], after[16];
        for (int i = 0; i < 12; i++)
            ((float *)tdm_training_input(training, "x"))[i] = (float)(i * i % 7) - 2.5f;
        memcpy(tdm_training_input(training, "t"), (int32_t[]){0, 3, 1}, 3 * sizeof(int32_t));
        for (int i = 0; i < 4; i++)
            CHECK_OK(tdm_training_read(training, names[i], before[i], counts[i]));
        CHECK_OK(tdm_training_step(training, 1, NULL, NULL, &result));
        for (int i = 0; i < 4; i++) {
            CHECK_OK(tdm_training_read(training, names[i], after, counts[i]));
            CHECK((memcmp(before[i], after, counts[i] * sizeof(float)) == 0) == how[i].frozen, "mask %u: %s is %sfrozen", mask, names[i],
                  how[i].frozen ? "" : "not ");
        }
        tdm_training_destroy(training);
        tdm_model_destroy(m);
    }
    return NULL;
}

static void any_operand_may_be_frozen(void **state)
{
    (void)state;
    on_one(frozen_one_by_one);
}

/* Group 0 does not move; group 1 (biases) moves by its own learning rate, and decays by its own factor. */
static const char *groups(tdm_group *group, void *arg)
{
    static const char *const optimizers[] = {"sgd", "adamw"};
    const double decays[] = {0, 0.5};
    (void)arg;
    for (int p = 0; p < 2; p++) {
        float after[2][SMALL_WIDTH], first[SMALL_WIDTH], weight[2][MATRIX];
        for (int d = 0; d < 2; d++) {
            tdm_training_options o = small_options();
            o.optimizer = optimizers[p];
            o.group_count = 2;
            o.groups[0] = (tdm_parameter_group){.lr_factor = 0, .weight_decay = 0.5};
            o.groups[1] = (tdm_parameter_group){.lr_factor = 2, .weight_decay = decays[d]};
            small_run run;
            CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4}, &o));
            CHECK_OK(tdm_training_read(run.training, "h.1.in.bias", first, SMALL_WIDTH));
            CHECK_OK(tdm_training_read(run.training, "h.1.in.weight", weight[0], MATRIX));
            CHECK_OK(small_step(&run, 1));
            CHECK_OK(tdm_training_read(run.training, "h.1.in.bias", after[d], SMALL_WIDTH));
            CHECK_OK(tdm_training_read(run.training, "h.1.in.weight", weight[1], MATRIX));
            CHECK_THAT(memcmp(weight[0], weight[1], sizeof weight[0]) == 0);
            small_end(&run);
        }
        for (int i = 0; i < SMALL_WIDTH; i++) {
            const double decayed = (double)after[0][i] - (double)after[1][i], expected = 0.1 * 2 * 0.5 * (double)first[i];
            CHECK(fabs(decayed - expected) < 1e-6, "%s, element %d: decay took %g, not %g", optimizers[p], i, decayed, expected);
            CHECK_THAT(after[0][i] != first[i]);
        }
    }
    return NULL;
}

static void groups_have_their_own_rate_and_decay(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, groups, NULL);
}

static const char *unused(tdm_group *group, void *arg)
{
    (void)arg;
    small_run run;
    float spare[5];
    tdm_training_options o = small_options();
    CHECK_THAT(small_begin(&run, group, &(small_spec){.batch = 4, .unused = true}, &o) == TDM_ERR_INVALID);
    CHECK(strstr(tdm_error_text(), "parameter spare") != NULL && strstr(tdm_error_text(), "allow_unused") != NULL, "said: %s", tdm_error_text());
    small_end(&run);
    o.allow_unused = true;
    o.weight_decay = 1;
    CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4, .unused = true}, &o));
    CHECK_OK(small_step(&run, 1));
    CHECK_OK(tdm_training_read(run.training, "spare", spare, 5));
    for (int i = 0; i < 5; i++)
        CHECK_THAT(spare[i] == 1);
    small_end(&run);
    return NULL;
}

static void unused_parameters_are_refused_or_left_alone(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, unused, NULL);
}

/* Half of the rows do not count: the loss is the mean of the others. */
static const char *uncounted(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_training_options o = small_options();
    o.uncounted = true;
    small_run run, half;
    CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4}, &o));
    small_batch(0, 0, 4, tdm_training_input(run.training, "letters"), tdm_training_input(run.training, "next"));
    ((int32_t *)tdm_training_input(run.training, "next"))[2] = ((int32_t *)tdm_training_input(run.training, "next"))[3] = -1;
    CHECK_OK(tdm_training_step(run.training, 0, NULL, NULL, &run.result));
    CHECK_OK(small_begin(&half, group, &(small_spec){.batch = 2}, &o));
    CHECK_OK(small_step(&half, 1));
    CHECK(fabs(run.result.loss - half.result.loss) < 1e-6, "loss %g and %g", run.result.loss, half.result.loss);
    small_end(&half);
    small_end(&run);
    return NULL;
}

static void rows_may_be_left_out(void **state)
{
    (void)state;
    on_one(uncounted);
}

static const char *refusals(tdm_group *group, void *arg)
{
    (void)arg;
    const small_spec spec = {.batch = 4};
    small_run run;
    tdm_training_options o = small_options();
    float values[MATRIX];
#define REFUSED(status, words)                                                                                         \
    CHECK((status) != TDM_OK && strstr(tdm_error_text(), words) != NULL, "\"%s\" expected, said: %s", words, tdm_error_text())
    o.precision = "f8";
    REFUSED(small_begin(&run, group, &spec, &o), "--precision f8");
    small_end(&run);
    o = small_options();
    o.compress = "bf16";
    o.shard = 2;
    REFUSED(small_begin(&run, group, &spec, &o), "--compress bf16 needs whole gradients");
    small_end(&run);
    o = small_options();
    o.optimizer = "adamw";
    o.compress = "onebit";
    REFUSED(small_begin(&run, group, &spec, &o), "onebit:100");
    small_end(&run);
    o = small_options();
    o.group_count = 2;
    o.groups[1].lr_factor = -1;
    REFUSED(small_begin(&run, group, &spec, &o), "group 1 has lr_factor -1");
    small_end(&run);
    o = small_options();
    CHECK_OK(small_begin(&run, group, &spec, &o));
    REFUSED(tdm_training_read(run.training, "h.7.scale", values, 8), "no parameter h.7.scale");
    REFUSED(tdm_training_write(run.training, "h.1.scale", values, 3), "has 8 elements, not 3");
    CHECK_THAT(tdm_training_input(run.training, "table") == NULL && tdm_training_output(run.training, "letters") == NULL);
    small_batch(0, 0, 4, tdm_training_input(run.training, "letters"), tdm_training_input(run.training, "next"));
    ((int32_t *)tdm_training_input(run.training, "letters"))[5] = SMALL_LETTERS;
    REFUSED(tdm_training_step(run.training, 0, NULL, NULL, &run.result), "input letters is 7 at element 5; embedding takes 0 to 6");
    small_end(&run);
    return NULL;
}

static void what_cannot_work_is_refused_by_name(void **state)
{
    (void)state;
    on_one(refusals);
}

static const char *values_written(tdm_group *group, void *arg)
{
    (void)arg;
    float values[SMALL_WIDTH], read[SMALL_WIDTH];
    for (int i = 0; i < SMALL_WIDTH; i++)
        values[i] = (float)i;
    for (int stage = 1; stage <= 3; stage += 2) {
        tdm_training_options o = small_options();
        o.shard = stage;
        small_run run;
        CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4}, &o));
        CHECK_OK(small_step(&run, 1));
        CHECK_OK(tdm_training_write(run.training, "h.0.scale", values, SMALL_WIDTH));
        CHECK_OK(tdm_training_read(run.training, "h.0.scale", read, SMALL_WIDTH));
        CHECK(memcmp(values, read, sizeof values) == 0, "stage %d: other values came back", stage);
        CHECK_OK(small_step(&run, 1));
        small_end(&run);
    }
    return NULL;
}

static void values_come_back_as_they_were_written(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, values_written, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "nodes in turn", .mode = RANKS_PROCESSES}, values_written, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_losses_are_summed_and_read),
        cmocka_unit_test(frozen_parameters_stay),
        cmocka_unit_test(any_operand_may_be_frozen),
        cmocka_unit_test(groups_have_their_own_rate_and_decay),
        cmocka_unit_test(unused_parameters_are_refused_or_left_alone),
        cmocka_unit_test(rows_may_be_left_out),
        cmocka_unit_test(what_cannot_work_is_refused_by_name),
        cmocka_unit_test(values_come_back_as_they_were_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
