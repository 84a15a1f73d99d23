/* test_train_input.c - `tandem train` and what it cannot use: one line that says what, where, and what to do; the exit code. */
#include "training.h"

#include "store/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct wrong_case {
    const char *words[8];
    const char *expected;
} wrong_case;

/* One line from the command, whatever the ranks' number; no run folder stays in the way. */
static void assert_refused(const char *model, const char *ranks, const wrong_case *c, int code)
{
    program p;
    const char *words[16] = {"-n", ranks, "--run", in_folder("refused")};
    for (size_t i = 0; i < 8 && c->words[i] != NULL; i++)
        words[4 + i] = c->words[i];
    train_start(&p, model, words);
    program_wait(&p, 20);
    if (count_of(p.err, "\n") != 1 || strncmp(p.err, "tandem train: ", 14) != 0)
        fail_msg("%s %s: exit code %d, not one line of the command: %s", c->words[0], c->words[1], p.code, p.err);
    assert_string_equal(p.out, "");
    assert_ended(&p, code, c->expected);
    assert_false(exists(in_folder("refused")));
}

static void data_that_cannot_be_used_is_named(void **state)
{
    (void)state;
    uint8_t tokens[8000] = {0};
    uint32_t head[256] = {20240520, 7, 4000};
    const char *unreadable = in_folder("unreadable.txt");
    write_file(in_folder("empty.txt"), "", 0);
    write_file(in_folder("short.txt"), "too short", 9);
    write_file(in_folder("odd.bin"), tokens, 4001);
    write_file(in_folder("version.bin"), head, sizeof head);
    head[1] = 1;
    write_file(in_folder("cut.bin"), head, sizeof head);
    write_file(in_folder("head.bin"), head, 600);
    tokens[2 * 1234 + 1] = 1; /* token 256 */
    write_file(in_folder("large.bin"), tokens, sizeof tokens);
    mkfifo(in_folder("fifo"), 0600);
    write_file(unreadable, "text", 4);
    chmod(unreadable, 0);

    char expected[16][320];
    const wrong_case cases[] = {
        {{"--data", in_folder("missing.txt")}, expected[0]},
        {{"--data", in_folder("empty.txt")}, expected[1]},
        {{"--data", in_folder("short.txt")}, expected[2]},
        {{"--data", in_folder("odd.bin")}, expected[3]},
        {{"--data", in_folder("version.bin")}, expected[4]},
        {{"--data", in_folder("cut.bin")}, expected[5]},
        {{"--data", in_folder("head.bin")}, expected[6]},
        {{"--data", in_folder("large.bin")}, expected[7]},
        {{"--data", in_folder(".")}, expected[8]},
        {{"--data", in_folder("fifo")}, expected[9]},
        {{"--vocab", "100"}, expected[10]},
        {{"--batch", "500"}, expected[11]},
        {{"--data", unreadable}, expected[12]},
    };
    snprintf(expected[0], 320, "cannot open data file %s: No such file or directory", in_folder("missing.txt"));
    snprintf(expected[1], 320, "data file %s is empty", in_folder("empty.txt"));
    snprintf(expected[2], 320, "%s: its 9 tokens for training make 0 windows of 16 tokens; 0 samples are fewer than one batch "
                               "(2 ranks of 2 samples: 4); use more data or a smaller batch", in_folder("short.txt"));
    snprintf(expected[3], 320, "%s has 4001 bytes, an odd number: not a file of 16-bit tokens, or cut off", in_folder("odd.bin"));
    snprintf(expected[4], 320, "%s has a token header of version 7, expected version 1", in_folder("version.bin"));
    snprintf(expected[5], 320, "%s", in_folder("cut.bin"));
    snprintf(expected[6], 320, "%s", in_folder("head.bin"));
    snprintf(expected[7], 320, "%s: token 256 at position 1234 is beyond the vocabulary of 256", in_folder("large.bin"));
    snprintf(expected[8], 320, "data file %s is a directory", in_folder("."));
    snprintf(expected[9], 320, "data file %s is not a regular file", in_folder("fifo"));
    snprintf(expected[10], 320, "%s: token 1", in_folder("text.txt"));
    snprintf(expected[11], 320, "712 samples are fewer than one batch (2 ranks of 500 samples: 1000)");
    snprintf(expected[12], 320, "cannot open data file %s: Permission denied", unreadable);
    size_t count = sizeof cases / sizeof *cases - (geteuid() == 0); /* root may read everything */
    for (size_t i = 0; i < count; i++)
        assert_refused("gpt2", "2", &cases[i], 3);
}

static void options_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    static const wrong_case cases[] = {
        {{"--frobnicate"}, "unknown option --frobnicate; `tandem train --help` lists them"},
        {{"--accum", "0"}, "--accum 0: a whole number from 1 to 65536 is needed"},
        {{"--layers", "-1"}, "--layers -1: a whole number from 1 to 1000 is needed"},
        {{"--layers", "99999999999999999999"}, "--layers 99999999999999999999: a whole number from 1 to 1000 is needed"},
        {{"--layers", "2x"}, "--layers 2x: a whole number"},
        {{"--width"}, "--width needs a value (N)"},
        {{"--width", "33"}, "width 33 is not divisible by heads 2"},
        {{"--heads", "0"}, "--heads 0: a whole number from 1 to 65536 is needed"},
        {{"--seq", "2000000"}, "--seq 2000000: a whole number from 1 to 1048576 is needed"},
        {{"--batch", "0"}, "--batch 0: a whole number from 1 to 1048576 is needed"},
        {{"--steps", "5", "--epochs", "2"}, "--steps 5 and --epochs 2: give one of them"},
        {{"--steps", "0"}, "--steps 0: a whole number from 1 to 1000000000 is needed"},
        {{"--betas", "0.9"}, "--betas 0.9: two numbers with ',' between them are needed"},
        {{"--betas", "0.9,0.95,1"}, "--betas 0.9,0.95,1: two numbers with ','"},
        {{"--betas", "0.9,1"}, "--betas 0.9,1: two numbers from 0 to below 1 are needed"},
        {{"--betas", "-1,0.9"}, "--betas -1,0.9: two numbers from 0 to below 1 are needed"},
        {{"--trace", "3"}, "--trace 3: two numbers with ':' between them are needed"},
        {{"--trace", "3:1"}, "--trace 3:1: steps from 1 on, the second not before the first"},
        {{"--trace", "0:1"}, "--trace 0:1: steps from 1 on"},
        {{"--precision", "f8"}, "--precision f8: one of f32|bf16|f16 is needed"},
        {{"--shard", "4"}, "--shard 4: a whole number from 0 to 3 is needed"},
        {{"--lr", "-1"}, "--lr -1: a number from 0 to 1000 is needed"},
        {{"--lr", "nan"}, "--lr nan: a number from 0 to 1000 is needed"},
        {{"--dropout", "1"}, "--dropout 1: a number from 0 to 0.99 is needed"},
        {{"--val-fraction", "1"}, "--val-fraction 1: a number from 0 to 0.9 is needed"},
        {{"--bucket-mb", "0"}, "--bucket-mb 0: it takes a number of MiB, more than 0 up to 1048576, a list as 1,25,25, or auto"},
        {{"--optimizer", "lamb"}, "--optimizer lamb: one of adamw|sgd is needed"},
        {{"--order", "random"}, "--order random: one of shuffle|sequential is needed"},
        {{"--tokenizer", "words"}, "--tokenizer words: one of bytes|gpt2 is needed"},
        {{"--preset", "nope"}, "gpt2 has no preset \"nope\"; there are: gpt2, gpt2-medium"},
        {{"--keep", "0"}, "--keep 0: a whole number from 1"},
        {{"--seed", "-1"}, "--seed -1: a whole number"},
        {{"extra"}, "one model is enough; usage: tandem train MODEL [OPTIONS], MODEL is gpt2 or mlp"},
        {{"--nnodes", "2"}, "2 nodes need --rdzv HOST:PORT"},
        {{"-n", "0"}, "-n 0: a whole number from 1 to 4096 is needed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("gpt2", "2", &cases[i], 2);
    assert_refused("mlp", "2", &(wrong_case){{"--heads", "2"}, "--heads has no meaning for model mlp"}, 2);
    assert_refused("resnet18", "2", &(wrong_case){{NULL}, "there is no model \"resnet18\"; there are: gpt2, mlp"}, 2);
}

static void a_model_beyond_the_memory_is_refused_before_anything_starts(void **state)
{
    (void)state;
    assert_refused("gpt2", "2", &(wrong_case){{"--width", "65536", "--layers", "100"}, "need"}, 5);
    assert_refused("gpt2", "2", &(wrong_case){{"--width", "65536", "--layers", "100"}, "GiB of memory; choose a smaller model or fewer ranks"}, 5);
}

static void no_model_and_no_data_are_said(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "train");
    assert_ended(&p, 2, "no model; usage: tandem train MODEL [OPTIONS], MODEL is gpt2 or mlp\n");
    RUN(&p, "TANDEM", "train", "mlp", "-n", "2", "--quiet", "--run", in_folder("refused"));
    assert_int_equal(count_of(p.err, "\n"), 1);
    assert_ended(&p, 2, "--data is missing: a file of text, or of uint16 tokens (.bin)\n");
}

static void a_run_folder_is_new_empty_or_resumed(void **state)
{
    (void)state;
    char expected[320];
    const char *run = in_folder("run");
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "2", "--run", run);
    program p;
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", run);
    snprintf(expected, sizeof expected, "tandem train: --run %s: it exists already; add --resume to go on in it, or give another folder\n", run);
    assert_string_equal(p.err, expected);
    assert_ended(&p, 2, "");
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", run, "--resume");
    assert_ended(&p, 2, "step-2: step 2 is done already; the run has 2 steps, --steps can give it more\n");
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", in_folder("no/run"), "--resume");
    assert_ended(&p, 3, "there is no run in");
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", in_folder("text.txt"));
    assert_ended(&p, 2, "a file of this name is in the way");
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", in_folder("text.txt/x"));
    assert_int_equal(count_of(p.err, "\n"), 1);
    assert_ended(&p, 1, "making the run's folder");
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", "/proc/tandem");
    assert_ended(&p, 1, "making the run's folder /proc/tandem: No such file or directory");
    mkdir(in_folder("empty"), 0777);
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "2", "--run", in_folder("empty"));
    assert_true(exists(in_folder("empty/step-2/state.json")));
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "2", "--run", in_folder("deep/er/run")); /* parents are made */
    mkdir(in_folder("begun"), 0777);
    write_file(in_folder("begun/metrics.jsonl"), "{\"step\":1}\n{\"st", 15); /* died before the first checkpoint */
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "2", "--run", in_folder("begun"), "--resume");
    run_lines lines = read_metrics(in_folder("begun"));
    assert_steps(&lines, 2);
    free(lines.line);
}

static void a_run_folder_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    if (geteuid() == 0 && access("/sys/kernel", W_OK) == 0) { /* root writes everywhere, but no file can be made there */
        program p;
        TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", "/sys/kernel/tandem");
        assert_int_equal(count_of(p.err, "\n"), 1);
        assert_ended(&p, 1, "making the run's folder /sys/kernel/tandem: ");
        return;
    }
    const char *folder = in_folder("closed");
    mkdir(folder, 0555);
    program p;
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "2", "--run", in_folder("closed/run"));
    assert_ended(&p, 1, "making the run's folder");
}

static void a_taken_port_is_one_line(void **state)
{
    (void)state;
    int fd, port;
    char text[16], expected[96];
    assert_int_equal(tdmi_socket_listen("127.0.0.1", 0, &fd, &port), 0);
    snprintf(text, sizeof text, "%d", port);
    snprintf(expected, sizeof expected, "tandem train: port %d is taken by pid %d (", port, (int)getpid());
    program p;
    TRAIN(&p, "gpt2", "-n", "2", "--port", text, "--run", in_folder("ports"));
    assert_true(p.seconds < 3);
    assert_int_equal(count_of(p.err, "\n"), 1);
    assert_ended(&p, 1, expected);
    assert_false(exists(in_folder("ports")));
    close(fd);
}

static void explain_needs_no_data_and_says_every_default(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "train", "gpt2", "--explain", "-n", "3", "--preset", "bytes", "--bucket-mb", "2");
    assert_string_equal(p.err, "");
    static const char *const expected[] = {
        "model      gpt2, preset bytes", "batch      ", " a rank, 3 ranks, 1 micro-batch:", "length     1 epoch", "optimizer  adamw, betas 0.9 and 0.95, eps 1e-08",
        "weight decay 0.1", "lr         ", "warm-up ", "then cosine to a tenth", "clip       gradient norm 1", "precision  f32", "shard      1",
        "seed 0", "the last 0.05 of the tokens validate", "the newest 3 are kept, in runs/gpt2", "kernels    isa ", "bucket 0:", "bucket 1:",
        "optimizer state", "reduce", "slab "};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (strstr(p.out, expected[i]) == NULL)
            fail_msg("\"%s\" is not in %s", expected[i], p.out);
    assert_ended(&p, 0, "");
    assert_false(exists("runs/gpt2"));
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_that_cannot_be_used_is_named),
        cmocka_unit_test(options_that_cannot_be_used_are_named),
        cmocka_unit_test(a_model_beyond_the_memory_is_refused_before_anything_starts),
        cmocka_unit_test(no_model_and_no_data_are_said),
        cmocka_unit_test(a_run_folder_is_new_empty_or_resumed),
        cmocka_unit_test(a_run_folder_that_cannot_be_written_is_named),
        cmocka_unit_test(a_taken_port_is_one_line),
        cmocka_unit_test(explain_needs_no_data_and_says_every_default),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
