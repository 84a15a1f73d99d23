/* trainer.h - one rank of a training run: what train.c makes, loop.c runs and save.c writes. */
#ifndef TDMI_TRAIN_TRAINER_H
#define TDMI_TRAIN_TRAINER_H

#include "checkpoint/safetensors.h"
#include "data/loader.h"
#include "data/rng.h"
#include "exec/exec.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/save_codecs.h"
#include "train/settings.h"

typedef struct tdmi_trainer {
    tdmi_settings settings;
    tdm_group *group;
    int rank, size;

    tdmi_tokens *tokens;
    tdmi_windows train_windows, val_windows;
    tdmi_loader *loader;
    tdmi_graph *graph;
    tdmi_exec *exec;
    tdmi_evaluation *evaluation; /* NULL where nothing is held out */
    tdmi_grad_scaler scaler;     /* of float16 */
    tdmi_rng mask_rng;           /* dropout masks of one step of one rank: seeded for each step */
    tdmi_trace *trace;
    int32_t *in_tokens, *in_targets; /* the graph's inputs */
    tdmi_layout *model_layout, *optimizer_layout; /* what a checkpoint's files hold */
    tdmi_codec_file codecs;                       /* and of it what gradients' codecs keep */

    tdmi_metrics *metrics; /* rank 0 only */
    tdmi_progress progress; /* rank 0 only */
    tdmi_schedule schedule;
    int64_t first_step;    /* steps done before this run of the program */
    int64_t step;          /* steps done */
    int64_t samples;       /* seen by all ranks in them */
    int64_t saved_step;    /* newest checkpoint, 0: none */
    char run_dir[1024];
    double train_loss, val_loss; /* newest; NAN: none */
    double peak_rss;       /* bytes of all ranks together */
    int64_t begin_ns;
    int stopped_by;        /* SIGTERM once all ranks have agreed to stop */
    bool made_run_dir;     /* rank 0: this run has made it */
    bool everywhere;       /* the error at hand is the same on all ranks */
} tdmi_trainer;

/* train.c: tdmi_agree of this run's ranks; keeps `everywhere`. */
tdm_status tdmi_trainer_agree(tdmi_trainer *t, tdm_status mine);

/* loop.c: the executor's feed, arg is the trainer: the next batch into the graph's inputs, all targets of a window or the last. */
tdm_status tdmi_trainer_feed(void *arg, int micro_batch);
/* From step + 1 to the end. */
tdm_status tdmi_trainer_loop(tdmi_trainer *t);
/* Adds up the memory of all ranks and keeps the highest. Collective. */
tdm_status tdmi_trainer_sample_memory(tdmi_trainer *t);

/* run_dir.c: rank 0 makes a new run folder, or finds the checkpoint to go on from; all ranks learn the same. *resume_from:
 * new text, the checkpoint's folder, or NULL for a fresh start. Collective. */
tdm_status tdmi_trainer_open_run(tdmi_trainer *t, char **resume_from);

/* train.c: (again) from this position. */
tdm_status tdmi_trainer_open_loader(tdmi_trainer *t, tdmi_sampler_position start);

/* save.c: the number of positions a model gets from --init's file, before its graph is built; what checkpoints hold. */
tdm_status tdmi_trainer_peek_init(tdmi_settings *settings);
tdm_status tdmi_trainer_make_layouts(tdmi_trainer *t);
/* save.c. All collective. */
tdm_status tdmi_trainer_init_weights(tdmi_trainer *t);
tdm_status tdmi_trainer_load(tdmi_trainer *t, const char *checkpoint);
tdm_status tdmi_trainer_save(tdmi_trainer *t);

#endif
