/* Checkpoints of a user's model: losses go on, on other numbers of ranks too. */
#include "../files.h"
#include "small_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { STEPS = 4, ROWS = 12, TABLE = SMALL_LETTERS * SMALL_WIDTH };

typedef struct shared {
    const char *folder;
    const char *optimizer, *precision;
    int shard;
    const char *compress;
    double bound; /* of the losses' difference; 0: the same bits */
} shared;

static double reference[2 * STEPS]; /* of the run that was not interrupted; the first rank's */

static small_spec spec_on(const tdm_group *group)
{
    return (small_spec){.batch = ROWS / tdm_group_size(group), .dropout = 0, .freeze_table = true};
}

static tdm_training_options options_of(const shared *s)
{
    tdm_training_options o = small_options();
    o.optimizer = s->optimizer;
    o.precision = s->precision;
    o.shard = s->shard;
    o.compress = s->compress;
    o.beta1 = 0.9;
    o.lr = 0.02;
    return o;
}

/* Eight steps; after four it saves. */
static const char *first(tdm_group *group, void *arg)
{
    const shared *s = arg;
    const small_spec spec = spec_on(group);
    const tdm_training_options o = options_of(s);
    float table[TABLE];
    small_run run;
    CHECK_OK(small_begin(&run, group, &spec, &o));
    for (int i = 0; i < TABLE; i++)
        table[i] = (float)(i % 9) / 9 - 0.5f;
    CHECK_OK(tdm_training_write(run.training, "table", table, TABLE));
    for (int i = 0; i < 2 * STEPS; i++) {
        CHECK_OK(small_step(&run, 1));
        if (tdm_group_rank(group) == 0)
            reference[i] = run.result.loss;
        if (i + 1 == STEPS)
            CHECK_OK(tdm_training_save(run.training, s->folder, 1));
    }
    small_end(&run);
    return NULL;
}

static const char *second(tdm_group *group, void *arg)
{
    const shared *s = arg;
    const small_spec spec = spec_on(group);
    const tdm_training_options o = options_of(s);
    small_run run;
    CHECK_OK(small_begin(&run, group, &spec, &o));
    CHECK_OK(tdm_training_load(run.training, s->folder));
    CHECK_THAT(tdm_training_steps(run.training) == STEPS);
    run.steps = STEPS;
    for (int i = STEPS; i < 2 * STEPS; i++) {
        CHECK_OK(small_step(&run, 1));
        CHECK(fabs(run.result.loss - reference[i]) <= s->bound, "step %d: loss %.9g, without interruption %.9g", i + 1,
              run.result.loss, reference[i]);
    }
    small_end(&run);
    return NULL;
}

static void losses_go_on_from_a_checkpoint(void **state)
{
    static const shared runs[] = {{NULL, "adamw", "f32", 1, NULL, 0}, {NULL, "adamw", "f16", 2, NULL, 0}, {NULL, "sgd", "bf16", 3, NULL, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        shared s = runs[i];
        s.folder = files_path(s.precision);
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, first, &s);
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, second, &s);
        if (strcmp(s.precision, "f32") == 0) {
            s.bound = 1e-5;
            s.shard = 3;
            ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, second, &s);
            ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, second, &s);
        }
    }
}

/* On another number of ranks errors are shared out. PowerSGD's result depends on their sum alone; halves and signs of other gradients round
 * otherwise, and a lone rank sends nothing, so it rounds nothing. */
static void what_codecs_keep_goes_on(void **state)
{
    static const struct {
        shared with;
        double bound, bound_alone;
    } runs[] = {{{"powersgd", "adamw", "f32", 1, "powersgd:1", 0}, 1e-5, 0.1},
                {{"bf16", "sgd", "f32", 0, "bf16", 0}, 1e-2, 1e-2},
                {{"onebit", "adamw", "f32", 1, "onebit:2", 0}, 0.1, 0.1}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        shared s = runs[i].with;
        s.folder = files_path(s.folder);
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, first, &s);
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, second, &s);
        s.bound = runs[i].bound;
        ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, second, &s);
        s.bound = runs[i].bound_alone;
        ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, second, &s);
    }
}

static const char *refusals(tdm_group *group, void *arg)
{
    const shared *s = arg;
    const small_spec spec = spec_on(group);
    tdm_training_options o = options_of(s);
    small_run run;
#define REFUSED(status, words)                                                                                         \
    CHECK((status) != TDM_OK && strstr(tdm_error_text(), words) != NULL, "\"%s\" expected, said: %s", words, tdm_error_text())
    CHECK_OK(small_begin(&run, group, &spec, &o));
    REFUSED(tdm_training_load(run.training, s->folder), "holds no whole checkpoint");
    CHECK_OK(tdm_training_save(run.training, s->folder, 0));
    small_end(&run);
    o.optimizer = "sgd"; /* with momentum, which the file does not have */
    CHECK_OK(small_begin(&run, group, &spec, &o));
    REFUSED(tdm_training_load(run.training, s->folder), "has no momentum_buffer.");
    small_end(&run);
    o = options_of(s);
    o.compress = "bf16";
    CHECK_OK(small_begin(&run, group, &spec, &o));
    REFUSED(tdm_training_load(run.training, s->folder), "was made with compress none, this training has bf16");
    small_end(&run);
    return NULL;
}

static void what_cannot_go_on_is_refused(void **state)
{
    (void)state;
    shared s = {files_path("refused"), "adamw", "f32", 1, NULL, 0};
    assert_int_equal(mkdir(s.folder, 0700), 0);
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, refusals, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_go_on_from_a_checkpoint),
        cmocka_unit_test(what_codecs_keep_goes_on),
        cmocka_unit_test(what_cannot_go_on_is_refused),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
