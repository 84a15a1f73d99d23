/* help.h - texts for --help and --version, on stdout. All give the exit code. */
#ifndef TANDEM_CLI_HELP_H
#define TANDEM_CLI_HELP_H

#include "option.h"

int cli_print_help(const cli_command *command);
int cli_print_overview(void);
int cli_print_version(void);

#endif
