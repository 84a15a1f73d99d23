/* test_train_output.c - what `tandem train` writes: lines for machines, words for people, the timeline; options that shape a run. */
#include "training.h"

#include "core/clock.h"

#include <jansson.h>
#include <math.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- for machines ---- */

static const char *const step_fields[] = {"step", "loss", "lr", "grad_norm", "samples", "tokens", "step_ms", "data_ms", "forward_ms", "backward_ms",
    "comm_ms", "comm_exposed_ms", "optimizer_ms", "tokens_per_s", "sent_mb", "images_per_s", "scale", "skipped", "val_loss", NULL};
static const char *const summary_fields[] = {"model", "parameters", "ranks", "steps", "median_step_ms", "tokens_per_s", "images_per_s", "comm_share",
    "exposed_comm_share", "peak_rss_mb", "sent_mb", "plain_mb", "train_loss", "val_loss", "seconds", NULL};

/* Exactly these fields, in this order; the last of a step's may be absent. */
static void assert_fields(const json_t *object, const char *const *names)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        assert_non_null(names[n]);
        assert_string_equal(key, names[n]);
        n++;
    }
    assert_true(names[n] == NULL || strcmp(names[n], "val_loss") == 0);
}

static void json_on_stdout_is_strict_and_complete(void **state)
{
    (void)state;
    program p;
    char before[4096] = "";
    setenv("TANDEM_LOG", "debug", 1); /* whatever is logged, stdout is for machines */
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "6", "--eval-every", "3", "--json", "--run", in_folder("json"));
    unsetenv("TANDEM_LOG");
    assert_int_equal(p.code, 0);
    assert_int_equal(count_of(p.out, "\n"), 7);
    char *metrics = read_file(in_folder("json/metrics.jsonl"), NULL), *summary = read_file(in_folder("json/summary.json"), NULL);
    snprintf(before, sizeof before, "%s%s", metrics, summary);
    assert_string_equal(p.out, before); /* the same text as in the files */
    int lines = 0;
    for (char *save, *line = strtok_r(p.out, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save), lines++) {
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(object);
        assert_fields(object, lines < 6 ? step_fields : summary_fields);
        if (lines < 6) {
            assert_int_equal(json_integer_value(json_object_get(object, "step")), lines + 1);
            assert_int_equal(json_is_real(json_object_get(object, "val_loss")), lines == 2 || lines == 5);
            assert_true(json_is_null(json_object_get(object, "scale")) && json_is_null(json_object_get(object, "skipped")) &&
                        json_is_null(json_object_get(object, "images_per_s")));
            double step = json_number_value(json_object_get(object, "step_ms")), parts = 0;
            for (int i = 7; i <= 12; i++) /* data, forward, backward, exposed communication, optimizer */
                parts += i == 10 ? 0 : json_number_value(json_object_get(object, step_fields[i]));
            assert_true(step > 0 && parts <= step * 1.001 + 0.01);
            assert_true(json_number_value(json_object_get(object, "comm_ms")) >= json_number_value(json_object_get(object, "comm_exposed_ms")));
        } else {
            assert_string_equal(json_string_value(json_object_get(object, "model")), "gpt2");
            assert_int_equal(json_integer_value(json_object_get(object, "ranks")), 2);
            assert_int_equal(json_integer_value(json_object_get(object, "steps")), 6);
            assert_int_equal(json_integer_value(json_object_get(object, "parameters")), 256 * 32 + 1024 * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32);
            assert_true(json_number_value(json_object_get(object, "peak_rss_mb")) > 1);
            assert_true(json_number_value(json_object_get(object, "seconds")) > 0);
        }
        json_decref(object);
    }
    free(metrics);
    free(summary);
    program_done(&p, 1);
}

/* ---- for people ---- */

static void without_a_terminal_there_are_lines_and_no_bar(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "train", "gpt2", "--data", in_folder("text.txt"), "--vocab", "256", "--width", "32", "--heads", "2", "--seq", "16", "--batch", "2",
        "--layers", "1", "-n", "2", "--steps", "100", "--run", in_folder("words"));
    assert_int_equal(p.code, 0);
    assert_string_equal(p.out, "");
    assert_null(strchr(p.err, '\r'));
    assert_null(strchr(p.err, '\033'));
    assert_null(strstr(p.err, "\u2588"));
    assert_in_range(count_of(p.err, "  loss "), 15, 25);
    assert_int_equal(count_of(p.err, ": validation loss "), 10);
    static const char *const expected[] = {
        "gpt2, preset gpt2: 53728 parameters on 2 ranks, 64 tokens a step, 712 windows to train on, 37 held out\n", "step 100/100  loss ", " tokens/s  left ",
        "  communication ", "(37 windows)\n", "\nsample:\n", "100 steps in ", "median step ", "exposed communication ", "memory of all ranks ", " MiB\n",
        ", validation loss ", " nats a token\n", "\ncheckpoint  ", "/step-100\n", "\nmetrics     ", "\ntimeline    "};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (strstr(p.err, expected[i]) == NULL)
            fail_msg("\"%s\" is not in %s", expected[i], p.err);
    program_done(&p, 1);
}

static void a_terminal_gets_a_bar(void **state)
{
    (void)state;
    int terminal;
    char text[65536];
    size_t used = 0;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child == 0) {
        execl(tandem_path, tandem_path, "train", "gpt2", "--data", in_folder("text.txt"), "--vocab", "256", "--width", "64", "--heads", "2", "--seq", "64",
              "--batch", "4", "--layers", "2", "-n", "2", "--steps", "60", "--run", in_folder("bar"), (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    for (ssize_t got; used < sizeof text - 1 && (got = read(terminal, text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(terminal);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const char *last = strstr(text, "step 60/60  loss ");
    assert_non_null(last);
    assert_true(count_of(text, "\r\u2588") + count_of(text, "\r\u2591") >= 2); /* drawn again and again in its place */
    int full = 0;
    for (const char *at = last - 1; at - 3 >= text && strncmp(at - 3, "\u2588", 3) == 0; at -= 3)
        full++;
    assert_true(full >= 10); /* cells, all full at the end */
    assert_null(strstr(text, "\u2591 step 60/60"));
    static const char *const expected[] = {" tokens/s  left 0:0", "  communication ", " %\033[K", "\r\033[Kstep 60: validation loss ", "\nsample:"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (strstr(text, expected[i]) == NULL)
            fail_msg("\"%s\" is not in %s", expected[i], text);
}

/* ---- the timeline ---- */

static json_t *timeline_of(const char *run, int64_t first, int64_t last, int ranks)
{
    char path[320], seen[64][8] = {{0}};
    snprintf(path, sizeof path, "%s/timeline.json", run);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL), *event;
    assert_non_null(root);
    size_t i;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0)
            continue;
        int64_t step = json_integer_value(json_object_get(json_object_get(event, "args"), "step"));
        if (step < first || step > last)
            fail_msg("%s holds an event of step %lld", path, (long long)step);
        seen[step][json_integer_value(json_object_get(event, "pid"))] = 1;
    }
    for (int64_t step = first; step <= last; step++)
        for (int r = 0; r < ranks; r++)
            if (!seen[step][r])
                fail_msg("%s has no event of step %lld, rank %d", path, (long long)step, r);
    return root;
}

static double number(const json_t *event, const char *name)
{
    return json_number_value(json_object_get(event, name));
}

static void the_timeline_holds_the_steps_that_were_asked_for(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2"};
    for (int i = 0; i < 2; i++) {
        TRAIN_WELL("gpt2", "-n", ranks[i], "--steps", "9", "--trace", "2:4", "--run", in_folder("some-%d", i));
        json_decref(timeline_of(in_folder("some-%d", i), 2, 4, i + 1));
        TRAIN_WELL("gpt2", "-n", ranks[i], "--steps", "9", "--run", in_folder("last-%d", i));
        json_decref(timeline_of(in_folder("last-%d", i), 7, 9, i + 1)); /* the last three */
    }
}

static void reductions_run_while_backward_goes_on(void **state)
{
    (void)state;
    TRAIN_WELL("gpt2", "-n", "2", "--layers", "2", "--width", "64", "--bucket-mb", "0.05", "--steps", "3", "--trace", "3:3", "--run", in_folder("overlap"));
    json_t *root = timeline_of(in_folder("overlap"), 3, 3, 2), *event;
    double last_backward[2] = {0}, first_start[2] = {INFINITY, INFINITY};
    int buckets[2] = {0}, early[2] = {0};
    size_t i;
    json_t *events = json_object_get(root, "traceEvents");
    json_array_foreach(events, i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        int rank = (int)number(event, "pid");
        if (strcmp(name, "embedding embedding_backward") == 0)
            last_backward[rank] = number(event, "ts");
    }
    json_array_foreach(events, i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        int rank = (int)number(event, "pid");
        if (strncmp(name, "bucket ", 7) != 0 || strstr(name, " reduce-scatter") == NULL)
            continue;
        buckets[rank]++;
        early[rank] += number(event, "ts") < last_backward[rank];
        first_start[rank] = fmin(first_start[rank], number(event, "ts"));
        assert_true(number(event, "dur") > 0);
        assert_true(json_integer_value(json_object_get(json_object_get(event, "args"), "bytes")) > 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_true(buckets[rank] >= 4);
        assert_true(early[rank] >= buckets[rank] / 2); /* most start before the last node of backward begins */
        int beside = 0; /* computation that began while a reduction was under way */
        json_array_foreach(events, i, event) beside += (int)number(event, "pid") == rank && number(event, "ts") > first_start[rank] &&
            number(event, "ts") <= last_backward[rank] && strstr(json_string_value(json_object_get(event, "name")), "_backward") != NULL;
        assert_true(beside >= 4);
    }
    json_decref(root);
}

/* Padded elements of each bucket, as --explain prints them. */
static int planned_buckets(const char *bucket_mb, long *elements)
{
    program p;
    int count = 0;
    const char *words[64], *more[] = {"-n", "2", "--layers", "2", "--width", "64", "--bucket-mb", bucket_mb, "--explain", NULL};
    train_words("gpt2", more, words);
    program_start(&p, words);
    program_wait(&p, 20);
    for (const char *at = strstr(p.out, "\nbucket 0:"); at != NULL; at = strstr(at + 1, "\nbucket "), count++)
        if (sscanf(at, "\nbucket %*d: %*d parameters, %*d elements, padded to %ld", &elements[count]) != 1)
            break;
    assert_non_null(strstr(p.out, "buckets of gradients, MiB: "));
    assert_ended(&p, 0, "");
    return count;
}

static void the_printed_plan_of_buckets_is_obeyed(void **state)
{
    (void)state;
    static const char *const sizes[] = {"0.05", "0.01,0.1,0.03", "auto", "100"};
    for (int i = 0; i < 4; i++) {
        long elements[64];
        const int planned = planned_buckets(sizes[i], elements);
        assert_true(i == 3 ? planned == 1 : planned > 1); /* one bucket is one collective */
        TRAIN_WELL("gpt2", "-n", "2", "--layers", "2", "--width", "64", "--bucket-mb", sizes[i], "--steps", "2", "--trace", "2:2", "--run",
                   in_folder("plan-%d", i));
        json_t *root = timeline_of(in_folder("plan-%d", i), 2, 2, 2), *event;
        size_t k;
        int found[2] = {0};
        json_array_foreach(json_object_get(root, "traceEvents"), k, event) {
            int bucket;
            if (sscanf(json_string_value(json_object_get(event, "name")), "bucket %d reduce-scatter", &bucket) != 1 ||
                strstr(json_string_value(json_object_get(event, "name")), "reduce-scatter") == NULL)
                continue;
            assert_in_range(bucket, 0, planned - 1);
            assert_int_equal(json_integer_value(json_object_get(json_object_get(event, "args"), "bytes")), elements[bucket] * 4);
            found[(int)number(event, "pid")]++;
        }
        assert_int_equal(found[0], planned);
        assert_int_equal(found[1], planned);
        json_decref(root);
    }
}

/* Report 46: elsewhere a mask drawn again belongs to another sample, and only the loss shows it. */
static void activations_computed_again_change_no_bit_with_dropout(void **state)
{
    (void)state;
    static const char *const ways[][2] = {{"--remat", "none"}, {"--remat", "blocks"}, {"--remat", "2"}, {"--memory", "1650K"}};
    for (int ranks = 1; ranks <= 2; ranks++) {
        run_lines lines[4];
        for (int i = 0; i < 4; i++) {
            const char *run = in_folder("again-%d-%d", ranks, i);
            TRAIN_WELL("gpt2", "-n", ranks == 1 ? "1" : "2", "--layers", "4", "--dropout", "0.1", "--steps", "20", "--shard", "0", ways[i][0], ways[i][1], "--run", run);
            lines[i] = read_metrics(run);
            assert_steps(&lines[i], 20);
            assert_same_lines(&lines[0], &lines[i], 0, 20);
            assert_same_checkpoints(in_folder("again-%d-0/step-20", ranks), in_folder("again-%d-%d/step-20", ranks, i));
        }
        for (int i = 0; i < 4; i++)
            free(lines[i].line);
    }
}

/* ---- options that shape a run ---- */

static run_lines lines_of(const char *model, const char *run, const char *const *words)
{
    const char *all[48] = {"--run", in_folder("%s", run)};
    for (size_t n = 2; *words != NULL; words++)
        all[n++] = *words;
    train_well(model, all);
    return read_metrics(in_folder("%s", run));
}
#define LINES(model, run, ...) lines_of(model, run, (const char *const[]){__VA_ARGS__, NULL})

static void epochs_and_order_decide_what_is_seen(void **state)
{
    (void)state;
    char *text = read_file(in_folder("text.txt"), NULL);
    write_file(in_folder("few.txt"), text, 600); /* 35 windows to train on: 8 steps an epoch, 3 windows over */
    free(text);
    run_lines order = LINES("gpt2", "in-order", "-n", "2", "--data", in_folder("few.txt"), "--epochs", "2", "--order", "sequential", "--lr", "0");
    run_lines mixed = LINES("gpt2", "shuffled", "-n", "2", "--data", in_folder("few.txt"), "--epochs", "2", "--lr", "0");
    run_lines steps = LINES("gpt2", "by-steps", "-n", "2", "--data", in_folder("few.txt"), "--steps", "16", "--lr", "0");
    assert_steps(&order, 16);
    assert_steps(&mixed, 16);
    assert_same_lines(&mixed, &steps, 0, 16); /* the same run, said otherwise */
    int differ = 0;
    for (int i = 0; i < 8; i++) { /* the weights do not change: equal samples, equal loss */
        assert_true(order.line[i].loss == order.line[i + 8].loss);
        differ += mixed.line[i].loss != mixed.line[i + 8].loss;
    }
    assert_true(differ >= 7);
    free(order.line);
    free(mixed.line);
    free(steps.line);
    TRAIN_WELL("gpt2", "-n", "2", "--data", in_folder("few.txt"), "--run", in_folder("one-epoch")); /* the default */
    run_lines one = read_metrics(in_folder("one-epoch"));
    assert_steps(&one, 8);
    free(one.line);
}

static void evaluation_comes_at_its_interval_and_at_the_end(void **state)
{
    (void)state;
    run_lines r = LINES("gpt2", "evaluated", "-n", "2", "--steps", "10", "--eval-every", "4");
    for (int i = 0; i < 10; i++)
        assert_int_equal(!isnan(r.line[i].val_loss), i == 3 || i == 7 || i == 9);
    free(r.line);
}

static void a_seed_decides_weights_and_order(void **state)
{
    (void)state;
    run_lines a = LINES("gpt2", "seed-a", "-n", "2", "--steps", "5", "--seed", "7", "--dropout", "0.1");
    run_lines b = LINES("gpt2", "seed-b", "-n", "2", "--steps", "5", "--seed", "7", "--dropout", "0.1");
    run_lines c = LINES("gpt2", "seed-c", "-n", "2", "--steps", "5", "--seed", "8", "--dropout", "0.1");
    assert_same_lines(&a, &b, 0, 5);
    assert_same_checkpoints(in_folder("seed-a/step-5"), in_folder("seed-b/step-5"));
    for (int i = 0; i < 5; i++)
        assert_true(a.line[i].loss != c.line[i].loss);
    free(a.line);
    free(b.line);
    free(c.line);
}

static void both_models_learn_with_both_optimizers(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2", "mlp"}, *const optimizers[] = {"adamw", "sgd"}, *const rates[] = {"1e-2", "0.3"};
    for (int m = 0; m < 2; m++)
        for (int o = 0; o < 2; o++) {
            char run[32];
            snprintf(run, sizeof run, "learns-%d-%d", m, o);
            run_lines r = LINES(models[m], run, "-n", "2", "--batch", "8", "--steps", "120", "--optimizer", optimizers[o], "--lr", rates[o]);
            assert_steps(&r, 120);
            double first = r.line[11].val_loss, last = r.line[119].val_loss;
            if (!(last < 3.2 && last < first)) /* log 256 is 5.5, the entropy of its letters about 2.9 */
                fail_msg("%s with %s: validation loss %g, then %g", models[m], optimizers[o], first, last);
            free(r.line);
        }
}

static void the_learning_rate_warms_up_and_falls(void **state)
{
    (void)state;
    run_lines r = LINES("gpt2", "rates", "-n", "1", "--steps", "40", "--lr", "1e-3"); /* the default warm-up is a tenth of a short run */
    assert_true(fabs(r.line[0].lr - 2.5e-4) < 1e-9 && fabs(r.line[3].lr - 1e-3) < 1e-9);
    assert_true(fabs(r.line[39].lr - 1e-4) < 1e-5);
    for (int i = 4; i < 40; i++)
        assert_true(r.line[i].lr < r.line[i - 1].lr);
    free(r.line);
    r = LINES("gpt2", "linear", "-n", "1", "--steps", "10", "--lr", "1e-3", "--warmup", "0", "--schedule", "constant");
    assert_true(r.line[0].lr == 1e-3 && r.line[9].lr == 1e-3);
    free(r.line);
}

static void a_loss_that_is_not_finite_stops_the_run(void **state)
{
    (void)state;
    program p;
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "50", "--optimizer", "sgd", "--lr", "1000", "--warmup", "0", "--clip", "0", "--schedule", "constant", "--run",
          in_folder("diverged"));
    assert_int_equal(p.code, 1);
    assert_non_null(strstr(p.err, "tandem train: step "));
    assert_non_null(strstr(p.err, ", rank "));
    assert_in_range(count_of(p.err, "\n"), 1, 2);
    assert_ended(&p, 1, "Lower --lr, set --clip, or go on from an earlier checkpoint\n");
}

/* ---- memory ---- */

static long resident_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

static void memory_stays_flat_over_2000_steps(void **state)
{
    (void)state;
    program p;
    pid_t pids[2];
    long early[2], late[2];
    const char *sanitizer = getenv("ASAN_OPTIONS");
    char options[1024];
    if (sanitizer != NULL) { /* what a sanitizer holds back to find late uses is no growth of ours */
        snprintf(options, sizeof options, "%s:quarantine_size_mb=0:thread_local_quarantine_size_kb=0", sanitizer);
        setenv("ASAN_OPTIONS", options, 1);
    }
    TRAIN_START(&p, "gpt2", "-n", "2", "--steps", "100000", "--eval-every", "150", "--dropout", "0.1", "--json", "--run", in_folder("flat"));
    program_await(&p, "\"step\":200,", 1);
    assert_int_equal(ranks_of(&p, pids, 2), 2);
    for (int r = 0; r < 2; r++)
        early[r] = resident_kib(pids[r]);
    program_await(&p, "\"step\":2000,", 1);
    for (int r = 0; r < 2; r++)
        late[r] = resident_kib(pids[r]);
    kill(p.pid, SIGINT);
    program_wait(&p, 20);
    assert_ended(&p, 130, "interrupted after step ");
    for (int r = 0; r < 2; r++)
        if (late[r] > early[r] + 1024)
            fail_msg("rank %d: %ld KiB after step 200, %ld after step 2000", r, early[r], late[r]);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    setenv("OMP_NUM_THREADS", "1", 1); /* small runs: threads would only wait for each other */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_on_stdout_is_strict_and_complete),
        cmocka_unit_test(without_a_terminal_there_are_lines_and_no_bar),
        cmocka_unit_test(a_terminal_gets_a_bar),
        cmocka_unit_test(the_timeline_holds_the_steps_that_were_asked_for),
        cmocka_unit_test(activations_computed_again_change_no_bit_with_dropout),
        cmocka_unit_test(the_printed_plan_of_buckets_is_obeyed),
        cmocka_unit_test(reductions_run_while_backward_goes_on),
        cmocka_unit_test(epochs_and_order_decide_what_is_seen),
        cmocka_unit_test(evaluation_comes_at_its_interval_and_at_the_end),
        cmocka_unit_test(a_seed_decides_weights_and_order),
        cmocka_unit_test(both_models_learn_with_both_optimizers),
        cmocka_unit_test(the_learning_rate_warms_up_and_falls),
        cmocka_unit_test(a_loss_that_is_not_finite_stops_the_run),
        cmocka_unit_test(memory_stays_flat_over_2000_steps),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
