/* An op of a user's own: its gradient, with each pass, and results that are not finite. */
#include "small_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 6 };

/* SGD with lr 1 moves a parameter by its gradient. A second training stays where the first began: its loss, with one element moved,
 * gives the difference. */
static const char *gradient(tdm_group *group, void *arg)
{
    static const struct {
        const char *name;
        size_t count;
    } of[] = {{"h.1.scale", SMALL_WIDTH}, {"h.1.in.weight", SMALL_WIDTH * SMALL_WIDTH}, {"h.1.in.bias", SMALL_WIDTH}};
    const small_spec spec = {.batch = 6, .size_weight = 0.5f};
    tdm_training_options options = small_options();
    (void)arg;
    options.lr = 1;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        small_run run;
        small_run fresh;
        CHECK_OK(small_begin(&run, group, &spec, &options));
        CHECK_OK(small_begin(&fresh, group, &spec, &options));
        tdm_evaluation *of_fresh;
        CHECK_OK(tdm_evaluation_create(fresh.model, fresh.training, &of_fresh));
        float before[SMALL_WIDTH * SMALL_WIDTH], after[SMALL_WIDTH * SMALL_WIDTH];
        CHECK_OK(tdm_training_read(run.training, of[i].name, before, of[i].count));
        CHECK_OK(small_step(&run, 1));
        CHECK_OK(tdm_training_read(run.training, of[i].name, after, of[i].count));
        small_batch(0, 0, spec.batch, tdm_evaluation_input(of_fresh, "letters"), tdm_evaluation_input(of_fresh, "next"));
        const char *wrong = NULL;
        for (size_t k = 0; k < of[i].count && wrong == NULL; k += 3) {
            double loss[2];
            for (int side = 0; side < 2; side++) {
                float moved[SMALL_WIDTH * SMALL_WIDTH];
                memcpy(moved, before, sizeof moved);
                moved[k] += side == 0 ? 1e-2f : -1e-2f;
                CHECK_OK(tdm_training_write(fresh.training, of[i].name, moved, of[i].count));
                CHECK_OK(tdm_evaluation_run(of_fresh, &loss[side]));
            }
            const double expected = (loss[0] - loss[1]) / 2e-2, got = (double)(before[k] - after[k]);
            if (!(fabs(expected - got) < 3e-4 + 0.01 * fabs(expected)))
                wrong = ranks_say("%s, element %zu: difference quotient %g, gradient %g", of[i].name, k, expected, got);
        }
        tdm_evaluation_destroy(of_fresh);
        small_end(&fresh);
        small_end(&run);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static void its_gradient_equals_differences(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, gradient, NULL);
}

/* Losses of STEPS steps; micro_batches of 12 / ranks / micro_batches rows. */
static const char *losses(tdm_group *group, const tdm_training_options *options, int micro_batches, float dropout, double *out)
{
    const small_spec spec = {.batch = 12 / tdm_group_size(group) / micro_batches, .dropout = dropout, .size_weight = 0.1f};
    small_run run;
    CHECK_OK(small_begin(&run, group, &spec, options));
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(small_step(&run, micro_batches));
        out[i] = run.result.loss;
    }
    small_end(&run);
    return NULL;
}

static const char *compare(const char *what, const double *expected, const double *got, double tolerance)
{
    for (int i = 0; i < STEPS; i++)
        CHECK(fabs(expected[i] - got[i]) <= tolerance * fabs(expected[i]), "%s, step %d: loss %.9g instead of %.9g", what, i + 1, got[i],
              expected[i]);
    return NULL;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const char *wrong = (call);                                                                                    \
        if (wrong != NULL)                                                                                             \
            return wrong;                                                                                              \
    } while (0)

static const char *passes(tdm_group *group, void *arg)
{
    double plain[STEPS], got[STEPS];
    tdm_training_options o = small_options();
    (void)arg;
    TRY(losses(group, &o, 1, 0, plain));
    CHECK(plain[STEPS - 1] < plain[0], "the loss does not fall: %g, then %g", plain[0], plain[STEPS - 1]);

    o.micro_batches = 3;
    TRY(losses(group, &o, 3, 0, got));
    TRY(compare("3 micro-batches", plain, got, 1e-5));
    o.precision = "bf16";
    TRY(losses(group, &o, 3, 0, got));
    TRY(compare("3 micro-batches in bf16", plain, got, 0.03));
    o.micro_batches = 1;
    TRY(losses(group, &o, 1, 0, got));
    TRY(compare("bf16", plain, got, 0.03));
    o.precision = "f16";
    TRY(losses(group, &o, 1, 0, got));
    TRY(compare("f16", plain, got, 0.01));
    o.precision = NULL;

    static const int stages[] = {0, 2, 3};
    for (int i = 0; i < 3; i++) {
        o.shard = stages[i];
        TRY(losses(group, &o, 1, 0, got));
        TRY(compare("sharding", plain, got, 1e-5));
    }
    o.shard = TDM_UNSET;
    o.compress = "bf16";
    TRY(losses(group, &o, 1, 0, got));
    TRY(compare("gradients sent in bf16", plain, got, 0.01));
    o.compress = NULL;
    o.clip = 100; /* never reached */
    TRY(losses(group, &o, 1, 0, got));
    TRY(compare("clip", plain, got, 1e-5));
    return NULL;
}

static const char *remat(tdm_group *group, void *arg)
{
    double plain[STEPS], got[STEPS];
    static const char *const precision[] = {"f32", "bf16"};
    tdm_training_options o = small_options();
    (void)arg;
    for (int i = 0; i < 2; i++) {
        o.precision = precision[i];
        o.remat = NULL;
        TRY(losses(group, &o, 1, 0.2f, plain));
        o.remat = "blocks";
        TRY(losses(group, &o, 1, 0.2f, got));
        TRY(compare("remat", plain, got, 0));
    }
    return NULL;
}

static void it_gives_the_same_losses_with_each_pass(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, passes, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .mode = RANKS_PROCESSES}, passes, NULL);
}

static void it_gives_the_same_bits_when_it_is_computed_again(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, remat, NULL);
}

typedef struct broken {
    double clip; /* 0: updates go along with the reduction, and the group ends with the first bad gradient */
    bool backward;
} broken;

static const char *not_finite(tdm_group *group, void *arg)
{
    const broken *b = arg;
    const small_spec spec = {.batch = 4, .break_forward = b->backward ? 0 : NAN, .break_backward = b->backward ? INFINITY : 0};
    tdm_training_options o = small_options();
    o.clip = b->clip;
    small_run run;
    CHECK_OK(small_begin(&run, group, &spec, &o));
    const tdm_status st = small_step(&run, 1);
    CHECK(st == TDM_ERR_NOT_FINITE, "status %d: %s", (int)st, tdm_error_text());
    CHECK(strstr(tdm_error_text(), b->backward ? "h.1.swish own_op_backward" : "h.0.swish own_op") != NULL, "said: %s", tdm_error_text());
    small_end(&run);
    return NULL;
}

static void what_is_not_finite_is_named(void **state)
{
    (void)state;
    for (int backward = 0; backward < 2; backward++) {
        ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, not_finite, &(broken){0, backward});
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, not_finite, &(broken){1, backward});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_gradient_equals_differences),
        cmocka_unit_test(it_gives_the_same_losses_with_each_pass),
        cmocka_unit_test(it_gives_the_same_bits_when_it_is_computed_again),
        cmocka_unit_test(what_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
