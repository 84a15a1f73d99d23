/* doctor_live.c - a job that runs: traced by libtandem_doctor, examined like any other folder of traces. */
#include "doctor_live.h"

#include "command.h"

#include <stdio.h>
#include <string.h>

static void say(const char *line, void *arg)
{
    (void)arg;
    fprintf(stderr, "tandem doctor: %s\n", line);
}

/* Prints what is wrong with the job, as soon as it is known: the job may go on for days. */
static tdm_status examine(const cli_doctor_library *library, tdm_live *live, const tdm_doctor_options *how, bool json)
{
    const char *const *paths;
    int count;
    tdm_doctor_report *report;
    tdm_status status = library->live_collect(live, &paths, &count);
    if (status == TDM_OK)
        status = library->doctor(paths, count, how, &report);
    if (status != TDM_OK)
        return status;
    printf("%s%s", json ? library->json(report) : library->text(report), json ? "\n" : "");
    fflush(stdout);
    library->free(report);
    return TDM_OK;
}

int cli_doctor_live_words(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return argc - i - 1;
    return 0;
}

int cli_doctor_live(tdm_live_options options, const tdm_doctor_options *how, char **arguments, int count, int command_words, bool json,
                    bool quiet)
{
    cli_doctor_library library;
    tdm_live *live;
    int job_code;
    if (count != command_words || (options.attach != NULL && count > 0)) {
        fprintf(stderr, "tandem doctor: %s: it looks at files, at --attach PID|JOB, or at -- COMMAND..., one at a time\n", arguments[0]);
        return CLI_USAGE;
    }
    if (!cli_doctor_library_load(&library))
        return CLI_FAILED;
    tdm_live_options defaults;
    library.live_options_init(&defaults);
    options.iterations = options.iterations > 0 ? options.iterations : defaults.iterations;
    options.timeout_s = options.timeout_s > 0 ? options.timeout_s : defaults.timeout_s;
    options.argv = options.attach == NULL ? (const char *const *)arguments : NULL;
    options.output_to_errors = json;
    options.say = quiet ? NULL : say;
    tdm_status status = library.live_begin(&options, &live);
    if (status != TDM_OK)
        return cli_fail("doctor", status);
    status = examine(&library, live, how, json);
    const int exit_code = status == TDM_OK ? CLI_DONE : cli_fail("doctor", status);
    library.live_end(live, &job_code);
    return job_code != 0 ? job_code : exit_code;
}
