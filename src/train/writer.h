/* writer.h - continues a text with a model: one window graph, one token at a time. */
#ifndef TDMI_TRAIN_WRITER_H
#define TDMI_TRAIN_WRITER_H

#include "data/rng.h"
#include "exec/exec.h"
#include "models/model.h"

typedef struct tdmi_writer tdmi_writer;

/* parameters_of NULL: own parameters, to be filled through tdmi_writer_exec. */
tdm_status tdmi_writer_create(const tdmi_model *model, const tdmi_model_config *config, tdmi_exec *parameters_of,
                              const atomic_int *interrupt, tdmi_writer **out);
void tdmi_writer_destroy(tdmi_writer *writer);
tdmi_exec *tdmi_writer_exec(tdmi_writer *writer);
const tdmi_graph *tdmi_writer_graph(const tdmi_writer *writer);

/* Puts a token behind the text so far; the oldest leaves a full window. TDM_ERR_INVALID beyond the vocabulary. */
tdm_status tdmi_writer_push(tdmi_writer *writer, int32_t token);
/* Draws the next token of the text so far and pushes it. temperature 0: the likeliest; top_k 0: all. At least one token
 * must have been pushed. Draws by inverse transform: one tdmi_rng_uniform a token. */
tdm_status tdmi_writer_next(tdmi_writer *writer, tdmi_rng *rng, double temperature, int top_k, int32_t *token_out);

#endif
