/* test_train_resume.c - a run that was stopped goes on as if it had not been; a checkpoint that is not whole is not used. */
#include "training.h"

#include "core/clock.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* 35 windows to train on: an epoch of 8 steps on two ranks. */
static const char *few_words(void)
{
    static char path[256];
    if (*path == '\0') {
        char *text = read_file(in_folder("text.txt"), NULL);
        snprintf(path, sizeof path, "%s", in_folder("few.txt"));
        write_file(path, text, 600);
        free(text);
    }
    return path;
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

#define USUAL "-n", "2", "--data", few_words(), "--dropout", "0.2", "--schedule", "constant", "--warmup", "2", "--eval-every", "4"

static void assert_same_runs(const char *a, const char *b, size_t steps)
{
    run_lines x = read_metrics(a), y = read_metrics(b);
    assert_steps(&x, steps);
    assert_steps(&y, steps);
    assert_same_lines(&x, &y, 0, steps);
    for (size_t i = 0; i < steps; i++) {
        assert_int_equal(x.line[i].samples, y.line[i].samples);
        assert_int_equal(x.line[i].tokens, y.line[i].tokens);
    }
    free(x.line);
    free(y.line);
    char paths[2][300];
    snprintf(paths[0], sizeof paths[0], "%s/step-%zu", a, steps);
    snprintf(paths[1], sizeof paths[1], "%s/step-%zu", b, steps);
    assert_same_checkpoints(paths[0], paths[1]);
}

static void a_resumed_run_has_the_bits_of_one_that_never_stopped(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2", "mlp"}, *const optimizers[] = {"adamw", "sgd"}, *const shards[] = {"1", "0"};
    for (int i = 0; i < 2; i++) { /* across the ends of two epochs, with dropout */
        const char *whole = in_folder("whole-%d", i), *parts = in_folder("parts-%d", i);
        TRAIN_WELL(models[i], USUAL, "--steps", "20", "--optimizer", optimizers[i], "--shard", shards[i], "--run", whole);
        TRAIN_WELL(models[i], USUAL, "--steps", "7", "--optimizer", optimizers[i], "--shard", shards[i], "--run", parts);
        TRAIN_WELL(models[i], USUAL, "--steps", "8", "--optimizer", optimizers[i], "--shard", shards[i], "--run", parts, "--resume");
        TRAIN_WELL(models[i], USUAL, "--steps", "20", "--optimizer", optimizers[i], "--shard", shards[i], "--run", parts, "--resume");
        run_lines cut = read_metrics(parts); /* the runs of parts evaluated at their ends too: not a difference in training */
        run_lines all = read_metrics(whole);
        assert_steps(&cut, 20);
        for (size_t step = 0; step < 20; step++)
            if (isnan(all.line[step].val_loss))
                cut.line[step].val_loss = NAN;
        assert_same_lines(&all, &cut, 0, 20);
        free(cut.line);
        free(all.line);
        assert_same_checkpoints(in_folder("whole-%d/step-20", i), in_folder("parts-%d/step-20", i));
    }
}

/* Errors, factors, the frozen variance: stopped inside the warm-up of onebit, and behind it. */
static void a_compressed_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const codecs[] = {"bf16", "powersgd:2", "onebit:9", "topk:0.05"};
    for (int i = 0; i < 4; i++) {
        const char *whole = in_folder("thin-%d", i), *parts = in_folder("thin-cut-%d", i), *shard = i % 2 == 0 ? "1" : "0";
        TRAIN_WELL("gpt2", USUAL, "--steps", "20", "--compress", codecs[i], "--shard", shard, "--run", whole);
        TRAIN_WELL("gpt2", USUAL, "--steps", "6", "--compress", codecs[i], "--shard", shard, "--run", parts);
        TRAIN_WELL("gpt2", USUAL, "--steps", "13", "--compress", codecs[i], "--shard", shard, "--run", parts, "--resume");
        TRAIN_WELL("gpt2", USUAL, "--steps", "20", "--compress", codecs[i], "--shard", shard, "--run", parts, "--resume");
        assert_same_checkpoints(in_folder("thin-%d/step-20", i), in_folder("thin-cut-%d/step-20", i));
        TRAIN_WELL("gpt2", USUAL, "-n", "3", "--steps", "24", "--compress", codecs[i], "--run", parts, "--resume");
        TRAIN_WELL("gpt2", USUAL, "-n", "1", "--steps", "26", "--compress", codecs[i], "--run", parts, "--resume");
        TRAIN_WELL("gpt2", USUAL, "--steps", "28", "--compress", codecs[i], "--run", parts, "--resume");
    }
    program p;
    TRAIN(&p, "gpt2", USUAL, "--steps", "30", "--compress", "powersgd:4", "--run", in_folder("thin-cut-1"), "--resume");
    char expected[500];
    snprintf(expected, sizeof expected,
             "tandem train: %s/step-28 was made with --compress powersgd:2, this run has powersgd:4; its losses cannot go on from there\n",
             in_folder("thin-cut-1"));
    assert_ended(&p, 3, expected);
}

static void a_run_that_died_between_checkpoints_goes_on_from_the_last(void **state)
{
    (void)state;
    const char *whole = in_folder("saves"), *died = in_folder("died");
    TRAIN_WELL("gpt2", USUAL, "--steps", "20", "--save-every", "6", "--keep", "9", "--run", whole);
    assert_true(exists(in_folder("saves/step-6")) && exists(in_folder("saves/step-12")) && exists(in_folder("saves/step-18")));
    shell("cp -r %s %s && rm -r %s/step-18 %s/step-20", whole, died, died, died); /* as after a kill at step 15 ... */
    shell("head -n 15 %s/metrics.jsonl > %s/metrics.jsonl && printf '{\"step\":16,\"lo' >> %s/metrics.jsonl", whole, died, died);
    shell("mkdir %s/.step-18.tmp-new && echo half > %s/.step-18.tmp-new/model.safetensors", died, died); /* ... while saving */
    TRAIN_WELL("gpt2", USUAL, "--steps", "20", "--save-every", "6", "--keep", "9", "--run", died, "--resume");
    assert_same_runs(whole, died, 20);
    assert_false(exists(in_folder("died/.step-18.tmp-new")));
}

static void sigterm_saves_and_the_rest_has_the_same_bits(void **state)
{
    (void)state;
    const char *whole = in_folder("long"), *stopped = in_folder("stopped");
    program p;
    setenv("TANDEM_ISA", "plain", 1); /* slow enough to be stopped on the way */
#define SLOW "-n", "2", "--width", "64", "--seq", "48", "--steps", "30", "--dropout", "0.1", "--eval-every", "100"
    TRAIN_START(&p, "gpt2", SLOW, "--run", stopped, "--json");
    program_await(&p, "\"step\":5,", 1);
    kill(p.pid, SIGTERM);
    program_wait(&p, 20);
    run_lines lines = read_metrics(stopped);
    const size_t last = lines.count;
    free(lines.line);
    assert_in_range(last, 5, 29);
    char expected[700];
    snprintf(expected, sizeof expected,
             "tandem train: stopped by SIGTERM after step %zu, which is saved\n"
             "tandem train: %s/step-%zu is the newest checkpoint; the same command with --resume goes on from it\n", last, stopped, last);
    assert_string_equal(p.err, expected);
    assert_ended(&p, 143, "");
    TRAIN_WELL("gpt2", SLOW, "--run", stopped, "--resume");
    TRAIN_WELL("gpt2", SLOW, "--run", whole);
    unsetenv("TANDEM_ISA");
    assert_same_runs(whole, stopped, 30);
}

static void another_number_of_ranks_goes_on_with_the_same_losses(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "4"}, *const batches[] = {"4", "2", "1"};
    run_lines lines[3];
    TRAIN_WELL("gpt2", USUAL, "--dropout", "0", "--steps", "6", "--run", in_folder("from-2"));
    for (int i = 0; i < 3; i++) {
        const char *run = in_folder("on-%s", ranks[i]);
        shell("cp -r %s %s", in_folder("from-2"), run);
        TRAIN_WELL("gpt2", USUAL, "--dropout", "0", "--steps", "12", "--run", run, "--resume", "-n", ranks[i], "--batch", batches[i],
                   "--shard", i == 0 ? "0" : "1");
        lines[i] = read_metrics(run);
        assert_steps(&lines[i], 12);
        assert_int_equal(lines[i].line[11].samples, 48);
    }
    for (int i = 0; i < 3; i += 2)
        for (int step = 6; step < 12; step++)
            if (!(fabs(lines[i].line[step].loss - lines[1].line[step].loss) <= 1e-6 * lines[1].line[step].loss))
                fail_msg("%s ranks, step %d: loss %.9g, on 2 ranks %.9g", ranks[i], step + 1, lines[i].line[step].loss, lines[1].line[step].loss);
    for (int i = 0; i < 3; i++)
        free(lines[i].line);
}

/* 8 batches an epoch: steps of 3, 3 and 2 of them. */
static void a_short_last_step_of_an_epoch_is_resumed_exactly(void **state)
{
    (void)state;
    static const int64_t samples[] = {12, 24, 32, 44, 56, 64, 76};
    const char *whole = in_folder("accumulated"), *parts = in_folder("accumulated-parts");
    TRAIN_WELL("gpt2", USUAL, "--accum", "3", "--steps", "7", "--run", whole);
    for (int steps = 1; steps < 7; steps++) {
        char words[2][8];
        snprintf(words[0], sizeof words[0], "%d", steps);
        if (steps == 1)
            TRAIN_WELL("gpt2", USUAL, "--accum", "3", "--steps", words[0], "--run", parts);
        else
            TRAIN_WELL("gpt2", USUAL, "--accum", "3", "--steps", words[0], "--run", parts, "--resume");
    }
    TRAIN_WELL("gpt2", USUAL, "--accum", "3", "--steps", "7", "--run", parts, "--resume");
    run_lines lines = read_metrics(whole);
    assert_steps(&lines, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(lines.line[i].samples, samples[i]);
    free(lines.line);
    assert_same_checkpoints(in_folder("accumulated/step-7"), in_folder("accumulated-parts/step-7"));
}

/* With --epochs the steps are counted so that no batch is left. One batch of four windows, or four of one, are one step. */
static void a_batch_in_micro_batches_learns_what_it_learns_whole(void **state)
{
    (void)state;
    static const char *const batches[] = {"4", "2", "1"}, *const accums[] = {"1", "2", "4"};
    run_lines lines[3];
    for (int i = 0; i < 3; i++) {
        const char *run = in_folder("cut-%d", i);
        TRAIN_WELL("gpt2", USUAL, "--dropout", "0", "--batch", batches[i], "--accum", accums[i], "--epochs", "2", "--order", "sequential", "--run", run);
        lines[i] = read_metrics(run);
    }
    assert_int_equal(lines[0].count, 8); /* of 35 windows 32 make whole batches of 8 */
    assert_int_equal(lines[1].count, 8);
    assert_int_equal(lines[2].count, 10); /* a step more an epoch, of one micro-batch of 2: 34 windows */
    assert_int_equal(lines[2].line[4].samples, 34);
    for (int i = 1; i < 3; i++)
        for (int step = 0; step < 4; step++)
            assert_true(fabs(lines[i].line[step].loss - lines[0].line[step].loss) <= 1e-6 * lines[0].line[step].loss);
    for (int i = 0; i < 3; i++)
        free(lines[i].line);
}

static void samples_count_on_when_the_batch_changes(void **state)
{
    (void)state;
    const char *run = in_folder("batches");
    TRAIN_WELL("gpt2", USUAL, "--steps", "3", "--run", run);
    TRAIN_WELL("gpt2", USUAL, "--steps", "5", "--run", run, "--resume", "--batch", "3");
    run_lines lines = read_metrics(run);
    assert_steps(&lines, 5);
    assert_int_equal(lines.line[2].samples, 12);
    assert_int_equal(lines.line[4].samples, 24);
    assert_int_equal(lines.line[4].tokens, 24 * 16);
    free(lines.line);
}

static void a_checkpoint_of_another_run_is_refused(void **state)
{
    (void)state;
    const char *run = in_folder("mine");
    TRAIN_WELL("gpt2", USUAL, "--steps", "2", "--run", run);
    static const struct {
        const char *words[4], *expected;
    } cases[] = {
        {{"--seed", "3"}, "was made with --seed 0, this run has 3; its losses cannot go on from there"},
        {{"--optimizer", "sgd"}, "was made with --optimizer adamw, this run has sgd"},
        {{"--order", "sequential"}, "was made with --order shuffle, this run has sequential"},
        {{"--val-fraction", "0.3"}, "was made with training windows: 35, this run has 26"},
        {{"--width", "64"}, "holds a gpt2 of 1 layers, 32 wide, 2 heads, context 16, vocabulary 256; this run has 1, 64, 2, 16, 256"},
        {{"--layers", "2"}, "this run has 2, 32, 2, 16, 256"},
        {{"--seq", "8"}, "this run has 1, 32, 2, 8, 256"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program p;
        TRAIN(&p, "gpt2", USUAL, "--steps", "4", "--run", run, "--resume", cases[i].words[0], cases[i].words[1]);
        assert_int_equal(count_of(p.err, "\n"), 1);
        assert_ended(&p, 3, cases[i].expected);
    }
    program p;
    TRAIN(&p, "mlp", USUAL, "--steps", "4", "--run", run, "--resume");
    assert_ended(&p, 3, "was made with model gpt2, this run has mlp");
}

static const char *const files[] = {"state.json", "config.json", "model.safetensors", "optimizer.safetensors"};

/* Cuts or damages each file in turn, at several places. */
static void a_damaged_checkpoint_is_named_and_not_used(void **state)
{
    (void)state;
    const char *run = in_folder("damaged"), *good = in_folder("good");
    TRAIN_WELL("gpt2", USUAL, "--steps", "2", "--run", good);
    for (int file = 0; file < 4; file++) {
        size_t nbytes;
        const char *name = files[file];
        char *bytes = read_file(in_folder("good/step-2/%s", name), &nbytes), path[300], expected[300];
        for (int k = 0; k < 4; k++) {
            size_t at = k == 0 ? 0 : k == 1 ? 1 : k == 2 ? nbytes / 2 : nbytes - 1;
            shell("rm -rf %s && cp -r %s %s", run, good, run);
            snprintf(path, sizeof path, "%s/step-2/%s", run, name);
            if (k == 2)
                bytes[at] ^= 1; /* damaged */
            write_file(path, bytes, k == 2 ? nbytes : at);
            if (k == 2)
                bytes[at] ^= 1;
            program p;
            TRAIN(&p, "gpt2", USUAL, "--steps", "4", "--run", run, "--resume");
            snprintf(expected, sizeof expected, "no checkpoint in %s is whole; the newest: %s", run, path);
            assert_int_equal(count_of(p.err, "\n"), 1);
            assert_ended(&p, 3, expected);
        }
        free(bytes);
        shell("rm -rf %s && cp -r %s %s && rm %s/step-2/%s && mkdir %s/step-2/%s", run, good, run, run, name, run, name);
        program p;
        TRAIN(&p, "gpt2", USUAL, "--steps", "4", "--run", run, "--resume");
        assert_int_equal(count_of(p.err, "\n"), 1);
        assert_ended(&p, 3, path);
    }
}

static void an_older_whole_checkpoint_is_used_with_a_warning(void **state)
{
    (void)state;
    const char *run = in_folder("older"), *whole = in_folder("newest");
    TRAIN_WELL("gpt2", USUAL, "--steps", "6", "--save-every", "2", "--run", whole);
    shell("cp -r %s %s && rm -r %s/step-6 && truncate -s 1000 %s/step-4/model.safetensors", whole, run, run, run);
    program p;
    TRAIN(&p, "gpt2", USUAL, "--steps", "6", "--save-every", "2", "--run", run, "--resume");
    assert_int_equal(p.code, 0);
    assert_int_equal(count_of(p.err, "\n"), 1);
    assert_non_null(strstr(p.err, "step 2 is gone on from: 1 newer checkpoint is not whole: "));
    assert_non_null(strstr(p.err, "model.safetensors has 1000 bytes, its checkpoint was saved with"));
    program_done(&p, 1);
    assert_same_runs(whole, run, 6);
}

static void the_newest_checkpoints_are_kept(void **state)
{
    (void)state;
    TRAIN_WELL("gpt2", USUAL, "--steps", "7", "--save-every", "1", "--keep", "2", "--run", in_folder("kept"));
    for (int step = 1; step <= 7; step++)
        assert_int_equal(exists(in_folder("kept/step-%d", step)), step >= 6);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    setenv("OMP_NUM_THREADS", "1", 1); /* small runs: threads would only wait for each other */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_has_the_bits_of_one_that_never_stopped),
        cmocka_unit_test(a_compressed_run_goes_on_with_the_same_bits),
        cmocka_unit_test(a_run_that_died_between_checkpoints_goes_on_from_the_last),
        cmocka_unit_test(sigterm_saves_and_the_rest_has_the_same_bits),
        cmocka_unit_test(another_number_of_ranks_goes_on_with_the_same_losses),
        cmocka_unit_test(a_short_last_step_of_an_epoch_is_resumed_exactly),
        cmocka_unit_test(a_batch_in_micro_batches_learns_what_it_learns_whole),
        cmocka_unit_test(samples_count_on_when_the_batch_changes),
        cmocka_unit_test(a_checkpoint_of_another_run_is_refused),
        cmocka_unit_test(a_damaged_checkpoint_is_named_and_not_used),
        cmocka_unit_test(an_older_whole_checkpoint_is_used_with_a_warning),
        cmocka_unit_test(the_newest_checkpoints_are_kept),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
