/* environment.h - the environment of a rank. */
#ifndef TDMI_LAUNCH_ENVIRONMENT_H
#define TDMI_LAUNCH_ENVIRONMENT_H

#include "core/error.h"

/* Where a rank stands in its job. */
typedef struct tdmi_rank_place {
    int rank, size, local_rank, local_size, node_rank, nodes;
    const char *master_address;
    int master_port;
    const char *job_id, *job_secret, *launcher;
    int threads;         /* OMP_NUM_THREADS; 0: the user has set it */
    const char *log_dir; /* NULL: none */
} tdmi_rank_place;

/* This process's variables, and those of torchrun and Tandem for this rank. *out: one block, NULL at the end of the list, freed
 * with tdmi_free. */
tdm_status tdmi_environment_create(const tdmi_rank_place *place, char ***out);

/* This process's variables with these NAME=VALUE instead of or beside its own; *out as above, borrows this process's. */
tdm_status tdmi_environment_with(const char *const *entries, size_t count, char ***out);

#endif
