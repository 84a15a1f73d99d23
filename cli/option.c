/* option.c - the command line against a table of options. Every error is one line that names option, value and what is allowed. */
#include "option.h"

#include "command.h"
#include "help.h"

#include <tandem/tandem.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool usage_error(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool usage_error(const cli_command *command, const char *format, ...)
{
    fprintf(stderr, "tandem %s: ", command->name);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    return false;
}

static bool number_error(const cli_command *command, const cli_option *option, const char *shown, const char *text, const char *kind)
{
    if (isinf(option->max))
        return usage_error(command, "%s %s: %s from %g on is needed", shown, text, kind, option->min);
    return usage_error(command, "%s %s: %s from %.15g to %.15g is needed", shown, text, kind, option->min, option->max);
}

static bool store_choice(const cli_command *command, const cli_option *option, const char *shown, const char *text, const char **field)
{
    size_t length = strlen(text);
    for (const char *at = option->choices; length > 0;) {
        size_t n = strcspn(at, "|");
        if (n == length && strncmp(at, text, n) == 0) {
            *field = text;
            return true;
        }
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    return usage_error(command, "%s %s: one of %s is needed", shown, text, option->choices);
}

/* Checks `text` and writes the field. `shown`: the option as the user wrote it. */
static bool store(const cli_command *command, const cli_option *option, const char *shown, const char *text, void *values)
{
    void *field = (char *)values + option->offset;
    char *end;
    errno = 0;
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)field = true;
        return true;
    case CLI_INT: {
        long long number = strtoll(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || (double)number < option->min || (double)number > option->max ||
            number < INT32_MIN || number > INT32_MAX)
            return number_error(command, option, shown, text, "a whole number");
        *(int *)field = (int)number;
        return true;
    }
    case CLI_U64: {
        unsigned long long number = strtoull(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || strchr(text, '-') != NULL || (double)number < option->min ||
            (double)number > option->max)
            return number_error(command, option, shown, text, "a whole number");
        *(uint64_t *)field = number;
        return true;
    }
    case CLI_NUMBER: {
        double number = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(number) || !(number >= option->min && number <= option->max))
            return number_error(command, option, shown, text, "a number");
        *(double *)field = number;
        return true;
    }
    case CLI_SIZE: {
        size_t nbytes;
        if (tdm_parse_size(text, shown, &nbytes) != TDM_OK)
            return usage_error(command, "%s", tdm_error_text());
        if ((double)nbytes < option->min || (double)nbytes > option->max)
            return number_error(command, option, shown, text, "a size in bytes");
        *(size_t *)field = nbytes;
        return true;
    }
    case CLI_TEXT:
        if (*text == '\0')
            return usage_error(command, "%s needs a value that is not empty (%s)", shown, option->argument);
        *(const char **)field = text;
        return true;
    case CLI_CHOICE:
        return store_choice(command, option, shown, text, field);
    }
    return false;
}

static void export_variables(const cli_option *option, const char *text)
{
    char name[64];
    for (const char *at = option->variable; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        setenv(name, option->type == CLI_FLAG ? "1" : text, 1);
        at += length + (at[length] == ',');
    }
}

static const cli_option *find(const cli_command *command, const char *name, size_t length, char letter)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option *option = &command->options[i];
        if (letter != 0 ? option->letter == letter
                        : option->name != NULL && strlen(option->name) == length && strncmp(option->name, name, length) == 0)
            return option;
    }
    return NULL;
}

static bool unknown_option(const cli_command *command, const char *argument)
{
    const char *names[128] = {"help", "version"};
    size_t count = 2;
    for (size_t i = 0; i < command->option_count && count < 128; i++)
        if (command->options[i].name != NULL)
            names[count++] = command->options[i].name;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument, "="), argument);
    const char *near = strncmp(word, "--", 2) == 0 ? cli_nearest(word + 2, names, count) : NULL;
    if (near != NULL)
        return usage_error(command, "unknown option %s; did you mean --%s?", word, near);
    return usage_error(command, "unknown option %s; `tandem %s --help` lists them", word, command->name);
}

/* Takes the option at argv[*at] and its argument; leaves *at behind them. */
static bool take_option(const cli_command *command, int argc, char **argv, int *at, void *values)
{
    const char *argument = argv[(*at)++], *text = NULL;
    char shown[80];
    const cli_option *option;
    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        option = find(command, argument + 2, length, 0);
        text = argument[2 + length] == '=' ? argument + 3 + length : NULL;
        snprintf(shown, sizeof shown, "%.*s", (int)length + 2, argument);
    } else {
        option = find(command, NULL, 0, argument[1]);
        text = argument[2] != '\0' ? argument + 2 : NULL;
        snprintf(shown, sizeof shown, "-%c", argument[1]);
    }
    if (option == NULL)
        return unknown_option(command, argument);
    if (option->type == CLI_FLAG && text != NULL)
        return usage_error(command, "%s takes no value", shown);
    if (option->type != CLI_FLAG && text == NULL) {
        if (*at >= argc)
            return usage_error(command, "%s needs a value (%s)", shown, option->argument);
        text = argv[(*at)++];
    }
    if (!store(command, option, shown, text, values))
        return false;
    export_variables(option, text);
    return true;
}

bool cli_parse(const cli_command *command, int *argc, char **argv, void *values, int *exit_code)
{
    *exit_code = CLI_USAGE;
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].value != NULL && !store(command, &command->options[i], "default", command->options[i].value, values))
            return false;
    int kept = 1, at = 1;
    while (at < *argc) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (argv[at][0] != '-' || argv[at][1] == '\0') {
            if (command->ends_at_argument)
                break;
            argv[kept++] = argv[at++];
            continue;
        }
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            *exit_code = cli_print_help(command);
            return false;
        }
        if (strcmp(argv[at], "--version") == 0) {
            *exit_code = cli_print_version();
            return false;
        }
        if (!take_option(command, *argc, argv, &at, values))
            return false;
    }
    while (at < *argc)
        argv[kept++] = argv[at++];
    argv[kept] = NULL;
    *argc = kept;
    return true;
}
