/* training.h - small runs of `tandem train` for tests: a text, a folder of the test's own, what a run wrote. */
#ifndef TESTS_CLI_TRAINING_H
#define TESTS_CLI_TRAINING_H

#include "program.h"

/* Group fixtures: a temporary folder with text.txt in it, 12,000 bytes of a language that can be learnt. */
int training_begin(void **state);
int training_end(void **state);
/* A path in that folder: printf-like; static, 64 at a time. */
const char *in_folder(const char *format, ...) __attribute__((format(printf, 1, 2)));
void write_file(const char *path, const void *data, size_t nbytes);
/* New memory, NUL behind the bytes. nbytes may be NULL. Fails the test where it cannot be read. */
char *read_file(const char *path, size_t *nbytes);
bool exists(const char *path);
void assert_same_files(const char *a, const char *b);
/* model.safetensors and optimizer.safetensors of two checkpoints. */
void assert_same_checkpoints(const char *a, const char *b);

/* The words of a small run: "TANDEM train MODEL ...", these behind them; `out` has room for 64. */
void train_words(const char *model, const char *const *words, const char **out);
/* Starts "TANDEM train" with these words behind it. `model` is "gpt2" or "mlp" with a size of a millisecond a step, bytes of
 * text.txt and --quiet; options that follow win over those. */
void train_start(program *p, const char *model, const char *const *words);
#define TRAIN_START(p, model, ...) train_start(p, model, (const char *const[]){__VA_ARGS__, NULL})
#define TRAIN(p, model, ...)                                                                                           \
    do {                                                                                                               \
        TRAIN_START(p, model, __VA_ARGS__);                                                                            \
        program_wait(p, 40);                                                                                           \
    } while (0)
/* The same, and it must end well. */
void train_well(const char *model, const char *const *words);
#define TRAIN_WELL(model, ...) train_well(model, (const char *const[]){__VA_ARGS__, NULL})
/* Ended with this code and said this on stderr; prints what it said if not, and frees. */
void assert_ended(program *p, int code, const char *text);

typedef struct step_line {
    int64_t step, samples, tokens;
    double loss, lr, grad_norm, val_loss; /* val_loss NAN: none */
} step_line;

typedef struct run_lines {
    step_line *line;
    size_t count;
} run_lines;

/* Reads RUN/metrics.jsonl: every line must be an object with step. Free with free(r.line). */
run_lines read_metrics(const char *run);
/* Steps 1 to `count`, each once and in order. */
void assert_steps(const run_lines *r, size_t count);
/* loss, lr, grad_norm and val_loss: the same bits in lines [first, first + count) of both. */
void assert_same_lines(const run_lines *a, const run_lines *b, size_t first, size_t count);

/* Process ids of the ranks of a job, in the order of ranks; the number found. */
int ranks_of(const program *p, pid_t *pids, int capacity);
/* Waits up to 10 s for it. */
void await_ranks(const program *p, pid_t *pids, int count);
/* Waits up to 20 s until the file is there. */
void await_file(const char *path);

#endif
