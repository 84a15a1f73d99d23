/* start_ranks.c - the ranks of a command. */
#include "start_ranks.h"

#include "command.h"

#include <tandem/launch.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_is_in_a_job(void)
{
    const char *step = getenv("SLURM_STEP_ID"); /* a number near 2^32 in a batch script, which is no task */
    const bool is_task = getenv("SLURM_PROCID") != NULL && step != NULL && strtoull(step, NULL, 10) < 4294967280ull;
    return getenv("RANK") != NULL || getenv("OMPI_COMM_WORLD_RANK") != NULL || getenv("PMI_RANK") != NULL || is_task;
}

char **cli_keep_arguments(int argc, char **argv)
{
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    if (copy != NULL)
        memcpy(copy, argv, (size_t)argc * sizeof *copy);
    return copy;
}

int cli_start_ranks(const char *command, int ranks, char **argv)
{
    static char self[PATH_MAX], name[64];
    tdm_launch_options launch;
    int exit_code, argc = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) {
        fprintf(stderr, "tandem %s: /proc/self/exe cannot be read, so the ranks cannot be started\n", command);
        return CLI_FAILED;
    }
    while (argv[argc] != NULL)
        argc++;
    const char **args = calloc((size_t)argc + 3, sizeof *args);
    if (args == NULL)
        return CLI_NO_SPACE;
    args[0] = self;
    args[1] = command;
    memcpy(args + 2, argv + 1, (size_t)(argc - 1) * sizeof *args);
    snprintf(name, sizeof name, "tandem %s", command);
    tdm_launch_options_init(&launch);
    launch.name = name;
    launch.argv = args;
    launch.ranks = ranks;
    launch.inherit_rank0 = true;
    launch.quiet = true;
    tdm_status st = tdm_launch(&launch, &exit_code);
    free(args);
    return st == TDM_OK ? exit_code : cli_fail(command, st);
}
