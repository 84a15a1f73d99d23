/* test_train_compress.c - `tandem train --compress`: two hundred steps of the perceptron (report 31), and what it says of bytes. */
#include "training.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void two_hundred_steps_of_the_perceptron_stay_finite_and_learn(void **state)
{
    (void)state;
    static const char *const codecs[] = {"powersgd:1", "powersgd:2", "powersgd:4", "powersgd:8", "onebit:60", "topk:0.02"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        const char *run = in_folder("long-%zu", i);
        TRAIN_WELL("mlp", "-n", "2", "--steps", "200", "--eval-every", "200", "--compress", codecs[i], "--run", run);
        run_lines lines = read_metrics(run);
        assert_steps(&lines, 200);
        for (size_t s = 0; s < 200; s++)
            assert_true(isfinite(lines.line[s].loss) && isfinite(lines.line[s].grad_norm));
        assert_true(lines.line[199].loss < 0.9 * lines.line[0].loss);
        free(lines.line);
    }
}

static double number_of(const char *run, const char *field)
{
    char path[300];
    snprintf(path, sizeof path, "%s/summary.json", run);
    char *text = read_file(path, NULL);
    json_t *object = json_loads(text, 0, NULL);
    const double value = json_number_value(json_object_get(object, field));
    json_decref(object);
    free(text);
    return value;
}

static void the_summary_has_the_bytes_and_the_plan_says_them_before(void **state)
{
    (void)state;
    const char *plain = in_folder("plain"), *thin = in_folder("thin");
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "4", "--shard", "0", "--run", plain);
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "4", "--compress", "bf16", "--run", thin);
    const double all = number_of(plain, "plain_mb");
    assert_true(fabs(number_of(plain, "sent_mb") - all) < 0.01 * all + 0.002);
    assert_true(fabs(number_of(thin, "plain_mb") - all) < 1e-9);
    assert_true(fabs(number_of(thin, "sent_mb") - all / 2) < 0.01 * all + 0.002);
    program p;
    TRAIN(&p, "gpt2", "-n", "2", "--compress", "bf16", "--explain");
    assert_int_equal(p.code, 0);
    assert_non_null(strstr(p.out, "compress   bf16, with error feedback"));
    assert_non_null(strstr(p.out, ", bf16: a rank sends "));
    assert_non_null(strstr(p.out, "\n  codecs   ")); /* rows of its memory */
    assert_non_null(strstr(p.out, "\n  travelling   "));
    program_done(&p, 1);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_steps_of_the_perceptron_stay_finite_and_learn),
        cmocka_unit_test(the_summary_has_the_bytes_and_the_plan_says_them_before),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
