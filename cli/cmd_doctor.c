/* cmd_doctor.c - `tandem doctor`: what the ranks of a job left behind, compared. */
#include "command.h"
#include "doctor_live.h"

#include <stdio.h>

typedef struct doctor_values {
    bool json, quiet;
    tdm_live_options live;
} doctor_values;

static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    {"json", 0, NULL, CLI_FLAG, offsetof(doctor_values, json), NULL, 0, 0, NULL, NULL, "one object on stdout instead of text"},
    {"quiet", 'q', NULL, CLI_FLAG, offsetof(doctor_values, quiet), NULL, 0, 0, NULL, NULL, "no lines about what is being done"},
    CLI_LIVE_OPTIONS(doctor_values),
};

static int run(int argc, char **argv)
{
    cli_doctor_library library;
    doctor_values values = {0};
    tdm_doctor_report *report;
    int exit_code;
    const int command_words = cli_doctor_live_words(argc, argv);
    if (!cli_parse(&cli_doctor, &argc, argv, &values, &exit_code))
        return exit_code;
    if (values.live.attach != NULL || command_words > 0)
        return cli_doctor_live(values.live, argv + 1, argc - 1, command_words, values.json, values.quiet);
    if (argc < 2) {
        fprintf(stderr, "tandem doctor: nothing to look at; usage: tandem doctor [OPTIONS] DUMP... | -- COMMAND...\n");
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
    .arguments = "DUMP... | -- COMMAND...",
    .summary = "says what is wrong with a job, from what its ranks left behind",
    .details = "DUMP is a recording of a rank (a ring, or a dump in JSON: docs/recorder.md) or a folder of them; an error text of a group\n"
               "names its folder. The ranks are lined up by group and call: who is missing, who made another call, who died.\n"
               "Or it is a log of NCCL_DEBUG=INFO, of all ranks or one each: sockets where there is InfiniBand, no GPUDirect, lost peers.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
