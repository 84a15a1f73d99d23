/* doctor_lint.h - `tandem doctor --lint`: a training script before it runs. */
#ifndef TANDEM_CLI_DOCTOR_LINT_H
#define TANDEM_CLI_DOCTOR_LINT_H

#include "option.h"

typedef struct cli_lint_options {
    const char *script, *launch, *env_file; /* NULL: not given */
} cli_lint_options;

/* Rows of the option table; `values` has a cli_lint_options named lint. */
#define CLI_LINT_OPTIONS(values)                                                                                                        \
    {"lint", 0, "FILE.py", CLI_TEXT, offsetof(values, lint.script), NULL, 0, 0, NULL, NULL,                                             \
     "reads a training script instead: what in it is wrong or slow"},                                                                   \
    {"launch", 0, "LINE", CLI_TEXT, offsetof(values, lint.launch), NULL, 0, 0, NULL, NULL,                                              \
     "of a script: the line that starts the job, in quotes"},                                                                           \
    {"env-file", 0, "FILE", CLI_TEXT, offsetof(values, lint.env_file), NULL, 0, 0, NULL, NULL,                                          \
     "of a script: NAME=VALUE lines of the job's environment"},                                                                         \
    {"env", 0, "FILE", CLI_TEXT, offsetof(values, lint.env_file), NULL, 0, 0, NULL, NULL, "the same as --env-file"}

/* A script is given. words: what else was given to look at; there may be nothing. Gives the exit code. */
int cli_doctor_lint(const cli_lint_options *options, int words, bool json);

#endif
