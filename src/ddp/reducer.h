/* reducer.h (internal) - what the executor needs beyond the public reducer: a plan made elsewhere, and the fused update. */
#ifndef TDMI_DDP_REDUCER_H
#define TDMI_DDP_REDUCER_H

#include "core/error.h"

#include <tandem/reducer.h>

/* Instead of tdm_reducer_add: a parameter with its place in a plan that the caller made (bucket pass). bucket_count elements
 * are the bucket's padded size. Buckets are numbered from 0 in the order they start. */
tdm_status tdmi_reducer_add_planned(tdm_reducer *reducer, const char *name, size_t count, int bucket, size_t offset,
                                    size_t bucket_count, int *id);
/* Before commit: bucket b lies at offset[b] bytes (a multiple of 128) of one slab. Where buckets overlap, each is written only
 * after the wait for the other. keep: the reduced slices (options.scatter) go to memory of their own, each until its bucket's
 * next reduction. Without this call buckets lie one after the other and slices are reduced in place. */
tdm_status tdmi_reducer_lay_out(tdm_reducer *reducer, const size_t *offset, size_t slab_nbytes, bool keep);
/* Memory of a whole bucket, and the rank's slice of it (all of it unless options.scatter). */
void *tdmi_reducer_bucket_memory(tdm_reducer *reducer, int bucket);
void tdmi_reducer_slice(const tdm_reducer *reducer, int bucket, size_t *first, size_t *count);
/* The rank's slice as its reduction leaves it. */
void *tdmi_reducer_reduced(const tdm_reducer *reducer, int bucket);

/* Called with each finished piece of the rank's slice of a bucket, in the reduction itself: first counts from the start of
 * the bucket. Set before the step's first start. */
typedef void (*tdmi_reducer_epilogue)(void *arg, int bucket, size_t first, size_t count, const void *reduced);
void tdmi_reducer_set_epilogue(tdm_reducer *reducer, tdmi_reducer_epilogue epilogue, void *arg);

/* A bucket at a time, in order: for a caller that has no use for single parameters. */
tdm_status tdmi_reducer_start_bucket(tdm_reducer *reducer, int bucket);
tdm_status tdmi_reducer_wait_bucket(tdm_reducer *reducer, int bucket);

/* ---- compression (codec.c) ----
 * compress_bucket: the codec of one bucket, before commit. The others lend the codec's state, to save and restore; NULL where there
 * is none. residual [used elements of the bucket]: what this rank has not sent. served: onebit's error of the elements [*first,
 * *first + *count) of the bucket, which this rank averages. factor: POWERSGD's Q of the part'th parameter by place, equal on all ranks. */
void tdmi_reducer_compress_bucket(tdm_reducer *reducer, int bucket, const tdm_compression *compress);
float *tdmi_reducer_residual(tdm_reducer *reducer, int bucket);
float *tdmi_reducer_served(tdm_reducer *reducer, int bucket, size_t *first, size_t *count);
float *tdmi_reducer_factor(tdm_reducer *reducer, int bucket, int part, size_t *count);
/* Bytes that the codec of such a bucket takes on a rank: what it keeps from step to step, and scratch, the largest bucket's for all. */
tdm_status tdmi_codec_memory(const tdm_compression *compress, const tdm_part *part, int parts, size_t used, int ranks, size_t *kept_out,
                             size_t *scratch_out);

/* onebit without a detour through the bucket's memory: lend, once after commit, calls source for each block that sets out, which
 * makes in out[count] what this rank sends of elements [first, first + count) of the bucket, its memory at `memory`; the averages
 * stay signs until read gives them out, block by block in the order of elements: any number of times until the bucket's next start.
 * A block lies in one parameter. lend does nothing where no bucket is onebit.
 * Errors  TDM_ERR_NO_MEMORY */
typedef void (*tdmi_onebit_source)(void *arg, int bucket, size_t first, size_t count, const float *memory, float *out);
typedef void (*tdmi_onebit_sink)(void *arg, int bucket, size_t first, size_t count, const float *average);
tdm_status tdmi_reducer_onebit_lend(tdm_reducer *reducer, tdmi_onebit_source source, void *arg);
void tdmi_reducer_onebit_read(tdm_reducer *reducer, int bucket, tdmi_onebit_sink sink, void *arg);
/* Squares of the averages of elements [first, first + count), from the scales alone. */
double tdmi_reducer_onebit_squares(const tdm_reducer *reducer, int bucket, size_t first, size_t count);

/* Times of the last reduction of a bucket (tdmi_now_ns): started here, done here; 0 while under way. */
typedef struct tdmi_bucket_times {
    int64_t started_ns, done_ns;
} tdmi_bucket_times;
tdmi_bucket_times tdmi_reducer_times(const tdm_reducer *reducer, int bucket);

#endif
