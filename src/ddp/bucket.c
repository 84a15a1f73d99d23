/* bucket.c - one bucket's way through a step: started when its last gradient is there, advanced between computations,
 * waited for at the end. Buckets start in their order on every rank, whatever order gradients become ready in. */
#include "ddp/internal.h"

#include "core/clock.h"
#include "group/fused.h"
#include "group/sends.h"

#include <stdio.h>
#include <string.h>

static void slice_of(const tdm_reducer *r, const reducer_bucket *b, size_t *first, size_t *count)
{
    size_t parts = r->options.scatter ? (size_t)r->size : 1;
    *count = b->padded / parts;
    *first = r->options.scatter ? *count * (size_t)r->rank : 0;
}

void tdmi_reducer_slice(const tdm_reducer *r, int bucket, size_t *first, size_t *count)
{
    slice_of(r, &r->bucket[bucket], first, count);
}

void *tdmi_reducer_bucket_memory(tdm_reducer *r, int bucket)
{
    return r->bucket[bucket].memory;
}

void *tdmi_reducer_reduced(const tdm_reducer *r, int bucket)
{
    return r->bucket[bucket].reduced;
}

void tdmi_reducer_set_epilogue(tdm_reducer *r, tdmi_reducer_epilogue epilogue, void *arg)
{
    r->epilogue = epilogue;
    r->epilogue_arg = arg;
}

tdmi_bucket_times tdmi_reducer_times(const tdm_reducer *r, int bucket)
{
    return r->bucket[bucket].times;
}

/* Whether the reduction itself hands each piece of the slice to the epilogue. */
static bool is_fused(const tdm_reducer *r)
{
    return r->epilogue != NULL && r->options.scatter && r->size > 1;
}

static void fused_piece(void *arg, size_t first, size_t count, const void *reduced)
{
    const reducer_bucket *b = arg;
    b->reducer->epilogue(b->reducer->epilogue_arg, b->number, first, count, reduced);
}

/* All that this rank gets of the bucket, at once. */
static void call_epilogue(tdm_reducer *r, int bucket)
{
    size_t first, count;
    slice_of(r, &r->bucket[bucket], &first, &count);
    if (r->epilogue != NULL && count > 0)
        r->epilogue(r->epilogue_arg, bucket, first, count, r->bucket[bucket].reduced);
}

tdm_status reducer_keep_failure(tdm_reducer *r, tdm_status st)
{
    if (r->failure == TDM_OK) {
        r->failure = st;
        snprintf(r->failure_text, sizeof r->failure_text, "%s", tdm_error_text());
    }
    return st;
}

tdm_status reducer_failed(tdm_reducer *r, tdm_status st, const char *doing, int bucket)
{
    return reducer_keep_failure(r, tdmi_fail_while(st, "%s bucket %d of %d", doing, bucket, r->bucket_count));
}

static tdm_status failed_before(const tdm_reducer *r)
{
    if (r->failure != TDM_OK)
        tdmi_error_set_text(r->failure_text);
    return r->failure;
}

tdm_status reducer_bucket_start(tdm_reducer *r, int bucket)
{
    if (r->failure != TDM_OK)
        return failed_before(r);
    reducer_bucket *b = &r->bucket[bucket];
    const tdm_dtype dtype = r->options.dtype;
    const tdm_op op = r->options.op;
    size_t first, count;
    slice_of(r, b, &first, &count);
    b->times = (tdmi_bucket_times){.started_ns = tdmi_now_ns()};
    tdm_status st = TDM_OK;
    if (r->hook != NULL) {
        r->next = bucket + 1;
        return reducer_hook_advance(r, -1);
    }
    if (r->size == 1) {
        if (b->reduced != b->memory)
            memcpy(b->reduced, b->memory, b->padded * r->elem_size);
        call_epilogue(r, bucket);
    } else if (is_fused(r))
        st = tdmi_reduce_scatter_fused(r->group, b->memory, b->padded, dtype, op, fused_piece, b, &b->work);
    else if (r->options.scatter)
        st = tdm_reduce_scatter(r->group, b->memory, b->reduced, count, dtype, op, &b->work);
    else
        st = tdm_allreduce(r->group, b->memory, b->memory, b->used, dtype, op, &b->work);
    if (st != TDM_OK)
        return reducer_failed(r, st, "starting", bucket);
    r->sent += tdmi_work_sends(b->work);
    if (r->size == 1)
        b->times.done_ns = tdmi_now_ns();
    r->next = bucket + 1;
    return TDM_OK;
}

tdm_status reducer_buckets_test(tdm_reducer *r)
{
    if (r->failure != TDM_OK)
        return failed_before(r);
    if (r->hook != NULL)
        return reducer_hook_advance(r, -1);
    for (int i = r->done; i < r->next; i++) {
        reducer_bucket *b = &r->bucket[i];
        if (b->work == NULL || b->times.done_ns != 0)
            continue;
        bool done;
        tdm_status st = tdm_work_test(b->work, &done);
        if (st != TDM_OK)
            return reducer_failed(r, st, "reducing", i);
        if (!done)
            return TDM_OK;
        b->times.done_ns = tdmi_now_ns();
    }
    return TDM_OK;
}

tdm_status reducer_bucket_wait(tdm_reducer *r, int bucket)
{
    if (r->failure != TDM_OK)
        return failed_before(r);
    reducer_bucket *b = &r->bucket[bucket];
    if (r->hook != NULL) {
        const tdm_status st = reducer_hook_advance(r, bucket);
        if (st != TDM_OK)
            return st;
        call_epilogue(r, bucket);
    } else if (b->work != NULL) {
        tdm_work *work = b->work;
        b->work = NULL;
        tdm_status st = tdm_work_wait(work);
        if (st != TDM_OK)
            return reducer_failed(r, st, "reducing", bucket);
        if (b->times.done_ns == 0)
            b->times.done_ns = tdmi_now_ns();
        if (!is_fused(r))
            call_epilogue(r, bucket);
    }
    r->done = bucket + 1;
    return TDM_OK;
}

void reducer_buckets_drain(tdm_reducer *r)
{
    for (int i = 0; i < r->bucket_count; i++) {
        tdm_work *work = r->bucket[i].work;
        r->bucket[i].work = NULL;
        if (work != NULL && tdm_work_wait(work) != TDM_OK)
            continue; /* the group is dead: the other handles end at once */
    }
}

tdm_status tdmi_reducer_start_bucket(tdm_reducer *r, int bucket)
{
    if (!r->committed || bucket != r->next || bucket >= r->bucket_count)
        return tdmi_fail(TDM_ERR_INTERNAL, "bucket %d was started when %d was next", bucket, r->next);
    return reducer_bucket_start(r, bucket);
}

tdm_status tdmi_reducer_wait_bucket(tdm_reducer *r, int bucket)
{
    if (bucket != r->done || bucket >= r->next)
        return tdmi_fail(TDM_ERR_INTERNAL, "bucket %d was waited for when %d was next and %d were started", bucket, r->done,
                         r->next);
    tdm_status st = reducer_bucket_wait(r, bucket);
    if (st == TDM_OK && r->done == r->bucket_count)
        r->next = r->done = r->hooked = 0;
    return st;
}
