/* start_ranks.h - commands whose work is done by ranks: those of the job the command is part of, or ranks it starts itself. */
#ifndef TANDEM_CLI_START_RANKS_H
#define TANDEM_CLI_START_RANKS_H

#include <stdbool.h>

/* Someone has started this process as a rank: torchrun, tandem run, mpirun; srun where the ranks can meet. */
bool cli_is_in_a_job(void);
/* Runs this command again as the ranks of a job (0: one a usable core) and gives its exit code. argv[0] is the command's name. */
int cli_start_ranks(const char *command, int ranks, char **argv);

#endif
