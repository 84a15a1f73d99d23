/* model.h - a model of your own, trained with everything that `tandem train` has: precision, micro-batches, recomputation, sharding,
 * compression. In libtandem_train. docs/model.md is the tour, examples/own_model a whole program. */
#ifndef TANDEM_MODEL_H
#define TANDEM_MODEL_H

#include <tandem/dtype.h>
#include <tandem/group.h>
#include <tandem/own_op.h>
#include <tandem/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the model: a list of operations on tensors of fixed shapes ---- */

typedef struct tdm_model tdm_model;
typedef int32_t tdm_tensor; /* of one model; -1 once the model has an error */

/* Errors stick: after the first one all builders do nothing and give -1, and tdm_model_status, asked once at the end, has it. */
TDM_API TDM_MUST_CHECK tdm_status tdm_model_create(const char *name, tdm_model **out);
TDM_API void tdm_model_destroy(tdm_model *model);
TDM_API TDM_MUST_CHECK tdm_status tdm_model_status(const tdm_model *model);

/* Modules: names between push and pop begin with "h.3." after push(model, "h.%d", 3). Blocks for recomputation and gathering are known
 * by such numbers. */
TDM_API void tdm_model_push(tdm_model *model, const char *format, ...);
TDM_API void tdm_model_pop(tdm_model *model);

/* Filled by the caller before each micro-batch: TDM_F32, or TDM_I32 for tokens and targets. 1 to 4 dimensions. */
TDM_API tdm_tensor tdm_model_input(tdm_model *model, const char *name, tdm_dtype dtype, int ndim, const int64_t *dims);

typedef enum { TDM_INIT_ZEROS, TDM_INIT_ONES, TDM_INIT_NORMAL, TDM_INIT_UNIFORM, TDM_INIT_VALUES } tdm_init;

typedef struct tdm_parameter {
    tdm_init init;
    double scale;        /* NORMAL: standard deviation; UNIFORM: from -scale to scale */
    const float *values; /* VALUES: all of them; copied */
    int group;           /* of tdm_training_options.groups */
    bool frozen;         /* it gets no gradient and no update */
} tdm_parameter;

/* how  NULL: zeros, group 0. Random values come of the training's seed, in the order of the model's parameters. */
TDM_API tdm_tensor tdm_model_parameter(tdm_model *model, const char *name, int ndim, const int64_t *dims, const tdm_parameter *how);

/* B batch, T time, C width; [..., C]: any leading dimensions. A bias of -1 is none.
 *   embedding      tokens[B,T] int32, wte[V,C], wpe[P,C] or -1 -> [B,T,C]
 *   linear         x[...,I], w[O,I], b[O] or -1 -> [...,O]
 *   dense          linear with parameters of its own: x[...,I], name.weight[out,I], name.bias[out] -> [...,out]; both begin uniform within
 *                  1/sqrt(I), as PyTorch's Linear
 *   layernorm      x[...,C], w[C], b[C] -> [...,C]
 *   residual       a, b of one shape -> their sum
 *   gelu           tanh form
 *   attention      qkv[B,T,3C] -> [B,T,C], causal
 *   dropout        p 0: x itself
 *   cross_entropy  logits[...,V], targets[...] int32 -> [1], the mean over rows; below 0: the row does not count
 *   reshape        the same elements
 *   own_op         in[0..count) float32 -> float32 [dims]; *op is copied, what its user pointer points to is borrowed */
TDM_API tdm_tensor tdm_model_embedding(tdm_model *model, const char *name, tdm_tensor tokens, tdm_tensor wte, tdm_tensor wpe);
TDM_API tdm_tensor tdm_model_linear(tdm_model *model, const char *name, tdm_tensor x, tdm_tensor w, tdm_tensor b);
TDM_API tdm_tensor tdm_model_dense(tdm_model *model, const char *name, tdm_tensor x, int64_t out);
TDM_API tdm_tensor tdm_model_layernorm(tdm_model *model, const char *name, tdm_tensor x, tdm_tensor w, tdm_tensor b, float eps);
TDM_API tdm_tensor tdm_model_residual(tdm_model *model, const char *name, tdm_tensor a, tdm_tensor b);
TDM_API tdm_tensor tdm_model_gelu(tdm_model *model, const char *name, tdm_tensor x);
TDM_API tdm_tensor tdm_model_attention(tdm_model *model, const char *name, tdm_tensor qkv, int heads);
TDM_API tdm_tensor tdm_model_dropout(tdm_model *model, const char *name, tdm_tensor x, float p);
TDM_API tdm_tensor tdm_model_cross_entropy(tdm_model *model, const char *name, tdm_tensor logits, tdm_tensor targets);
TDM_API tdm_tensor tdm_model_reshape(tdm_model *model, tdm_tensor x, int ndim, const int64_t *dims);
TDM_API tdm_tensor tdm_model_own_op(tdm_model *model, const char *name, const tdm_own_op *op, int count, const tdm_tensor *in, int ndim,
                                    const int64_t *dims);

/* The training minimises the sum of weight x loss over all that are named so, at most 4; each is float32 [1], a mean over the batch:
 * of cross_entropy or own_op. weight  above 0 */
TDM_API void tdm_model_loss(tdm_model *model, tdm_tensor loss, float weight);
/* x can be read after a step or an evaluation, by its name. */
TDM_API void tdm_model_output(tdm_model *model, tdm_tensor x);

/* ---- its training on the ranks of a group ---- */

#define TDM_PARAMETER_GROUPS 8

typedef struct tdm_parameter_group {
    double lr_factor;    /* times the training's lr */
    double weight_decay;
} tdm_parameter_group;

/* As the options of `tandem train` of these names (docs/cli.md), whose words error texts use. NULL and TDM_UNSET: as said. */
typedef struct tdm_training_options {
    const char *optimizer;                            /* "adamw", "sgd" (momentum beta1); NULL: adamw */
    double lr, weight_decay, clip, beta1, beta2, eps; /* TDM_UNSET: 1e-3, 0.01, 0 (no clipping), 0.9, 0.999, 1e-8 */
    tdm_parameter_group groups[TDM_PARAMETER_GROUPS];
    int group_count;       /* 0: one group, lr_factor 1, the weight_decay above */
    const char *precision; /* "f32", "bf16", "f16"; NULL: f32 */
    int micro_batches;     /* of a step, at most; TDM_UNSET: 1 */
    int shard;             /* 0 to 3; TDM_UNSET: 1 */
    const char *remat;     /* "none", "blocks", "K", "auto" (with memory); NULL: none, or auto where memory is given */
    size_t memory;         /* bytes a rank; 0: no limit */
    const char *offload;   /* a folder for the optimizer's state; NULL: it is in memory */
    int prefetch;          /* with shard 3; TDM_UNSET: 1 */
    const char *compress;  /* "bf16", "powersgd:4", "onebit:100", ...; NULL: none */
    const char *bucket_mb; /* "25", "1,25"; NULL: 25, the first 1 */
    bool uncounted;        /* targets may be below 0 (with one cross_entropy as the loss): rows that do not count on any rank */
    bool allow_unused;     /* parameters that the loss does not depend on are left as they are; else they are an error */
    uint64_t seed;         /* of first values and dropout */
} tdm_training_options;

TDM_API void tdm_training_options_init(tdm_training_options *options);

typedef struct tdm_training tdm_training;

/* tdm_training_create - plans the step, gives parameters their first values. Collective.
 *   model    borrowed until the training is destroyed; the same on all ranks
 *   group    borrowed
 * Errors  TDM_ERR_INVALID the model's own error, an option, a parameter that the loss does not depend on | TDM_ERR_UNSUPPORTED options
 *         that exclude each other | TDM_ERR_NO_MEMORY    All ranks return the same one
 * Thread  its owner, for all calls on it */
TDM_API TDM_MUST_CHECK tdm_status tdm_training_create(const tdm_model *model, tdm_group *group, const tdm_training_options *options,
                                                      tdm_training **out);
TDM_API void tdm_training_destroy(tdm_training *training);

/* Memory of an input, to be filled; of an output, after a step. NULL if there is none of that name. */
TDM_API void *tdm_training_input(tdm_training *training, const char *name);
TDM_API const void *tdm_training_output(tdm_training *training, const char *name);

/* Fills the inputs for micro-batch 0, 1, ... of the step under way. */
typedef tdm_status (*tdm_training_feed)(void *arg, tdm_training *training, int micro_batch);

typedef struct tdm_training_result {
    double loss;      /* weighted sum, mean over all ranks and micro-batches */
    double own_loss;  /* of this rank */
    double grad_norm; /* before clipping */
    bool skipped;     /* float16: a gradient was not finite on some rank, so nothing was updated and the scale fell */
} tdm_training_result;

/* tdm_training_step - forward and backward of each micro-batch, reduction, update. Collective.
 *   micro_batches  of this step, at most the option's, the same on all ranks; 0: the option's
 *   feed           NULL: the inputs are in place (one micro-batch)
 * Errors  what feed returns | TDM_ERR_INVALID an input out of range | TDM_ERR_NOT_FINITE names step, rank and node; nothing was updated
 *         where clip is set | those of collectives */
TDM_API TDM_MUST_CHECK tdm_status tdm_training_step(tdm_training *training, int micro_batches, tdm_training_feed feed, void *arg,
                                                    tdm_training_result *out);
/* From the next step on. */
TDM_API void tdm_training_set_lr(tdm_training *training, double lr);
/* The mean of one loss over this rank's micro-batches of the last step, without its weight. TDM_ERR_INVALID lists the names. */
TDM_API TDM_MUST_CHECK tdm_status tdm_training_loss(const tdm_training *training, const char *name, double *out);

/* A parameter's values, all of them. write: the same on all ranks. Both collective. TDM_ERR_INVALID no such name, another count. */
TDM_API TDM_MUST_CHECK tdm_status tdm_training_read(tdm_training *training, const char *name, float *values, size_t count);
TDM_API TDM_MUST_CHECK tdm_status tdm_training_write(tdm_training *training, const char *name, const float *values, size_t count);

/* Checkpoints: folder/step-N with model.safetensors and optimizer.safetensors, whole or not there at all. Any number of ranks, any stage of
 * sharding and any precision goes on from one. Collective.
 *   save  makes the folder; keep: so many of the newest stay, 0: all
 *   load  the newest whole one; the steps of the training go on from there. After an error the training can only be destroyed
 * Errors  TDM_ERR_BAD_FILE none, or of another model, optimizer or compress | TDM_ERR_NO_SPACE */
TDM_API TDM_MUST_CHECK tdm_status tdm_training_save(tdm_training *training, const char *folder, int keep);
TDM_API TDM_MUST_CHECK tdm_status tdm_training_load(tdm_training *training, const char *folder);
/* Steps done, those before a load included. */
TDM_API int64_t tdm_training_steps(const tdm_training *training);

/* ---- a second model that reads the training's parameters ---- */

typedef struct tdm_evaluation tdm_evaluation;

/* model  other inputs, outputs or batch, no dropout; its parameters are those of the training with their names and shapes. Borrowed,
 *        as the training is. Collective. */
TDM_API TDM_MUST_CHECK tdm_status tdm_evaluation_create(const tdm_model *model, tdm_training *training, tdm_evaluation **out);
TDM_API void tdm_evaluation_destroy(tdm_evaluation *evaluation);
TDM_API void *tdm_evaluation_input(tdm_evaluation *evaluation, const char *name);
TDM_API const void *tdm_evaluation_output(tdm_evaluation *evaluation, const char *name);
/* Forward on what the inputs hold. loss_out  of this rank; NULL, or 0 where the model has none. Collective. */
TDM_API TDM_MUST_CHECK tdm_status tdm_evaluation_run(tdm_evaluation *evaluation, double *loss_out);

#ifdef __cplusplus
}
#endif
#endif
