/* reducer.h - gradients of any training loop, averaged over the ranks while backward still runs.
 *
 * Register the parameters in the order forward uses them (gradients then become ready in about the reverse order), commit,
 * and let backward write each gradient where tdm_reducer_gradient() says: a view into a bucket. Mark each one ready; a full
 * bucket starts its reduction at once. tdm_reducer_wait() ends the step.
 *
 *     tdm_reducer_create(group, NULL, &reducer);
 *     for each parameter: tdm_reducer_add(reducer, name, count, &id[i]);
 *     tdm_reducer_commit(reducer);
 *     each step: backward writes tdm_reducer_gradient(reducer, id[i]) and calls tdm_reducer_ready(reducer, id[i]);
 *                tdm_reducer_wait(reducer);   gradients now hold the average
 *
 * Thread  the group's owner.   Source  PyTorch's DistributedDataParallel (reducer.cpp) */
#ifndef TANDEM_REDUCER_H
#define TANDEM_REDUCER_H

#include <tandem/collective.h>
#include <tandem/compress.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_reducer tdm_reducer;

typedef struct tdm_reducer_options {
    double bucket_cap_mb;   /* MiB; a bucket closes once it holds this much. 0 (default): 25 */
    double first_bucket_mb; /* of the bucket that is ready first, so that communication starts early. 0 (default): 1, or
                               bucket_cap_mb where that is given */
    tdm_dtype dtype;        /* F32 (default), F64, BF16 or F16; halves are summed in float32 */
    tdm_op op;              /* AVG (default) or SUM */
    bool find_unused;       /* ranks may leave parameters out of a step: those count as zero, see tdm_reducer_used */
    bool scatter;           /* each rank gets only its slice of each bucket reduced (sharding stage 1) */
    tdm_compression compress; /* how buckets travel; codec NONE (default): as they are. Needs F32, AVG and not scatter */
} tdm_reducer_options;

TDM_API void tdm_reducer_options_init(tdm_reducer_options *options);
/* options NULL: defaults. The group is borrowed. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_create(tdm_group *group, const tdm_reducer_options *options, tdm_reducer **out);
TDM_API void tdm_reducer_destroy(tdm_reducer *reducer);

/* A parameter of `count` elements (0 is legal). A weight used in two places is registered once. Before commit. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_add(tdm_reducer *reducer, const char *name, size_t count, int *id);
/* The parameter is a matrix of so many rows, row after row: what POWERSGD compresses. Not said: a vector. Before commit. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_set_rows(tdm_reducer *reducer, int id, size_t rows);
/* Plans buckets, allocates them (zeroed) in memory the node shares, and checks that all ranks registered the same:
 * TDM_ERR_MISMATCH names the first parameter that differs and both sides. Collective. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_commit(tdm_reducer *reducer);

/* [count] elements to write the gradient to; the address stays the same for the reducer's life. */
TDM_API void *tdm_reducer_gradient(tdm_reducer *reducer, int id);
/* The gradient of this step is complete here. Starts the bucket's reduction when it was the last one; buckets start in
 * order. Never blocks on peers. Marking one twice in a step is TDM_ERR_INVALID with its name. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_ready(tdm_reducer *reducer, int id);
/* Lets communication advance from inside a long computation. Cheap. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_progress(tdm_reducer *reducer);
/* Ends the step: waits for all buckets. A parameter not marked ready is an error that lists the names, unless find_unused. */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_wait(tdm_reducer *reducer);
/* Accumulation over micro-batches: with sync false, ready and wait only keep count and communicate nothing; the caller adds
 * gradients in place, and the first step with sync true reduces the sums. Set it before the step's first ready(). */
TDM_API void tdm_reducer_set_sync(tdm_reducer *reducer, bool sync);
/* After wait with find_unused: whether any rank used the parameter in this step. Where none did, its gradient is to be
 * treated as absent: no weight decay, no momentum. */
TDM_API bool tdm_reducer_used(const tdm_reducer *reducer, int id);
/* Sets all gradients to zero, for loops that add into them. */
TDM_API void tdm_reducer_zero(tdm_reducer *reducer);

/* ---- reductions of one's own ----
 * A hook takes a full bucket to the average (or whatever the loop wants) by calls on the group. It is called in phases: 0 once the
 * bucket is full; the next one when the work that it gave is over. It must not wait for peers: it starts a call, gives its handle
 * as *work and returns. Leaving *work NULL ends the bucket, whose memory then holds what tdm_reducer_gradient() shows.
 * The built-in codecs are such hooks.
 *
 *     tdm_status halves(void *arg, const tdm_bucket *b, int phase, tdm_work **work)
 *     {
 *         uint16_t *half = arg;                                  tdm_alloc memory of the largest bucket
 *         if (phase == 1)
 *             return tdm_cast_decompress(TDM_BF16, half, b->memory, b->count);
 *         tdm_status st = tdm_cast_compress(TDM_BF16, b->memory, NULL, half, b->count);
 *         return st != TDM_OK ? st : tdm_allreduce(b->group, half, half, b->count, TDM_BF16, TDM_AVG, work);
 *     }
 *
 * One bucket at a time goes through its phases, in the order of buckets, so all ranks make the same calls in the same order and
 * one scratch buffer serves all. Phases advance in ready, progress and wait. Between the first ready and the end of wait the
 * caller makes no other calls on this group (a sub-group of all ranks is free). An error of a hook ends the group. */
typedef struct tdm_bucket {
    tdm_group *group;
    int number;           /* 0, 1, ... in the order of reduction */
    void *memory;         /* [count] of dtype: this rank's gradients, and zeros between parameters */
    size_t count;
    tdm_dtype dtype;
    tdm_op op;
    const tdm_part *part; /* its parameters: their places in memory */
    int parts;
} tdm_bucket;
typedef tdm_status (*tdm_reducer_hook)(void *arg, const tdm_bucket *bucket, int phase, tdm_work **work);
/* After commit, between two steps, on all ranks alike. hook NULL: plain reductions again. Errors  TDM_ERR_UNSUPPORTED with scatter |
 * TDM_ERR_INVALID before commit or inside a step */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_set_hook(tdm_reducer *reducer, tdm_reducer_hook hook, void *arg);
/* The codec of options.compress, off (plain reductions) or on again, between two steps, on all ranks alike: on from commit. Its
 * residuals stay. Errors as above; TDM_ERR_INVALID without a codec */
TDM_API TDM_MUST_CHECK tdm_status tdm_reducer_set_compress(tdm_reducer *reducer, bool on);
/* Bytes of data this rank has given to others in reductions of this reducer so far. An allreduce of D bytes counts 2 (n-1)/n D;
 * of a hook's calls, those made as one (tdm_coalesce_begin) and messages are not counted. */
TDM_API uint64_t tdm_reducer_sent(const tdm_reducer *reducer);

/* The plan, for printing before the run. Bucket i in the order of reduction. */
typedef struct tdm_bucket_info {
    size_t nbytes;     /* bytes of its parameters */
    int parameters;
    const char *first; /* name of the parameter that is ready first; borrowed */
    const char *last;
} tdm_bucket_info;
TDM_API int tdm_reducer_bucket_count(const tdm_reducer *reducer);
TDM_API tdm_bucket_info tdm_reducer_bucket(const tdm_reducer *reducer, int bucket);

#ifdef __cplusplus
}
#endif
#endif
