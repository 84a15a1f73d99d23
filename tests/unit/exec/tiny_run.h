/* tiny_run.h - a few steps of a small GPT on the ranks of a group: what the executor's tests compare. */
#ifndef TESTS_EXEC_TINY_RUN_H
#define TESTS_EXEC_TINY_RUN_H

#include "exec/exec.h"
#include "models/model.h"

#define TINY_STEPS 6
#define TINY_WINDOWS 4 /* of all ranks together, unless asked otherwise: divides by 1, 2, 4 */
#define TINY_GRADIENTS 32768 /* elements; the model has fewer */

typedef struct tiny_run {
    /* asked */
    int shard, prefetch;
    double clip;
    double lr;         /* 0: 0.01 */
    double bucket_mb;
    float dropout;
    tdm_dtype precision;
    bool unfused;
    bool overflow;     /* float16: the gradient of rank 2 overflows in steps 3 and 4 */
    char offload[64];  /* a folder for the optimizer's state; empty: none */
    int windows;       /* of a step, all ranks and micro-batches together; 0: TINY_WINDOWS */
    int remat;         /* as the pass takes it */
    bool late;         /* parameters travel beside the next step's forward */
    int stride;        /* window i of a step is window i x stride of the data; 0: 1 */
    int micro_batches; /* that the graph is made for; 0: 1 */
    int short_by;      /* micro-batches that are left out: the step sees the first windows only */
    enum { TINY_ALL_COUNT, TINY_SOME_COUNT, TINY_EVEN_COUNT } counts; /* targets: all; four of five; those of windows 0, 2, ... */
    tdm_compression compress;
    /* found; written by rank 0 */
    double sent[TINY_STEPS], plain; /* bytes of each step, and of an allreduce in float32 */
    double loss[TINY_STEPS], grad_norm[TINY_STEPS];
    float scale[TINY_STEPS]; /* after each step */
    bool skipped[TINY_STEPS];
    uint64_t weights; /* hash of all parameters' bits after the last step */
    uint64_t allocations; /* by tdmi_malloc in the steps after the second, all ranks of a process */
    uint64_t heap_growth; /* bytes of malloc in use, the same steps */
    bool shared;
    float *gradient; /* [TINY_GRADIENTS] or NULL: of the first step, averaged; in the order of parameters, shard 0 with clip only */
    size_t gradient_count;
    size_t slab_nbytes;
    int64_t optimizer_ns, comm_exposed_ns; /* of all steps */
    bool gathers;
    size_t gradient_nbytes, parameter_nbytes; /* of the graph's slabs */
} tiny_run;

/* Runs on each rank of a group; NULL or what went wrong. `run` lies in memory that all ranks share. */
const char *tiny_run_body(tdm_group *group, void *run);
/* One step in which a product overflows on rank 1: checks the error on each rank, which needs parameters of its own. fused:
 * updates go along with the reduction. */
const char *tiny_poisoned_body(tdm_group *group, bool fused);
/* Steps of micro-batches that the graph was not made for, and targets that do not count where all must. */
const char *tiny_refused_body(tdm_group *group);
/* Gives a model's parameters their initial values, which all ranks then see. */
tdm_status tiny_init(const tdmi_model *model, const tdmi_model_config *config, tdm_group *group, const tdmi_graph *graph, tdmi_exec *exec);
/* A tiny_run in shared memory; free with tiny_run_free. */
tiny_run *tiny_run_create(int shard, double clip);
void tiny_run_free(tiny_run *run);

#endif
