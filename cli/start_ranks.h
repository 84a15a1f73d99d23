/* start_ranks.h - commands whose work is done by ranks: those of the job the command is part of, or ranks it starts itself. */
#ifndef TANDEM_CLI_START_RANKS_H
#define TANDEM_CLI_START_RANKS_H

#include <stdbool.h>

/* Options of every command that starts the ranks of a job, whose values have a tdm_launch_options `launch`. */
#define CLI_JOB_OPTIONS(values)                                                                                        \
    {NULL, 'n', "N", CLI_INT, offsetof(values, launch.ranks), NULL, 1, 4096, NULL, NULL,                               \
     "ranks on this node; one a usable core if not given"},                                                            \
    {"nnodes", 0, "M", CLI_INT, offsetof(values, launch.nodes), "1", 1, 65536, NULL, NULL,                             \
     "nodes of the job; each runs this command"},                                                                      \
    {"node-rank", 0, "R", CLI_INT, offsetof(values, launch.node_rank), "0", 0, 65535, NULL, NULL, "this node's number"}, \
    {"rdzv", 0, "HOST:PORT", CLI_TEXT, offsetof(values, launch.rendezvous), NULL, 0, 0, NULL, NULL,                    \
     "where the nodes meet: an address of node 0 and a free port there; needs TANDEM_JOB_SECRET on all nodes"},        \
    {"port", 0, "P", CLI_INT, offsetof(values, launch.port), NULL, 1, 65535, NULL, NULL,                               \
     "where the ranks of a node meet (MASTER_PORT); a free one if not given"}

/* Someone has started this process as a rank: torchrun, tandem run, mpirun; srun where the ranks can meet. */
bool cli_is_in_a_job(void);
/* A copy of argv, for cli_start_ranks: parsing moves the arguments. NULL: no memory. free() it. */
char **cli_keep_arguments(int argc, char **argv);
/* Runs this command again as the ranks of a job (0: one a usable core) and gives its exit code. argv[0] is the command's name. */
int cli_start_ranks(const char *command, int ranks, char **argv);

#endif
