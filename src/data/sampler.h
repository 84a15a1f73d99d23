/* sampler.h - which samples a rank takes, in which order: torch's DistributedSampler exactly, cut into batches.
 *
 * An epoch is an order of all samples: 0, 1, 2, ... or torch.randperm with seed + epoch. Rank r takes places r, r + ranks,
 * r + 2 ranks, ... of it. A batch is `batch` samples of every rank, so batch k covers places [k ranks batch, (k+1) ranks batch)
 * whatever the number of ranks is, and a position is counted in places of all ranks together: a job may go on with another
 * number of ranks where it stopped. What is left at the end of an epoch is decided by `end`. */
#ifndef TDMI_DATA_SAMPLER_H
#define TDMI_DATA_SAMPLER_H

#include "core/error.h"

typedef enum {
    TDMI_SAMPLER_DROP,  /* drop_last=True: every rank has floor(samples / ranks); an incomplete batch is dropped */
    TDMI_SAMPLER_PAD,   /* drop_last=False: filled up with the head of the order; an incomplete batch is dropped */
    TDMI_SAMPLER_EXACT, /* every sample once over all ranks; the last batch has fewer rows, on some ranks perhaps none */
} tdmi_sampler_end;

typedef struct {
    uint64_t samples; /* of the data set; below 2^32 */
    int rank, ranks;
    uint32_t batch; /* samples of one rank in one batch */
    bool shuffle;
    uint64_t seed;
    tdmi_sampler_end end;
} tdmi_sampler_options;

typedef struct {
    uint64_t epoch;
    uint64_t next; /* places of this epoch's order that all ranks together have taken */
} tdmi_sampler_position;

typedef struct tdmi_sampler tdmi_sampler;

/* Errors  TDM_ERR_INVALID an option; fewer samples than one batch (the text has the numbers) | TDM_ERR_NO_MEMORY
 * Memory  4 bytes a sample if shuffled. */
tdm_status tdmi_sampler_create(const tdmi_sampler_options *options, tdmi_sampler **out);
void tdmi_sampler_destroy(tdmi_sampler *sampler); /* NULL is fine */

/* The next batch of this rank: indices [batch]; rows: how many of them count (batch, except at the end of an exact epoch);
 * last: this was the epoch's last batch, the next call begins the next epoch. All ranks see as many batches. */
void tdmi_sampler_next(tdmi_sampler *sampler, uint32_t *indices, uint32_t *rows, bool *last);
/* Batches of one whole epoch, and those that are left of the one the next call is in. */
uint64_t tdmi_sampler_batches(const tdmi_sampler *sampler);
uint64_t tdmi_sampler_left(const tdmi_sampler *sampler);
/* Where the next batch begins; and going there. Errors of seek  TDM_ERR_BAD_FILE a place beyond the epoch. */
tdmi_sampler_position tdmi_sampler_tell(const tdmi_sampler *sampler);
tdm_status tdmi_sampler_seek(tdmi_sampler *sampler, tdmi_sampler_position position);

/* The epoch as list(DistributedSampler) shows it, batches aside: its length for this rank, and element i. */
uint64_t tdmi_sampler_count(const tdmi_sampler *sampler);
uint32_t tdmi_sampler_at(tdmi_sampler *sampler, uint64_t i);

#endif
