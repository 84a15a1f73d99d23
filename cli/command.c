/* command.c - the table of commands; statuses as exit codes. */
#include "command.h"

#include <signal.h>
#include <stdio.h>

const cli_command *const cli_commands[] = {
    &cli_bench,
    &cli_doctor,
    &cli_generate,
    &cli_run,
    &cli_train,
    &cli_tune,
};
const size_t cli_command_count = sizeof cli_commands / sizeof *cli_commands;

const struct cli_exit_meaning cli_exit_codes[] = {
    {"0", "done"},
    {"1", "the job failed"},
    {"2", "usage"},
    {"3", "bad input file"},
    {"4", "a peer was lost, gave up or timed out"},
    {"5", "not enough memory or space"},
    {"128+N", "ended by signal N"},
};
const size_t cli_exit_code_count = sizeof cli_exit_codes / sizeof *cli_exit_codes;

int cli_exit_code(tdm_status status)
{
    switch (status) {
    case TDM_OK:
        return CLI_DONE;
    case TDM_ERR_INVALID:
    case TDM_ERR_UNSUPPORTED:
    case TDM_ERR_EXISTS:
        return CLI_USAGE;
    case TDM_ERR_BAD_FILE:
        return CLI_BAD_FILE;
    case TDM_ERR_TIMEOUT:
    case TDM_ERR_PEER_LOST:
    case TDM_ERR_ABORTED: /* by a peer, whose own exit code says why */
        return CLI_PEER_LOST;
    case TDM_ERR_NO_MEMORY:
    case TDM_ERR_NO_SPACE:
        return CLI_NO_SPACE;
    case TDM_ERR_INTERRUPTED:
        return CLI_SIGNAL + SIGINT;
    case TDM_ERR_MISMATCH:
    case TDM_ERR_SYSTEM:
    case TDM_ERR_ADDRESS_IN_USE:
    case TDM_ERR_AUTH:
    case TDM_ERR_NOT_FINITE:
    case TDM_ERR_INTERNAL:
        return CLI_FAILED;
    }
    return CLI_FAILED;
}

int cli_fail(const char *name, tdm_status status)
{
    fprintf(stderr, "tandem %s: %s\n", name, tdm_error_text());
    return cli_exit_code(status);
}
