/* cmd_doctor.c - `tandem doctor`: what the ranks of a job left behind, compared. */
#include "command.h"
#include "doctor_lint.h"
#include "doctor_live.h"

#include <stdio.h>

typedef struct doctor_values {
    bool json, quiet, hta, diff;
    tdm_doctor_options examine;
    tdm_live_options live;
    cli_lint_options lint;
} doctor_values;

static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    {"json", 0, NULL, CLI_FLAG, offsetof(doctor_values, json), NULL, 0, 0, NULL, NULL, "one object on stdout instead of text"},
    {"quiet", 'q', NULL, CLI_FLAG, offsetof(doctor_values, quiet), NULL, 0, 0, NULL, NULL, "no lines about what is being done"},
    {"hta", 0, NULL, CLI_FLAG, offsetof(doctor_values, hta), NULL, 0, 0, NULL, NULL,
     "of PyTorch profiler traces (a file a rank, .json or .json.gz, or a folder of them): the\n"
     "numbers that HTA 0.5.0 computes, its rounding and its faults included (docs/hta.md)"},
    {"diff", 0, NULL, CLI_FLAG, offsetof(doctor_values, diff), NULL, 0, 0, NULL, NULL,
     "what changed from the first of two jobs to the second: a trace or a folder of traces each"},
    {"report", 0, "FILE", CLI_TEXT, offsetof(doctor_values, examine.page), NULL, 0, 0, NULL, NULL,
     "of traces: writes an HTML page too, with a picture of one iteration on all ranks"},
    {"memory", 0, "SIZE", CLI_SIZE, offsetof(doctor_values, examine.memory_bytes), NULL, 1 << 20, 1e15, NULL, NULL,
     "what traces and what is made of them may take; of larger ones the last iterations count [half of the machine's]"},
    CLI_LIVE_OPTIONS(doctor_values),
    CLI_LINT_OPTIONS(doctor_values),
};

/* What is looked at, and how; doctor does one of them. */
enum { OF_FILES = 1, OF_HTA = 2, OF_DIFF = 4, OF_COMMAND = 8, OF_ATTACH = 16, OF_LINT = 32, OF_LIVE = OF_COMMAND | OF_ATTACH };

static unsigned mode_of(const doctor_values *values, int command_words)
{
    return values->lint.script != NULL   ? OF_LINT
           : values->live.attach != NULL ? OF_ATTACH
           : command_words > 0           ? OF_COMMAND
           : values->hta                 ? OF_HTA
           : values->diff                ? OF_DIFF
                                         : OF_FILES;
}

/* An option that would do nothing is a mistake: says so. */
static bool fits_together(const doctor_values *values, unsigned mode)
{
    const struct {
        const char *option;
        bool given;
        unsigned modes; /* in which it does something */
        const char *belongs_to;
    } rules[] = {
        {"--hta", values->hta, OF_HTA, "traces, without --diff"},
        {"--diff", values->diff, OF_DIFF, "two jobs' traces"},
        {"--report", values->examine.page != NULL, OF_FILES | OF_LIVE, "the traces of one job"},
        {"--memory", values->examine.memory_bytes > 0, ~(unsigned)OF_LINT, "traces"},
        {"--iterations", values->live.iterations > 0, OF_LIVE, "-- COMMAND... and --attach PID|JOB"},
        {"--keep-traces", values->live.keep != NULL, OF_LIVE, "-- COMMAND... and --attach PID|JOB"},
        {"--shapes", values->live.shapes, OF_LIVE, "-- COMMAND... and --attach PID|JOB"},
        {"--stacks", values->live.stacks, OF_LIVE, "-- COMMAND... and --attach PID|JOB"},
        {"--timeout", values->live.timeout_s > 0, OF_LIVE, "-- COMMAND... and --attach PID|JOB"},
        {"--stop", values->live.stop, OF_COMMAND, "-- COMMAND..."},
        {"--attach", values->live.attach != NULL, OF_ATTACH, "a job that runs"},
        {"--launch", values->lint.launch != NULL, OF_LINT, "--lint FILE.py"},
        {"--env-file", values->lint.env_file != NULL, OF_LINT, "--lint FILE.py"},
    };
    const char *const where = mode == OF_LINT      ? "with --lint"
                              : mode == OF_ATTACH  ? "with --attach"
                              : mode == OF_COMMAND ? "with -- COMMAND..."
                              : mode == OF_HTA     ? "with --hta"
                              : mode == OF_DIFF    ? "with --diff"
                                                   : "with files and folders";
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].given && (rules[i].modes & mode) == 0) {
            fprintf(stderr, "tandem doctor: %s does nothing %s; it belongs to %s: leave one out\n", rules[i].option, where, rules[i].belongs_to);
            return false;
        }
    return true;
}

static int print_hta(const cli_doctor_library *library, const doctor_values *values, const char *const *paths, int count)
{
    tdm_hta_report *report;
    const tdm_status status = library->hta(paths, count, values->examine.memory_bytes, &report);
    if (status != TDM_OK)
        return cli_fail("doctor", status);
    printf("%s%s", values->json ? library->hta_json(report) : library->hta_text(report), values->json ? "\n" : "");
    library->hta_free(report);
    return CLI_DONE;
}

static int run(int argc, char **argv)
{
    cli_doctor_library library;
    doctor_values values = {0};
    tdm_doctor_report *report;
    int exit_code;
    const int command_words = cli_doctor_live_words(argc, argv);
    if (!cli_parse(&cli_doctor, &argc, argv, &values, &exit_code))
        return exit_code;
    if (!fits_together(&values, mode_of(&values, command_words)))
        return CLI_USAGE;
    if (values.lint.script != NULL)
        return cli_doctor_lint(&values.lint, argc - 1, values.json);
    if (values.live.attach != NULL || command_words > 0)
        return cli_doctor_live(values.live, &values.examine, argv + 1, argc - 1, command_words, values.json, values.quiet);
    if (argc < 2) {
        fprintf(stderr, "tandem doctor: nothing to look at; usage: tandem doctor [OPTIONS] DUMP... | --diff A B | --lint FILE.py | -- COMMAND...\n");
        return CLI_USAGE;
    }
    if (values.diff && argc != 3) {
        fprintf(stderr, "tandem doctor: --diff compares two jobs, %d given; usage: tandem doctor --diff A B\n", argc - 1);
        return CLI_USAGE;
    }
    if (!cli_doctor_library_load(&library))
        return CLI_FAILED;
    const char *const *paths = (const char *const *)(argv + 1);
    if (values.hta)
        return print_hta(&library, &values, paths, argc - 1);
    const tdm_status status = values.diff ? library.diff(paths[0], paths[1], &values.examine, &report)
                                          : library.doctor(paths, argc - 1, &values.examine, &report);
    if (status != TDM_OK)
        return cli_fail("doctor", status);
    printf("%s%s", values.json ? library.json(report) : library.text(report), values.json ? "\n" : "");
    library.free(report);
    return CLI_DONE;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "DUMP... | --hta TRACE... | --diff A B | --lint FILE.py | -- COMMAND...",
    .summary = "says what is wrong with a job, from what its ranks left behind",
    .details = "DUMP is a recording of a rank (a ring, or a dump in JSON: docs/recorder.md) or a folder of them; an error text of a group\n"
               "names its folder. The ranks are lined up by group and call: who is missing, who made another call, who died.\n"
               "Or it is a trace of PyTorch's profiler, one a rank: where the time goes, what holds the job back, what a change would gain.\n"
               "Or it is a log of NCCL_DEBUG=INFO, of all ranks or one each: sockets where there is InfiniBand, no GPUDirect, lost peers.\n"
               "Or it is a dump of PyTorch's flight recorder (nccl_trace_rank_*), lined up like recordings; nothing in a pickle is run.\n"
               "--lint reads a training script for PyTorch (docs/lint.md), and its exit code is 1 where there are errors.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
