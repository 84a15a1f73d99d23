/* main.c - `tandem COMMAND ...`. */
#include "command.h"
#include "help.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int unknown_command(const char *word)
{
    const char *names[64];
    size_t count = 0;
    for (; count < cli_command_count && count < 64; count++)
        names[count] = cli_commands[count]->name;
    const char *near = cli_nearest(word, names, count);
    if (near != NULL)
        fprintf(stderr, "tandem: unknown command %s; did you mean %s?\n", word, near);
    else
        fprintf(stderr, "tandem: unknown command %s; `tandem --help` lists them\n", word);
    return CLI_USAGE;
}

/* What was printed may not have got to where stdout leads. Of an earlier write nobody knows why it failed: one more says it. */
static int written(int exit_code)
{
    const bool failed = ferror(stdout) != 0;
    if (failed) {
        clearerr(stdout);
        putchar('\n');
    }
    const int error = fflush(stdout) != 0 ? errno : 0;
    if ((!failed && error == 0) || exit_code != CLI_DONE)
        return exit_code;
    fprintf(stderr, "tandem: the output could not be written: %s\n", error != 0 ? strerror(error) : "an earlier write failed");
    return error == ENOSPC || error == EDQUOT ? CLI_NO_SPACE : CLI_FAILED;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "tandem: no command; `tandem --help` lists them\n");
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return written(cli_print_overview());
    if (strcmp(argv[1], "--version") == 0)
        return written(cli_print_version());
    for (size_t i = 0; i < cli_command_count; i++)
        if (strcmp(argv[1], cli_commands[i]->name) == 0)
            return written(cli_commands[i]->run(argc - 1, argv + 1));
    return unknown_command(argv[1]);
}
