/* loader.h - batches of token windows, read ahead by a thread so that a step finds its data waiting.
 *
 * A loader belongs to one rank and goes on for ever, epoch after epoch; `last` marks the end of one. Training uses
 * TDMI_SAMPLER_DROP (the last incomplete batch of an epoch is dropped), evaluation TDMI_SAMPLER_EXACT without shuffling (every
 * window once over all ranks: read until `last`). The order depends on the options alone, never on timing. Memory is taken
 * when the loader is made; batches allocate nothing. */
#ifndef TDMI_DATA_LOADER_H
#define TDMI_DATA_LOADER_H

#include "data/sampler.h"
#include "data/tokens.h"

typedef struct {
    tdmi_windows windows;           /* its tokens are borrowed until the loader is destroyed */
    uint64_t limit;                 /* only the first `limit` windows; 0: all */
    int rank, ranks;
    uint32_t batch;                 /* windows of one rank in one batch */
    bool shuffle;
    uint64_t seed;                  /* of the order */
    tdmi_sampler_end end;
    tdmi_sampler_position start;    /* {0, 0}, or what tdmi_loader_position gave when the run was saved */
    uint32_t depth;                 /* batches read ahead; 0: 3 */
    double timeout_s;               /* how long tdmi_loader_next waits; 0: TANDEM_TIMEOUT */
} tdmi_loader_options;

typedef struct {
    const int32_t *inputs, *targets; /* [batch, seq], lent until the next call; rows from `rows` on are zeros */
    uint32_t rows;                   /* batch, or fewer (even 0) at the end of an exact epoch */
    bool last;                       /* the epoch ends with this batch */
    uint64_t epoch;
    int64_t wait_ns;                 /* how long this call waited: a step's data time */
} tdmi_batch;

typedef struct tdmi_loader tdmi_loader;

/* Starts the thread.  Errors  TDM_ERR_BAD_FILE fewer windows than one batch (the text has the numbers), a start position
 * beyond the epoch | TDM_ERR_INVALID | TDM_ERR_NO_MEMORY | TDM_ERR_SYSTEM no thread */
tdm_status tdmi_loader_create(const tdmi_loader_options *options, tdmi_loader **out);
/* The next batch. Called by one thread.
 * Errors  TDM_ERR_BAD_FILE from reading, also on every later call | TDM_ERR_TIMEOUT names rank, file and window */
tdm_status tdmi_loader_next(tdmi_loader *loader, tdmi_batch *out);
/* Behind the last batch that was handed out: what a checkpoint keeps, whatever has been read ahead. */
tdmi_sampler_position tdmi_loader_position(const tdmi_loader *loader);
uint64_t tdmi_loader_batches(const tdmi_loader *loader); /* of one epoch */
uint64_t tdmi_loader_left(const tdmi_loader *loader);    /* of the epoch that the next batch belongs to */
void tdmi_loader_destroy(tdmi_loader *loader);           /* ends the thread, frees; NULL is fine */

#endif
