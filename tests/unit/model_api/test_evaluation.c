/* A second model on the parameters of a training. */
#include "small_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TABLE = SMALL_LETTERS * SMALL_WIDTH };

typedef struct how {
    int shard;
    bool freeze;
    const char *precision;
} how;

/* The evaluation's loss on the next batch is what the next step's will be on this rank. */
static const char *follows(tdm_group *group, void *arg)
{
    const how *h = arg;
    const small_spec spec = {.batch = 4, .freeze_table = h->freeze};
    const int first = 4 * tdm_group_rank(group);
    tdm_training_options o = small_options();
    float table[TABLE];
    small_run run;
    tdm_evaluation *e;
    o.shard = h->shard;
    o.precision = h->precision;
    CHECK_OK(small_begin(&run, group, &spec, &o));
    tdm_model *model = small_model(&run.spec, false);
    CHECK_OK(tdm_evaluation_create(model, run.training, &e));
    for (int step = 0; step < 4; step++) {
        double loss;
        if (step == 2) {
            for (int i = 0; i < TABLE; i++)
                table[i] = (float)(i % 5) / 4 - 0.5f;
            CHECK_OK(tdm_training_write(run.training, "table", table, TABLE));
        }
        small_batch(step, first, 4, tdm_evaluation_input(e, "letters"), tdm_evaluation_input(e, "next"));
        CHECK_OK(tdm_evaluation_run(e, &loss));
        CHECK_OK(small_step(&run, 1));
        CHECK(fabs(loss - run.result.own_loss) < 1e-6, "step %d: evaluated %.9g, trained with %.9g", step, loss, run.result.own_loss);
    }
    tdm_evaluation_destroy(e);
    tdm_model_destroy(model);
    small_end(&run);
    return NULL;
}

static void it_sees_what_was_trained_and_written(void **state)
{
    (void)state;
    for (int freeze = 0; freeze < 2; freeze++) {
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, follows, &(how){1, freeze, "f32"});
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, follows, &(how){1, freeze, "bf16"});
    }
    ranks_run(&(ranks_spec){.n = 2, .transport = "nodes in turn", .mode = RANKS_PROCESSES}, follows, &(how){1, true, "f32"});
    ranks_run(&(ranks_spec){.n = 2, .transport = "nodes in turn", .mode = RANKS_PROCESSES}, follows, &(how){3, true, "f32"});
}

static const char *outputs(tdm_group *group, void *arg)
{
    (void)arg;
    const int64_t dims[] = {2, SMALL_WIDTH}, width[] = {SMALL_WIDTH, SMALL_WIDTH}, one = SMALL_WIDTH;
    const tdm_training_options o = small_options();
    small_run run;
    tdm_evaluation *e;
    CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4}, &o));
    tdm_model *m; /* a part of the model, with other inputs and no loss */
    CHECK_OK(tdm_model_create("part", &m));
    const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, dims);
    tdm_model_push(m, "h.%d.in", 0);
    const tdm_tensor w = tdm_model_parameter(m, "weight", 2, width, NULL), b = tdm_model_parameter(m, "bias", 1, &one, NULL);
    tdm_model_output(m, tdm_model_linear(m, "product", x, w, b));
    tdm_model_pop(m);
    CHECK_OK(tdm_evaluation_create(m, run.training, &e));
    float bias[SMALL_WIDTH];
    double loss = 1;
    memset(tdm_evaluation_input(e, "x"), 0, 2 * SMALL_WIDTH * sizeof(float));
    CHECK_OK(tdm_training_read(run.training, "h.0.in.bias", bias, SMALL_WIDTH));
    CHECK_OK(tdm_evaluation_run(e, &loss));
    CHECK_THAT(loss == 0);
    CHECK_THAT(memcmp(tdm_evaluation_output(e, "h.0.in.product"), bias, sizeof bias) == 0);
    tdm_evaluation_destroy(e);
    tdm_model_destroy(m);
    small_end(&run);
    return NULL;
}

static void it_may_be_another_model(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, outputs, NULL);
}

static const char *refusals(tdm_group *group, void *arg)
{
    (void)arg;
    const tdm_training_options o = small_options();
    const int64_t dims[] = {2, 3};
    small_run run;
    tdm_evaluation *e;
    CHECK_OK(small_begin(&run, group, &(small_spec){.batch = 4}, &o));
    static const char *const names[] = {"nowhere", "h.0.in.bias"}, *const said[] = {"no parameter nowhere", "h.0.in.bias is float32[3]"};
    for (int i = 0; i < 2; i++) {
        tdm_model *m;
        CHECK_OK(tdm_model_create("part", &m));
        const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, dims), p = tdm_model_parameter(m, names[i], 1, dims + 1, NULL);
        tdm_model_output(m, tdm_model_layernorm(m, "norm", x, p, p, 1e-5f));
        CHECK_THAT(tdm_evaluation_create(m, run.training, &e) == TDM_ERR_INVALID);
        CHECK(strstr(tdm_error_text(), said[i]) != NULL, "said: %s", tdm_error_text());
        tdm_model_destroy(m);
    }
    tdm_model *m = small_model(&(small_spec){.batch = 2, .dropout = 0.5f}, false);
    CHECK_THAT(tdm_evaluation_create(m, run.training, &e) == TDM_ERR_INVALID);
    CHECK(strstr(tdm_error_text(), "h.0.dropout is a dropout") != NULL, "said: %s", tdm_error_text());
    tdm_model_destroy(m);
    small_end(&run);
    return NULL;
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, refusals, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_sees_what_was_trained_and_written),
        cmocka_unit_test(it_may_be_another_model),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
