/* lint.h - the rules and what they find. A rule is a row in rules.c and a check in the file of its family. */
#ifndef TDMI_LINT_LINT_H
#define TDMI_LINT_LINT_H

#include "lint/launch.h"
#include "lint/train.h"

/* error: the program is wrong, fails or hangs. warning: it loses time, data or memory. note: worth a thought; often meant. */
typedef enum { TDMI_LINT_ERROR, TDMI_LINT_WARNING, TDMI_LINT_NOTE } tdmi_lint_severity;

#define TDMI_RULE_MAP(X)                                                                                               \
    X(UNKNOWN_OPTION) X(UNKNOWN_VARIABLE) X(MISPLACED_VARIABLE) X(DEPRECATED_LAUNCHER) X(LOCAL_RANK_ARGUMENT)          \
    X(OMP_NUM_THREADS) X(SAMPLER_WITHOUT_SET_EPOCH) X(SAMPLER_AND_SHUFFLE) X(NO_LOADER_WORKERS)                        \
    X(NON_BLOCKING_UNPINNED) X(SAME_SEED_IN_WORKERS) X(ACCUMULATION_WITHOUT_NO_SYNC) X(NO_SYNC_ON_LAST)                \
    X(NO_SYNC_WITHOUT_FORWARD) X(LOSS_NOT_DIVIDED) X(CLIP_BEFORE_UNSCALE) X(SCALER_WITHOUT_UPDATE)                     \
    X(SCALED_WITHOUT_SCALER_STEP) X(BACKWARD_IN_AUTOCAST) X(DATA_PARALLEL) X(DDP_BEFORE_TO) X(OPTIMIZER_BEFORE_FSDP)   \
    X(COMPILE_BEFORE_DDP) X(FIND_UNUSED_PARAMETERS) X(BUCKET_CAP_DEFAULT) X(SYNC_BATCHNORM_MISSING)                    \
    X(COLLECTIVE_ON_SOME_RANKS) X(SAVE_ON_ALL_RANKS) X(INIT_WITHOUT_TIMEOUT) X(EMPTY_CACHE_IN_LOOP)                    \
    X(SYNC_EVERY_STEP) X(TIMING_WITHOUT_SYNC) X(TIMING_FIRST_BATCH)

typedef enum {
#define TDMI_RULE_ENUM(NAME) TDMI_RULE_##NAME,
    TDMI_RULE_MAP(TDMI_RULE_ENUM)
#undef TDMI_RULE_ENUM
    TDMI_RULES
} tdmi_rule_number;

typedef struct tdmi_rule {
    const char *id;
    tdmi_lint_severity severity; /* a finding may have a milder one where the harm is not certain */
    const char *title, *why, *instead, *source;
} tdmi_rule;

extern const tdmi_rule tdmi_rules[TDMI_RULES];

typedef struct tdmi_lint_finding {
    tdmi_rule_number rule;
    tdmi_lint_severity severity;
    const char *file;
    int line, column;
    char *text;
} tdmi_lint_finding;

typedef struct tdmi_lint {
    const char *path;
    tdmi_syntax syntax;
    tdmi_script script;
    tdmi_launch launch;
    tdmi_lint_finding *finding; /* [findings], in the end by file and line */
    size_t findings, capacity;
    size_t said[TDMI_RULES]; /* findings by rule */
    bool failed; /* out of memory on the way */
} tdmi_lint;

/* What a rule says of one script at most: a file with more is made by a program, and nobody reads on. */
#define TDMI_LINT_OF_RULE_MAX 100

/* A finding at a node, with the rule's severity or another. text: a sentence without a full stop. */
void tdmi_lint_say(tdmi_lint *lint, tdmi_rule_number rule, const tdmi_node *node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void tdmi_lint_say_as(tdmi_lint *lint, tdmi_rule_number rule, tdmi_lint_severity severity, const tdmi_node *node, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* At a place of the launch line (file NULL) or of the file of settings. */
void tdmi_lint_say_of_launch(tdmi_lint *lint, tdmi_rule_number rule, const char *file, int line, int column, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Asks every rule about lint->script. */
void tdmi_lint_ask(tdmi_lint *lint);
/* What was read and found. */
void tdmi_lint_free(tdmi_lint *lint);

/* ---- one file each ---- */
void tdmi_lint_options(tdmi_lint *lint);
void tdmi_lint_environment(tdmi_lint *lint);
void tdmi_lint_data(tdmi_lint *lint);
void tdmi_lint_accumulation(tdmi_lint *lint);
void tdmi_lint_amp(tdmi_lint *lint);
void tdmi_lint_wrap(tdmi_lint *lint);
void tdmi_lint_batchnorm(tdmi_lint *lint);
void tdmi_lint_collectives(tdmi_lint *lint);
void tdmi_lint_step(tdmi_lint *lint);
void tdmi_lint_timing(tdmi_lint *lint);

/* ---- known_options.c, known_variables.c: a list is a text of words with a blank between; lists end with NULL ---- */

/* The keyword arguments of a constructor that any release from 1.0 to 2.13 had. NULL: not in the table. */
const char *tdmi_known_options(const char *full_name);
/* The variables whose names begin with TORCH. */
extern const char *const tdmi_torch_variables[];

/* ---- near.c ---- */
bool tdmi_list_has(const char *list, const char *word);
bool tdmi_lists_have(const char *const *lists, const char *word); /* up to NULL */
/* The word of the lists that a mistyped one was meant to be. */
bool tdmi_near_word(const char *const *lists, const char *word, char *near, size_t nbytes);

#endif
