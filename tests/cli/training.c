/* training.c - starting small runs and reading what they wrote. */
#include "training.h"

#include "core/clock.h"
#include "launch/process.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

const char *in_folder(const char *format, ...)
{
    static char paths[64][256];
    static int turn;
    char *path = paths[turn++ % 64];
    int used = snprintf(path, sizeof paths[0], "%s/", folder);
    va_list args;
    va_start(args, format);
    vsnprintf(path + used, sizeof paths[0] - (size_t)used, format, args);
    va_end(args);
    return path;
}

void write_file(const char *path, const void *data, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || (nbytes > 0 && fwrite(data, nbytes, 1, file) != 1) || fclose(file) != 0)
        fail_msg("cannot write %s", path);
}

char *read_file(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("cannot read %s", path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, size, file), size);
    text[size] = '\0';
    fclose(file);
    if (nbytes != NULL)
        *nbytes = size;
    return text;
}

bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int training_begin(void **state)
{
    (void)state;
    static const char *const words[] = {"the", "lord", "said", "unto", "people", "of", "land", "day", "house", "king", "came", "and"};
    char text[12000];
    unsigned draw = 1;
    snprintf(folder, sizeof folder, "/tmp/tandem-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    for (size_t used = 0; used < sizeof text;) {
        draw = draw * 1103515245u + 12345u;
        const char *word = words[draw / 65536 % (sizeof words / sizeof *words)];
        for (; *word != '\0' && used < sizeof text; word++)
            text[used++] = *word;
        if (used < sizeof text)
            text[used++] = ' ';
    }
    write_file(in_folder("text.txt"), text, sizeof text);
    return 0;
}

int training_end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

void assert_same_files(const char *a, const char *b)
{
    size_t an, bn;
    char *at = read_file(a, &an), *bt = read_file(b, &bn);
    if (an != bn || memcmp(at, bt, an) != 0)
        fail_msg("%s and %s differ", a, b);
    free(at);
    free(bt);
}

void assert_same_checkpoints(const char *a, const char *b)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    for (int i = 0; i < 2; i++) {
        char paths[2][320];
        snprintf(paths[0], sizeof paths[0], "%s/%s", a, names[i]);
        snprintf(paths[1], sizeof paths[1], "%s/%s", b, names[i]);
        assert_same_files(paths[0], paths[1]);
    }
}

void train_words(const char *model, const char *const *words, const char **out)
{
    const char *usual[] = {"TANDEM", "train", model, "--quiet", "--data", in_folder("text.txt"), "--vocab", "256", "--width", "32",
                           "--seq", "16", "--batch", "2", "--layers", "1", "--heads", "2"};
    size_t n = strcmp(model, "gpt2") == 0 ? 18 : 16;
    memcpy(out, usual, n * sizeof *out);
    for (; *words != NULL && n < 63; words++)
        out[n++] = *words;
    out[n] = NULL;
}

void train_start(program *p, const char *model, const char *const *words)
{
    const char *all[64];
    train_words(model, words, all);
    program_start(p, all);
}

void train_well(const char *model, const char *const *words)
{
    program p;
    train_start(&p, model, words);
    program_wait(&p, 40);
    if (p.code != 0)
        fail_msg("exit code %d; stderr: %.2000s", p.code, p.err);
    assert_string_equal(p.err, "");
    program_done(&p, 1);
}

void assert_ended(program *p, int code, const char *text)
{
    if (p->code != code || strstr(p->err, text) == NULL)
        fail_msg("expected exit code %d and \"%s\"; got exit code %d and stderr: %.2000s", code, text, p->code, p->err);
    program_done(p, 1);
}

static double number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

run_lines read_metrics(const char *run)
{
    char path[320];
    run_lines r = {NULL, 0};
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = read_file(path, NULL);
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        if (end == NULL)
            fail_msg("%s ends within a line", path);
        *end = '\0';
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(object) || !json_is_integer(json_object_get(object, "step")))
            fail_msg("%s: not a line of metrics: %s", path, line);
        r.line = realloc(r.line, (r.count + 1) * sizeof *r.line);
        assert_non_null(r.line);
        r.line[r.count++] = (step_line){.step = json_integer_value(json_object_get(object, "step")),
                                        .samples = json_integer_value(json_object_get(object, "samples")),
                                        .tokens = json_integer_value(json_object_get(object, "tokens")),
                                        .loss = number_of(object, "loss"),
                                        .lr = number_of(object, "lr"),
                                        .grad_norm = number_of(object, "grad_norm"),
                                        .val_loss = number_of(object, "val_loss")};
        json_decref(object);
    }
    free(text);
    return r;
}

void assert_steps(const run_lines *r, size_t count)
{
    for (size_t i = 0; i < r->count; i++)
        assert_int_equal(r->line[i].step, i + 1);
    assert_int_equal(r->count, count);
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

void assert_same_lines(const run_lines *a, const run_lines *b, size_t first, size_t count)
{
    assert_true(a->count >= first + count && b->count >= first + count);
    for (size_t i = first; i < first + count; i++) {
        const step_line *x = &a->line[i], *y = &b->line[i];
        if (x->step != y->step || !same(x->loss, y->loss) || !same(x->lr, y->lr) || !same(x->grad_norm, y->grad_norm) ||
            !same(x->val_loss, y->val_loss))
            fail_msg("step %lld: loss %.17g and %.17g, lr %.17g and %.17g, grad_norm %.17g and %.17g, val_loss %.17g and %.17g",
                     (long long)x->step, x->loss, y->loss, x->lr, y->lr, x->grad_norm, y->grad_norm, x->val_loss, y->val_loss);
    }
}

typedef struct rank_search {
    const char *job_id;
    pid_t *pids;
    int capacity, found;
} rank_search;

static void look(const tdmi_process *process, void *arg)
{
    rank_search *s = arg;
    char job[64], rank[32];
    snprintf(job, sizeof job, "TANDEM_JOB_ID=%s", s->job_id);
    const char *entries[2] = {job, rank};
    for (int r = 0; r < s->capacity; r++) {
        snprintf(rank, sizeof rank, "RANK=%d", r);
        if (process->session == process->pid && tdmi_process_has_environment(process->pid, entries, 2)) {
            s->found += s->pids[r] == 0;
            s->pids[r] = process->pid;
        }
    }
}

int ranks_of(const program *p, pid_t *pids, int capacity)
{
    rank_search s = {.job_id = p->job_id, .pids = pids, .capacity = capacity};
    memset(pids, 0, (size_t)capacity * sizeof *pids);
    tdmi_process_each(look, &s);
    return s.found;
}

void await_ranks(const program *p, pid_t *pids, int count)
{
    int64_t deadline_ns = tdmi_deadline_in(10);
    while (ranks_of(p, pids, count) < count) {
        if (tdmi_deadline_passed(deadline_ns))
            fail_msg("the ranks did not start");
        usleep(2000);
    }
}

void await_file(const char *path)
{
    int64_t deadline_ns = tdmi_deadline_in(20);
    while (!exists(path)) {
        if (tdmi_deadline_passed(deadline_ns))
            fail_msg("%s does not come", path);
        usleep(1000);
    }
}
