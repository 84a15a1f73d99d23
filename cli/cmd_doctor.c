/* cmd_doctor.c - `tandem doctor`: what the ranks of a job left behind, compared. */
#include "command.h"
#include "doctor_library.h"

#include <stdio.h>

typedef struct doctor_values {
    bool json;
} doctor_values;

static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    {"json", 0, NULL, CLI_FLAG, offsetof(doctor_values, json), NULL, 0, 0, NULL, NULL, "one object on stdout instead of text"},
};

static int run(int argc, char **argv)
{
    cli_doctor_library library;
    doctor_values values = {0};
    tdm_doctor_report *report;
    int exit_code;
    if (!cli_parse(&cli_doctor, &argc, argv, &values, &exit_code))
        return exit_code;
    if (argc < 2) {
        fprintf(stderr, "tandem doctor: nothing to look at; usage: tandem doctor [OPTIONS] DUMP...\n");
        return CLI_USAGE;
    }
    if (!cli_doctor_library_load(&library))
        return CLI_FAILED;
    tdm_status status = library.doctor((const char *const *)(argv + 1), argc - 1, &report);
    if (status != TDM_OK)
        return cli_fail("doctor", status);
    printf("%s%s", values.json ? library.json(report) : library.text(report), values.json ? "\n" : "");
    library.free(report);
    return CLI_DONE;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "DUMP...",
    .summary = "says what is wrong with a job, from what its ranks left behind",
    .details = "DUMP is a recording of a rank (a ring, or a dump in JSON: docs/recorder.md) or a folder of them; an error text of a group\n"
               "names its folder. The ranks are lined up by group and call: who is missing, who made another call, who died.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
