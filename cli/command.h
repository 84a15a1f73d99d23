/* command.h - the commands, and what exit codes mean. */
#ifndef TANDEM_CLI_COMMAND_H
#define TANDEM_CLI_COMMAND_H

#include "option.h"

#include <tandem/status.h>

/* The table of commands is in command.c; each command is declared here and lives in cmd_<name>.c. */
extern const cli_command cli_bench, cli_doctor, cli_generate, cli_run, cli_train, cli_tune;

extern const cli_command *const cli_commands[];
extern const size_t cli_command_count;

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_BAD_FILE = 3, CLI_PEER_LOST = 4, CLI_NO_SPACE = 5, CLI_SIGNAL = 128 };
extern const struct cli_exit_meaning {
    const char *code, *meaning;
} cli_exit_codes[];
extern const size_t cli_exit_code_count;

/* The exit code that says what kind of thing went wrong. */
int cli_exit_code(tdm_status status);
/* "tandem NAME: <error text>" on stderr; gives the exit code. */
int cli_fail(const char *name, tdm_status status);

#endif
