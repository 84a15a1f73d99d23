/* small_model.h - a model with an op of its own, as a user writes it, and the batches it learns from; public interface alone. */
#ifndef TESTS_MODEL_API_SMALL_MODEL_H
#define TESTS_MODEL_API_SMALL_MODEL_H

#include "../../support/on_ranks.h"

#include <tandem/tandem.h>

enum { SMALL_WINDOW = 4, SMALL_WIDTH = 8, SMALL_LETTERS = 7 };

typedef struct small_spec {
    int batch;
    float dropout;
    bool freeze_table;     /* the embedding */
    bool unused;           /* a parameter "spare" that nothing reads */
    float size_weight;     /* above 0: a second loss, "size", the mean square of the logits */
    float break_forward, break_backward; /* what the own op adds to its results */
} small_spec;

/* Blocks "h.0" and "h.1" with an op of one weight vector: y = scale x sigmoid(x). Biases are in group 1 where biases is set. */
tdm_model *small_model(const small_spec *spec, bool biases);
/* Batch `number` of all ranks; this rank's rows of it: [first, first + rows) into the inputs "letters" and "next". */
void small_batch(int number, int first, int rows, int32_t *letters, int32_t *next);

/* A training with its model; steps take batch after batch, `rows` rows of each for all ranks together. */
typedef struct small_run {
    tdm_group *group;
    tdm_model *model;
    tdm_training *training;
    tdm_training_result result;
    small_spec spec;
    int steps;
} small_run;

tdm_status small_begin(small_run *run, tdm_group *group, const small_spec *spec, const tdm_training_options *options);
/* micro_batches of spec.batch rows each; together they are one batch of all ranks. */
tdm_status small_step(small_run *run, int micro_batches);
void small_end(small_run *run);
/* The options that tests start from: plain SGD. */
tdm_training_options small_options(void);

#endif
