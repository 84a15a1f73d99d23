/* model.h - what training knows of a model: how to build its graph, its first weights, its names in files, good defaults.
 * One model a file; registry.c lists them. */
#ifndef TDMI_MODELS_MODEL_H
#define TDMI_MODELS_MODEL_H

#include "graph/graph.h"

typedef struct tdmi_model_config {
    int layers, width, heads, seq, vocab, positions; /* a model that has no use for one keeps it 0 */
    double dropout;
} tdmi_model_config;

typedef struct tdmi_model_preset {
    const char *name, *summary; /* "gpt2", "124M: 12 layers, 768 wide, ..." */
    tdmi_model_config config;
} tdmi_model_preset;

/* What a practitioner would choose where the user says nothing. */
typedef struct tdmi_model_defaults {
    int batch, warmup;
    double lr, weight_decay, clip, beta1, beta2, eps;
} tdmi_model_defaults;

typedef enum {
    TDMI_BUILD_LOSS,  /* inputs "tokens" [batch, seq], "targets"; g->loss */
    TDMI_BUILD_LOGITS /* input "tokens"; an OUTPUT "logits" [batch, seq, vocab], or [batch, vocab] where a window has one target */
} tdmi_build_kind;

typedef struct tdmi_model {
    const char *name;
    const tdmi_model_preset *presets; /* the first is the default */
    int preset_count;
    tdmi_model_defaults defaults;
    /* The forward graph; check it with tdmi_graph_status. dropout is left out of LOGITS graphs and where `training` is false. */
    tdmi_graph *(*build)(const tdmi_model_config *config, int batch, tdmi_build_kind kind, bool training);
    /* Targets of a window: all seq positions (GPT-2), or 1: only the token that follows the window (MLP). */
    int (*targets)(const tdmi_model_config *config);
    /* First weights as PyTorch draws them with this seed. For each parameter of the graph, `take` gets its name and values
     * (borrowed during the call). room [room_count]: memory to draw in; where it is too small, init takes its own for a while. */
    tdm_status (*init)(const tdmi_model_config *config, uint64_t seed, float *room, size_t room_count,
                       tdm_status (*take)(void *arg, const char *name, const float *values, size_t count), void *arg);
    /* Whether files hold this parameter as [in, out] where the graph has [out, in] (Hugging Face's Conv1D). Names in files
     * are those of the graph. */
    bool (*transposed)(const char *parameter);
    /* config.json of a checkpoint: new text (tdmi_free), and back. TDM_ERR_BAD_FILE says what is missing or of another model. */
    char *(*config_json)(const tdmi_model_config *config);
    tdm_status (*config_parse)(const char *json, tdmi_model_config *out);
} tdmi_model;

/* NULL, with the names that exist in the error text, if there is none. */
const tdmi_model *tdmi_model_find(const char *name);
/* The model that wrote this config.json. */
const tdmi_model *tdmi_model_of_config(const char *json);
/* NULL name: the default preset. */
tdm_status tdmi_model_preset_find(const tdmi_model *model, const char *name, tdmi_model_config *out);

#endif
