/* cmd_run.c - `tandem run`: starts the ranks of any program. */
#include "command.h"
#include "start_ranks.h"

#include <tandem/launch.h>

#include <stdio.h>

typedef struct run_values {
    tdm_launch_options launch;
    double timeout_s; /* goes to the variables */
    const char *job_id;
} run_values;

#define FIELD(name) offsetof(run_values, name)
static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    CLI_JOB_OPTIONS(run_values),
    {"grace", 0, "SEC", CLI_NUMBER, FIELD(launch.grace_s), "5", 0, 86400, NULL, NULL, "time to end between the first signal and SIGKILL"},
    {"log-dir", 0, "DIR", CLI_TEXT, FIELD(launch.log_dir), NULL, 0, 0, NULL, NULL,
     "also writes each rank's output to DIR/rank-R.out and DIR/rank-R.err"},
    {"only-rank", 0, "LIST", CLI_TEXT, FIELD(launch.only_ranks), NULL, 0, 0, NULL, NULL, "shows output of these ranks only, such as 0,2-3"},
    {"timeout", 0, "SEC", CLI_NUMBER, FIELD(timeout_s), NULL, 0.001, 1e9, NULL, "TANDEM_TIMEOUT,TANDEM_RDZV_TIMEOUT",
     "time that nodes and ranks wait for each other, at the start (60 if not given) and in collectives (300)"},
    {"job-id", 0, "NAME", CLI_TEXT, FIELD(job_id), NULL, 0, 0, NULL, "TANDEM_JOB_ID", "the job's name; a random one if not given"},
    {"quiet", 'q', NULL, CLI_FLAG, FIELD(launch.quiet), NULL, 0, 0, NULL, NULL, "no line about threads and CPUs"},
};

static int run(int argc, char **argv)
{
    run_values values;
    int exit_code;
    tdm_launch_options_init(&values.launch);
    if (!cli_parse(&cli_run, &argc, argv, &values, &exit_code))
        return exit_code;
    if (argc < 2) {
        fprintf(stderr, "tandem run: no program to run; usage: tandem run [OPTIONS] [--] PROGRAM [ARGS...]\n");
        return CLI_USAGE;
    }
    values.launch.name = "tandem run";
    values.launch.argv = (const char *const *)(argv + 1);
    tdm_status status = tdm_launch(&values.launch, &exit_code);
    return status == TDM_OK ? exit_code : cli_fail("run", status);
}

const cli_command cli_run = {
    .name = "run",
    .arguments = "[--] PROGRAM [ARGS...]",
    .summary = "starts the ranks of a program on this node, and ends them together",
    .details = "Each rank gets what torchrun exports (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, ...); a .py file runs\n"
               "under python3. Output comes in whole lines, `[rank] ` in front, `[host:rank] ` with several nodes. When a rank\n"
               "fails the others are ended; the exit code is the first failing rank's. SIGINT, SIGTERM, SIGHUP and SIGQUIT end\n"
               "the job, a second one kills it; SIGUSR1 and SIGUSR2 go to the processes of the ranks that handle them.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .ends_at_argument = true,
    .run = run,
};
