/* help.c - help texts, written from the tables that are parsed from. */
#include "help.h"

#include "command.h"

#include <tandem/tandem.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define INDENT 30
#define WIDTH 110

/* Prints text from column `at` on, wrapped between INDENT and WIDTH. */
static void print_wrapped(size_t at, const char *text)
{
    bool first = true;
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (!first && at + 1 + length > WIDTH) {
            printf("\n%*s", INDENT, "");
            at = INDENT;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", (int)length, text);
        at += length + !first;
        first = false;
        text += length;
        text += strspn(text, " \n");
    }
    printf("\n");
}

/* " [default 5, 0 to 3600, TANDEM_X]" as far as there is something to say. */
static void describe_limits(const cli_option *option, char *text, size_t nbytes)
{
    const char *between = "";
    size_t used = (size_t)snprintf(text, nbytes, "[");
#define ADD(...)                                                                                                       \
    do {                                                                                                               \
        used += (size_t)snprintf(text + used, nbytes - used, "%s", between);                                           \
        used += (size_t)snprintf(text + used, nbytes - used, __VA_ARGS__);                                             \
        between = "; ";                                                                                                \
    } while (0)
    if (option->type == CLI_CHOICE)
        ADD("%s", option->choices);
    bool ranged = option->type == CLI_INT || option->type == CLI_U64 || option->type == CLI_NUMBER || option->type == CLI_SIZE;
    if (ranged && isinf(option->max))
        ADD("from %g", option->min);
    else if (ranged)
        ADD("%.15g to %.15g", option->min, option->max);
    if (option->value != NULL)
        ADD("default %s", option->value);
    if (option->variable != NULL)
        ADD("%s", option->variable);
#undef ADD
    snprintf(text + used, nbytes - used, "]");
    if (strcmp(text, "[]") == 0)
        *text = '\0';
}

static void print_option(const cli_option *option)
{
    char left[64], limits[256], text[1024];
    size_t used = 0;
    if (option->letter != 0)
        used += (size_t)snprintf(left + used, sizeof left - used, "  -%c", option->letter);
    else
        used += (size_t)snprintf(left + used, sizeof left - used, "    ");
    if (option->name != NULL)
        used += (size_t)snprintf(left + used, sizeof left - used, "%s--%s", option->letter != 0 ? ", " : "  ", option->name);
    if (option->argument != NULL)
        used += (size_t)snprintf(left + used, sizeof left - used, " %s", option->argument);
    describe_limits(option, limits, sizeof limits);
    snprintf(text, sizeof text, "%s%s%s", option->help, *limits != '\0' ? " " : "", limits);
    if (used >= INDENT - 1)
        printf("%s\n%*s", left, INDENT, "");
    else
        printf("%-*s", INDENT, left);
    print_wrapped(INDENT, text);
}

int cli_print_help(const cli_command *command)
{
    printf("usage: tandem %s [OPTIONS] %s\n%s\n", command->name, command->arguments, command->summary);
    if (command->details != NULL)
        printf("\n%s\n", command->details);
    printf("\noptions:\n");
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i]);
    static const cli_option common[] = {{.name = "help", .letter = 'h', .help = "this text"},
                                        {.name = "version", .help = "the version"}};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        print_option(&common[i]);
    return CLI_DONE;
}

int cli_print_overview(void)
{
    printf("usage: tandem COMMAND [OPTIONS] ...\nData-parallel training: starts ranks, measures collectives, trains.\n\ncommands:\n");
    for (size_t i = 0; i < cli_command_count; i++)
        printf("  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    printf("\n`tandem COMMAND --help` lists a command's options.\n\nvariables (an option of the same meaning wins):\n");
    const char *name, *value, *help;
    for (int i = 0; tdm_config_variable(i, &name, &value, &help); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s", help, *value != '\0' ? " [default " : "", value, *value != '\0' ? "]" : "");
        printf("  %-*s", INDENT - 2, name);
        print_wrapped(INDENT, text);
    }
    printf("\nexit codes:\n");
    for (size_t i = 0; i < cli_exit_code_count; i++)
        printf("  %-8s %s\n", cli_exit_codes[i].code, cli_exit_codes[i].meaning);
    return CLI_DONE;
}

int cli_print_version(void)
{
    printf("tandem %s\n", tdm_version());
    return CLI_DONE;
}
