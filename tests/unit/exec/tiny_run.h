/* tiny_run.h - a few steps of a small GPT on the ranks of a group: what the executor's tests compare. */
#ifndef TESTS_EXEC_TINY_RUN_H
#define TESTS_EXEC_TINY_RUN_H

#include "exec/exec.h"
#include "models/model.h"

#define TINY_STEPS 6
#define TINY_WINDOWS 4 /* of all ranks together: divides by 1, 2, 4 */

typedef struct tiny_run {
    /* asked */
    int shard;
    double clip;
    double bucket_mb;
    float dropout;
    /* found; written by rank 0 */
    double loss[TINY_STEPS], grad_norm[TINY_STEPS];
    uint64_t weights; /* hash of all parameters' bits after the last step */
    uint64_t allocations; /* by tdmi_malloc in the steps after the second, all ranks of a process */
    uint64_t heap_growth; /* bytes of malloc in use, the same steps */
    bool shared;
    int64_t optimizer_ns, comm_exposed_ns; /* of all steps */
    size_t gradient_nbytes; /* of the graph's gradients' slab */
} tiny_run;

/* Runs on each rank of a group; NULL or what went wrong. `run` lies in memory that all ranks share. */
const char *tiny_run_body(tdm_group *group, void *run);
/* One step in which a product overflows on rank 1: checks the error on each rank, which needs parameters of its own. fused:
 * updates go along with the reduction. */
const char *tiny_poisoned_body(tdm_group *group, bool fused);
/* Gives a model's parameters their initial values, which all ranks then see. */
tdm_status tiny_init(const tdmi_model *model, const tdmi_model_config *config, tdm_group *group, const tdmi_graph *graph, tdmi_exec *exec);
/* A tiny_run in shared memory; free with tiny_run_free. */
tiny_run *tiny_run_create(int shard, double clip);
void tiny_run_free(tiny_run *run);

#endif
