/* settings.h - the options of a run with every default filled in and every value checked. */
#ifndef TDMI_TRAIN_SETTINGS_H
#define TDMI_TRAIN_SETTINGS_H

#include "models/model.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "passes/passes.h"

#include <tandem/train.h>

typedef struct tdmi_settings {
    tdm_train_options options; /* as given; strings are borrowed from the caller */
    const tdmi_model *model;
    const char *preset;
    tdmi_model_config config;
    size_t parameters; /* of that model, tied ones once */
    char run_dir[1024];
    double val_fraction;
    int batch, micro_batches, epochs; /* epochs 0: steps decide */
    int64_t steps;     /* 0 until the data is known, where epochs decide */
    tdmi_optimizer optimizer;
    double lr, clip;
    int warmup;
    tdmi_schedule_kind schedule;
    tdm_dtype precision;
    int shard, prefetch, save_every, keep; /* save_every 0: at the end */
    int64_t eval_every;          /* 0 until steps are known */
    tdm_compression compress;    /* ONEBIT: warmup 0 until steps are known */
    double bucket_mb, first_bucket_mb;
    double bucket_list_mb[TDMI_BUCKET_LIST_MAX]; /* instead of both; */
    int bucket_list_count;                       /* 0: none */
    bool bucket_auto;
    int remat;       /* as the pass takes it */
    int world_size, local_size, parts; /* once the ranks' places are known: all, those of a node, and as tdmi_exec_parts() says; */
    bool ready_late;                   /* new parameters travel beside the next step's forward */
    tdmi_cost cost; /* what nodes and reductions are thought to take (costs.h) */
} tdmi_settings;

/* TDM_ERR_INVALID names the option, its value and what is allowed. */
tdm_status tdmi_settings_resolve(const tdm_train_options *options, tdmi_settings *out);
/* The part of it that says how a step is made and updates: optimizer, accum, precision, shard, prefetch, compress, bucket_mb, remat.
 * Needs out->options and the defaults of out->model. */
tdm_status tdmi_settings_resolve_step(const tdm_train_options *options, tdmi_settings *out);
/* Once the number of batches of an epoch is known: fills steps and eval_every, and fits a default warm-up to short runs. */
tdm_status tdmi_settings_set_epoch(tdmi_settings *settings, int64_t batches_an_epoch);
/* As it is written on a command line, with its number: "powersgd:4". */
void tdmi_settings_compress_text(const tdmi_settings *settings, char out[32]);
tdmi_schedule tdmi_settings_schedule(const tdmi_settings *settings);

#endif
