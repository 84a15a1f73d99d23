/* checkpoint.h - a run's state on disk: RUN/step-N/ with model.safetensors, optimizer.safetensors, config.json, state.json.
 *
 * All or nothing: everything is written and synced under another name (RUN/.step-N.tmp-new), then renamed. Whatever kills a
 * job, RUN holds whole checkpoints and at most one unfinished folder that nobody reads. state.json has the size and hash of
 * the other files and a hash of itself, so a file that was cut, damaged or taken from another checkpoint is found.
 *
 * Saving with N ranks (this folder knows no groups; the barriers are the caller's):
 *     rank 0: begin        barrier        others: join        all: write their ranges, sync        barrier
 *     rank 0: commit                      all: end
 * RUN must be the same directory on all ranks. Tensors are float32 with names and shapes; what they mean is the caller's. */
#ifndef TDMI_CHECKPOINT_CHECKPOINT_H
#define TDMI_CHECKPOINT_CHECKPOINT_H

#include "checkpoint/disk.h"
#include "checkpoint/safetensors.h"

typedef struct {
    const char *name, *value;
} tdmi_checkpoint_note;

/* What is not a tensor. When read: lent by the checkpoint. */
typedef struct {
    uint64_t step;        /* optimizer steps done; below 2^63, like the other numbers */
    uint64_t epoch, next; /* the sampler's position, over all ranks */
    const uint8_t *random; /* random state, any bytes; NULL: none */
    size_t random_nbytes;
    const char *kernels;  /* the table of kernels in use, as text */
    const char *config;   /* content of config.json */
    const tdmi_checkpoint_note *notes; /* anything else the caller wants back: seed, data, order, variants ...; names differ */
    size_t note_count;
} tdmi_checkpoint_state;

/* RUN/step-N. */
tdm_status tdmi_checkpoint_folder(const char *run, uint64_t step, char out[TDMI_PATH_MAX]);

/* ---- saving ---- */
typedef struct tdmi_checkpoint_writer tdmi_checkpoint_writer;

/* begin: removes what dead jobs left unfinished in RUN, makes the new folder and both files in their full size.
 * join: opens the files that rank 0 has begun. The layouts are borrowed until end.
 * Errors  TDM_ERR_NO_SPACE (needed and free bytes) | TDM_ERR_SYSTEM | join: TDM_ERR_MISMATCH other tensors.
 *         Nothing is left behind and the checkpoints of before are untouched. */
tdm_status tdmi_checkpoint_begin(const char *run, uint64_t step, const tdmi_layout *model, const tdmi_layout *optimizer,
                                 tdmi_checkpoint_writer **out);
tdm_status tdmi_checkpoint_join(const char *run, uint64_t step, const tdmi_layout *model, const tdmi_layout *optimizer,
                                tdmi_checkpoint_writer **out);
/* Where to write; lent. */
tdmi_safetensors_writer *tdmi_checkpoint_model_writer(tdmi_checkpoint_writer *writer);
tdmi_safetensors_writer *tdmi_checkpoint_optimizer_writer(tdmi_checkpoint_writer *writer);
/* Brings this rank's writes to the disk. */
tdm_status tdmi_checkpoint_sync(tdmi_checkpoint_writer *writer);
/* Rank 0, once all ranks have synced: writes config.json and state.json and gives the folder its name (one of that step that
 * is there already is replaced), then removes all but the `keep` newest up to this step; keep 0: all stay.
 * state->step must be the step of begin.  Cost  reads both files once, for their hashes. */
tdm_status tdmi_checkpoint_commit(tdmi_checkpoint_writer *writer, const tdmi_checkpoint_state *state, int keep);
/* Closes; what rank 0 began and did not commit is removed. NULL is fine. */
void tdmi_checkpoint_end(tdmi_checkpoint_writer *writer);
/* Removes unfinished folders of dead jobs; only when no job saves into RUN. */
void tdmi_checkpoint_clean(const char *run);

/* ---- going on from one ---- */
typedef struct tdmi_checkpoint tdmi_checkpoint;

/* The newest step of RUN whose folder is whole, every byte checked; unfinished folders are no checkpoints, damaged ones are
 * passed over with a warning.
 * Errors  TDM_ERR_BAD_FILE no RUN, or only damaged ones (the text says what is wrong with the newest) */
tdm_status tdmi_checkpoint_find(const char *run, uint64_t *step, bool *found);
/* Opens a folder.  verify: reads and checks every byte, else sizes and headers (one rank of a job verifies for all).
 * Errors  TDM_ERR_BAD_FILE names the file and what is wrong with it */
tdm_status tdmi_checkpoint_open(const char *folder, bool verify, tdmi_checkpoint **out);
void tdmi_checkpoint_close(tdmi_checkpoint *checkpoint); /* NULL is fine */
const tdmi_checkpoint_state *tdmi_checkpoint_state_of(const tdmi_checkpoint *checkpoint);
const char *tdmi_checkpoint_note_of(const tdmi_checkpoint *checkpoint, const char *name); /* NULL: there is none */
const tdmi_safetensors *tdmi_checkpoint_model(const tdmi_checkpoint *checkpoint);
const tdmi_safetensors *tdmi_checkpoint_optimizer(const tdmi_checkpoint *checkpoint);

#endif
