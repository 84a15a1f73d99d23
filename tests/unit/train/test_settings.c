/* test_settings.c - defaults, ranges, and what follows from the data's size. */
#include "train/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdm_train_options options_of(const char *model)
{
    tdm_train_options o;
    tdm_train_options_init(&o);
    o.model = model;
    return o;
}

static void defaults_are_those_of_the_model(void **state)
{
    (void)state;
    tdmi_settings s;
    tdm_train_options o = options_of("gpt2");
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_string_equal(s.preset, "gpt2");
    assert_int_equal(s.config.layers, 12);
    assert_int_equal(s.config.vocab, 50257);
    assert_int_equal(s.parameters, 124439808); /* the tied embedding once */
    assert_int_equal(s.optimizer.kind, TDMI_OPTIMIZER_ADAMW);
    assert_true(s.optimizer.beta1 == 0.9 && s.optimizer.beta2 == 0.95 && s.optimizer.eps == 1e-8);
    assert_int_equal(s.schedule, TDMI_SCHEDULE_COSINE);
    assert_int_equal(s.shard, 1);
    assert_int_equal(s.epochs, 1);
    assert_int_equal(s.keep, 3);
    assert_int_equal(s.save_every, 0);
    assert_true(s.val_fraction == 0.05 && s.bucket_mb == 25 && s.first_bucket_mb == 1);
    assert_string_equal(s.run_dir, "runs/gpt2");
    o = options_of("mlp");
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_string_equal(s.run_dir, "runs/mlp");
}

static void what_is_given_wins(void **state)
{
    (void)state;
    tdmi_settings s;
    tdm_train_options o = options_of("gpt2");
    o.preset = "bytes";
    o.seq = 2048; /* more than the preset has positions */
    o.optimizer = "sgd";
    o.beta1 = 0.8;
    o.clip = 0;
    o.dropout = 0;
    o.bucket_mb = "0.25";
    o.run_dir = "somewhere";
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(s.config.vocab, 256);
    assert_int_equal(s.config.positions, 2048);
    assert_int_equal(s.optimizer.kind, TDMI_OPTIMIZER_SGD);
    assert_true(s.optimizer.momentum == 0.8);
    assert_true(s.clip == 0 && s.first_bucket_mb == 0.25);
    assert_string_equal(s.run_dir, "somewhere");
}

static void what_cannot_be_is_named(void **state)
{
    (void)state;
    char long_path[2000];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
#define CASE(change, text)                                                                                             \
    do {                                                                                                               \
        tdmi_settings s;                                                                                               \
        tdm_train_options o = options_of("gpt2");                                                                      \
        change;                                                                                                        \
        assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_ERR_INVALID);                                              \
        if (strstr(tdm_error_text(), text) == NULL)                                                                    \
            fail_msg("expected \"%s\", got \"%s\"", text, tdm_error_text());                                           \
    } while (0)
    CASE(o.model = NULL, "there is no model");
    CASE(o.model = "resnet18", "there is no model \"resnet18\"; there are: gpt2, mlp");
    CASE(o.preset = "huge", "has no preset \"huge\"");
    CASE(o.layers = 0, "--layers 0 is out of range; it takes 1 to 1000");
    CASE(o.width = -5, "--width -5 is out of range");
    CASE(o.heads = 5, "width 768 is not divisible by heads 5");
    CASE(o.seq = (1 << 20) + 1, "--seq 1048577 is out of range");
    CASE(o.vocab = 0, "--vocab 0");
    CASE(o.batch = 0, "--batch 0 is out of range");
    CASE(o.steps = 0, "--steps 0 is out of range");
    CASE((o.steps = 5, o.epochs = 1), "--steps 5 and --epochs 1: give one of them");
    CASE(o.dropout = 1, "--dropout 1 is out of range; it takes from 0 up to 0.99");
    CASE(o.dropout = 0.0 / 0.0, "--dropout");
    CASE(o.lr = -0.5, "--lr -0.5 is out of range");
    CASE(o.eps = 0, "--eps 0 is out of range; it takes more than 0 up to 1");
    CASE(o.beta2 = 1, "--beta2 1 is out of range");
    CASE(o.clip = -2, "--clip -2");
    CASE(o.optimizer = "lamb", "lamb");
    CASE(o.schedule = "steps", "steps");
    CASE(o.prefetch = 2, "--prefetch is for --shard 3, which gathers parameters; this run has --shard 1");
    CASE(o.shard = 4, "--shard 4 is out of range; it takes 0 to 3");
    CASE(o.bucket_mb = "0", "--bucket-mb 0: it takes a number of MiB");
    CASE(o.bucket_mb = "1,,2", "--bucket-mb 1,,2: it takes");
    CASE(o.bucket_mb = "1,25x", "--bucket-mb 1,25x: it takes");
    CASE(o.bucket_mb = "fast", "--bucket-mb fast: it takes");
    CASE((o.bucket_mb = "1,25", o.first_bucket_mb = 2), "--first-bucket-mb 2 and --bucket-mb 1,25");
    CASE((o.bucket_mb = "auto", o.first_bucket_mb = 2), "--first-bucket-mb 2 and --bucket-mb auto");
    CASE(o.remat = "some", "--remat some: it takes none, blocks, K");
    CASE(o.remat = "0", "--remat 0: it takes");
    CASE(o.remat = "auto", "--remat auto needs a limit: --memory SIZE");
    CASE((o.remat = "blocks", o.memory = 1000), "--memory is a limit for --remat auto; --remat blocks has none");
    CASE(o.first_bucket_mb = 0, "--first-bucket-mb 0 is out of range");
    CASE(o.val_fraction = 0.95, "--val-fraction 0.95");
    CASE(o.keep = 0, "--keep 0");
    CASE(o.accum = 0, "--accum 0");
    CASE(o.eval_every = 0, "--eval-every 0");
    CASE(o.trace_from = 3, "--trace takes FROM:TO");
    CASE((o.trace_from = 3, o.trace_to = 2), "--trace 3:2 is no range of steps");
    CASE(o.run_dir = long_path, "--run: a path of 1999 bytes is too long");
    tdmi_settings s;
    tdm_train_options o = options_of("mlp");
    o.heads = 2;
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "--heads has no meaning for model mlp"));
}

static void the_length_of_an_epoch_decides_the_rest(void **state)
{
    (void)state;
    tdmi_settings s;
    tdm_train_options o = options_of("gpt2");
    o.epochs = 3;
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(tdmi_settings_set_epoch(&s, 50), TDM_OK);
    assert_int_equal(s.steps, 150);
    assert_int_equal(s.eval_every, 15); /* ten evaluations */
    assert_int_equal(s.warmup, 15);     /* the model's 100 would be most of the run */
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(tdmi_settings_set_epoch(&s, 400000000), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "--epochs 3 are 1200000000 steps"));
    o.accum = 4;
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(tdmi_settings_set_epoch(&s, 50), TDM_OK);
    assert_int_equal(s.steps, 39); /* 12 steps of 4 batches and a short one, three times */
    o = options_of("gpt2");
    o.steps = 7;
    o.warmup = 6;
    o.eval_every = 3;
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(tdmi_settings_set_epoch(&s, 50), TDM_OK);
    assert_int_equal(s.steps, 7);
    assert_int_equal(s.eval_every, 3);
    assert_int_equal(s.warmup, 6); /* what was asked for */
    o.warmup = TDM_UNSET;
    o.eval_every = TDM_UNSET;
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(tdmi_settings_set_epoch(&s, 50), TDM_OK);
    assert_int_equal(s.eval_every, 7); /* at the end */
    assert_int_equal(s.warmup, 0);
}

static void compressions_have_their_numbers_and_their_limits(void **state)
{
    (void)state;
    tdmi_settings s;
    tdm_train_options o = options_of("gpt2");
    char text[32];
    const char *const words[][2] = {{"powersgd", "powersgd:4"}, {"powersgd:8", "powersgd:8"}, {"topk", "topk:0.01"}, {"bf16", "bf16"},
                                    {"onebit", "onebit:16"}, {"onebit:7", "onebit:7"}, {NULL, "none"}};
    o.steps = 100;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        o.compress = words[i][0];
        assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
        tdmi_settings_compress_text(&s, text);
        assert_string_equal(text, words[i][1]);
    }
    o.steps = TDM_UNSET;
    o.compress = "onebit";
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    assert_int_equal(s.compress.warmup, 0);
    assert_int_equal(tdmi_settings_set_epoch(&s, 200), TDM_OK);
    assert_int_equal(s.compress.warmup, 31);
    const struct {
        const char *compress, *optimizer, *says;
        int shard;
    } wrong[] = {
        {"zip", NULL, "--compress", 1},
        {"powersgd", NULL, "--shard 2 does not keep", 2},
        {"bf16", NULL, "--shard 3 does not keep", 3},
        {"onebit", "sgd", "--optimizer adamw", 1},
        {"onebit", NULL, "--offload keeps in a file", 1},
        {"powersgd", NULL, "--precision bf16 travel in halves already", 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.compress = wrong[i].compress;
        o.optimizer = wrong[i].optimizer;
        o.shard = wrong[i].shard;
        o.offload = strstr(wrong[i].says, "--offload") != NULL ? "/tmp" : NULL;
        o.precision = strstr(wrong[i].says, "--precision") != NULL ? "bf16" : NULL;
        assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_ERR_INVALID);
        assert_non_null(strstr(tdm_error_text(), wrong[i].says));
    }
}

static void the_schedule_ends_where_its_kind_says(void **state)
{
    (void)state;
    static const char *const kinds[] = {"cosine", "linear", "constant"};
    static const double ends[] = {0.1, 0, 1};
    for (int i = 0; i < 3; i++) {
        tdmi_settings s;
        tdm_train_options o = options_of("gpt2");
        o.schedule = kinds[i];
        o.steps = 100;
        assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
        assert_int_equal(tdmi_settings_set_epoch(&s, 50), TDM_OK);
        tdmi_schedule schedule = tdmi_settings_schedule(&s);
        assert_true(schedule.end_fraction == ends[i]);
        assert_int_equal(schedule.steps, 100);
        assert_int_equal(schedule.warmup, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_model),
        cmocka_unit_test(what_is_given_wins),
        cmocka_unit_test(what_cannot_be_is_named),
        cmocka_unit_test(the_length_of_an_epoch_decides_the_rest),
        cmocka_unit_test(compressions_have_their_numbers_and_their_limits),
        cmocka_unit_test(the_schedule_ends_where_its_kind_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
