/* option.h - one table of options per command: parsed from it, and --help is written from it.
 * (glibc's argp knows neither ranges nor defaults, so help and checks would live in two places.) */
#ifndef TANDEM_CLI_OPTION_H
#define TANDEM_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>

/* The type of an option and of the field that receives it. */
typedef enum {
    CLI_FLAG,   /* bool, no argument */
    CLI_INT,    /* int in [min, max] */
    CLI_U64,    /* uint64_t in [min, max] */
    CLI_NUMBER, /* double in [min, max] */
    CLI_SIZE,   /* size_t in [min, max]: 8, 4K, 25M, 1G */
    CLI_TEXT,   /* const char *, not empty, borrowed from the command line */
    CLI_CHOICE, /* const char *, one of choices */
} cli_type;

typedef struct cli_option {
    const char *name;     /* "grace" for --grace; NULL: the letter only */
    char letter;          /* 'n' for -n; 0: the name only */
    const char *argument; /* "SEC"; NULL for flags */
    cli_type type;
    size_t offset;        /* of the field in the command's values */
    const char *value;    /* default as a user would write it; NULL: the field stays as the command has set it */
    double min, max;
    const char *choices;  /* "shm|tcp" */
    const char *variable; /* "TANDEM_X" or "TANDEM_X,TANDEM_Y", set to the argument so that the option wins; NULL: none */
    const char *help;     /* what it does, and its default where `value` is NULL; a paragraph of one or more lines */
} cli_option;

typedef struct cli_command {
    const char *name;      /* "run" */
    const char *arguments; /* behind the options in the usage line: "[--] PROGRAM [ARGS...]" */
    const char *summary;   /* one line */
    const char *details;   /* paragraphs under the summary in --help; NULL: none */
    const cli_option *options;
    size_t option_count;
    bool ends_at_argument; /* the first argument that is no option ends the options: the rest is another program's */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; gives the exit code */
} cli_command;

/* Fills `values` with the defaults, then with what the command line says; --help and --version are understood everywhere.
 * True: go on; argv[1 .. *argc - 1] are the arguments that are no options, NULL behind them. False: end with *exit_code, all
 * has been said. */
bool cli_parse(const cli_command *command, int *argc, char **argv, void *values, int *exit_code);

/* The one of `count` names that is nearest to a mistyped word; NULL: none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

#endif
