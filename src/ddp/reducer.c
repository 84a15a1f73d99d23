/* reducer.c - parameters into buckets at commit, and the bookkeeping of a step: which gradients are there, which bucket may
 * start, what nobody used.
 *
 * Threads: the owner of the group. Communication advances in ready, progress and wait. */
#include "ddp/internal.h"

#include "core/log.h"
#include "core/memory.h"
#include "ddp/plan.h"

#include <stdio.h>
#include <string.h>

#define PARAMETER_ALIGN 64 /* bytes: gradients start on a cache line, for kernels that write them */
#define BUCKET_ALIGN ((size_t)128)

void tdm_reducer_options_init(tdm_reducer_options *options)
{
    *options = (tdm_reducer_options){.dtype = TDM_F32, .op = TDM_AVG};
}

tdm_status tdm_reducer_create(tdm_group *group, const tdm_reducer_options *options, tdm_reducer **out)
{
    tdm_reducer_options defaults;
    tdm_reducer_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    if (options->dtype != TDM_F32 && options->dtype != TDM_F64 && options->dtype != TDM_BF16 && options->dtype != TDM_F16)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "gradients of type %s: a reducer takes float32, float64, bfloat16 or float16",
                         tdm_dtype_name(options->dtype));
    if (options->op != TDM_AVG && options->op != TDM_SUM)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "operation %s: a reducer takes avg or sum", tdm_op_name(options->op));
    if (options->compress.codec != TDM_CODEC_NONE && (options->dtype != TDM_F32 || options->op != TDM_AVG || options->scatter))
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "compression %s of gradients of type %s, %s, %s: codecs take whole float32 buckets to avg",
                         tdm_codec_name(options->compress.codec), tdm_dtype_name(options->dtype), tdm_op_name(options->op),
                         options->scatter ? "scattered" : "not scattered");
    tdm_reducer *r = tdmi_calloc(1, sizeof *r, "reducer");
    if (r == NULL)
        return TDM_ERR_NO_MEMORY;
    r->group = group;
    r->options = *options;
    r->rank = tdm_group_rank(group);
    r->size = tdm_group_size(group);
    r->elem_size = tdm_dtype_size(options->dtype);
    r->next_sync = true;
    tdmi_plan_caps(options->bucket_cap_mb, options->first_bucket_mb, &r->cap, &r->first_cap);
    *out = r;
    return TDM_OK;
}

void tdm_reducer_destroy(tdm_reducer *r)
{
    if (r == NULL)
        return;
    reducer_buckets_drain(r); /* peers may still read the buckets */
    reducer_codec_destroy(r);
    for (int b = 0; b < r->bucket_count; b++)
        tdmi_free(r->bucket[b].part);
    tdm_free(r->group, r->slab);
    tdm_free(r->group, r->kept);
    tdm_free(r->group, r->used);
    for (int i = 0; i < r->count; i++)
        tdmi_free(r->parameter[i].name);
    tdmi_free(r->parameter);
    tdmi_free(r->bucket);
    tdmi_free(r);
}

/* ---- registration ---- */

static tdm_status add(tdm_reducer *r, const char *name, size_t count, int *id)
{
    if (r->committed)
        return tdmi_fail(TDM_ERR_INVALID, "parameter \"%s\" comes after commit", name);
    if (count > SIZE_MAX / 64 / r->elem_size)
        return tdmi_fail(TDM_ERR_INVALID, "parameter \"%s\" cannot have %zu elements", name, count);
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->parameter[i].name, name) == 0)
            return tdmi_fail(TDM_ERR_INVALID, "parameter \"%s\" is registered twice; a weight used in two places is one "
                                              "parameter, whose gradient is the sum of both uses", name);
    if (r->count == r->capacity) {
        int capacity = r->capacity == 0 ? 64 : 2 * r->capacity;
        reducer_parameter *grown = tdmi_realloc(r->parameter, (size_t)capacity * sizeof *grown, "reducer parameters");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        r->parameter = grown;
        r->capacity = capacity;
    }
    char *copy = tdmi_strdup(name, "reducer parameters");
    if (copy == NULL)
        return TDM_ERR_NO_MEMORY;
    *id = r->count++;
    r->parameter[*id] = (reducer_parameter){.name = copy, .count = count};
    return TDM_OK;
}

tdm_status tdm_reducer_add(tdm_reducer *r, const char *name, size_t count, int *id)
{
    if (r->planned)
        return tdmi_fail(TDM_ERR_INVALID, "parameter \"%s\" has no place in the plan given for the others", name);
    return add(r, name, count, id);
}

tdm_status tdm_reducer_set_rows(tdm_reducer *r, int id, size_t rows)
{
    if (r->committed || id < 0 || id >= r->count)
        return tdmi_fail(TDM_ERR_INVALID, "rows of parameter %d of %d in a reducer that is %s", id, r->count,
                         r->committed ? "committed" : "not committed");
    if (rows > 1 && r->parameter[id].count % rows != 0)
        return tdmi_fail(TDM_ERR_INVALID, "parameter \"%s\" has %zu elements, which are no %zu rows", r->parameter[id].name,
                         r->parameter[id].count, rows);
    r->parameter[id].rows = rows;
    return TDM_OK;
}

static tdm_status grow_buckets(tdm_reducer *r, int count)
{
    reducer_bucket *grown = tdmi_realloc(r->bucket, (size_t)count * sizeof *grown, "reducer buckets");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = r->bucket_count; i < count; i++)
        grown[i] = (reducer_bucket){.reducer = r, .number = i, .first = -1, .last = -1,
                                    .compress = r->options.compress};
    r->bucket = grown;
    r->bucket_count = count;
    return TDM_OK;
}

static void place(tdm_reducer *r, int id, int bucket, size_t offset)
{
    reducer_parameter *p = &r->parameter[id];
    reducer_bucket *b = &r->bucket[bucket];
    p->bucket = bucket;
    p->offset = offset;
    if (offset + p->count > b->used)
        b->used = offset + p->count;
    b->nbytes += p->count * r->elem_size;
    b->parameters++;
    if (b->first < 0)
        b->first = id;
    b->last = id;
}

tdm_status tdmi_reducer_add_planned(tdm_reducer *r, const char *name, size_t count, int bucket, size_t offset,
                                    size_t bucket_count, int *id)
{
    if ((r->count > 0 && !r->planned) || bucket < 0 || bucket > r->bucket_count || offset + count > bucket_count ||
        (r->options.scatter && bucket_count % (size_t)r->size != 0))
        return tdmi_fail(TDM_ERR_INTERNAL, "\"%s\": no place for %zu elements at %zu of bucket %d of %zu", name, count, offset,
                         bucket, bucket_count);
    tdm_status st = add(r, name, count, id);
    if (st == TDM_OK && bucket == r->bucket_count)
        st = grow_buckets(r, bucket + 1);
    if (st != TDM_OK)
        return st;
    r->planned = true;
    r->bucket[bucket].padded = bucket_count;
    place(r, *id, bucket, offset);
    return TDM_OK;
}

tdm_status tdmi_reducer_lay_out(tdm_reducer *r, const size_t *offset, size_t slab_nbytes, bool keep)
{
    if (r->committed || !r->planned || (keep && !r->options.scatter))
        return tdmi_fail(TDM_ERR_INTERNAL, "a layout is for planned buckets before commit; slices are kept where they are scattered");
    for (int b = 0; b < r->bucket_count; b++) {
        if (offset[b] % BUCKET_ALIGN != 0 || offset[b] + r->bucket[b].padded * r->elem_size > slab_nbytes)
            return tdmi_fail(TDM_ERR_INTERNAL, "bucket %d of %zu elements cannot lie at byte %zu of %zu", b, r->bucket[b].padded,
                             offset[b], slab_nbytes);
        r->bucket[b].offset = offset[b];
    }
    r->slab_nbytes = slab_nbytes;
    r->keep = keep;
    return TDM_OK;
}

/* Buckets from the last parameter registered to the first: the order gradients become ready in. */
static tdm_status make_plan(tdm_reducer *r)
{
    size_t *nbytes = tdmi_calloc((size_t)r->count, sizeof *nbytes, "reducer plan");
    int *bucket_of = tdmi_calloc((size_t)r->count, sizeof *bucket_of, "reducer plan");
    tdm_status st = nbytes == NULL || bucket_of == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    if (st == TDM_OK) {
        for (int i = 0; i < r->count; i++)
            nbytes[i] = r->parameter[r->count - 1 - i].count * r->elem_size;
        st = grow_buckets(r, tdmi_plan_buckets(nbytes, r->count, (const size_t[]){r->first_cap, r->cap}, 2, bucket_of));
    }
    const size_t line = PARAMETER_ALIGN / r->elem_size;
    for (int i = 0; i < r->count && st == TDM_OK; i++)
        place(r, r->count - 1 - i, bucket_of[i], (r->bucket[bucket_of[i]].used + line - 1) / line * line);
    for (int b = 0; b < r->bucket_count && st == TDM_OK; b++)
        r->bucket[b].padded = tdmi_plan_padded(r->bucket[b].used, r->elem_size, r->size);
    tdmi_free(nbytes);
    tdmi_free(bucket_of);
    return st;
}

static size_t aligned(size_t count, size_t elem_size)
{
    return (count * elem_size + BUCKET_ALIGN - 1) / BUCKET_ALIGN * BUCKET_ALIGN;
}

static tdm_status take(tdm_reducer *r, size_t nbytes, char **out)
{
    void *memory;
    tdm_status st = tdm_alloc(r->group, nbytes + BUCKET_ALIGN, &memory); /* a bucket of no elements has an address too */
    if (st != TDM_OK)
        return tdmi_fail_while(st, "allocating gradients of %zu bytes", nbytes);
    *out = memory;
    return TDM_OK;
}

/* The buckets in their slab, then the slices. */
static tdm_status allocate(tdm_reducer *r)
{
    size_t end = 0, kept = 0, first, count;
    for (int b = 0; b < r->bucket_count; b++) {
        r->bucket[b].offset = r->slab_nbytes > 0 ? r->bucket[b].offset : end;
        end += aligned(r->bucket[b].padded, r->elem_size);
        tdmi_reducer_slice(r, b, &first, &count);
        kept += r->keep ? aligned(count, r->elem_size) : 0;
    }
    tdm_status st = take(r, r->slab_nbytes > 0 ? r->slab_nbytes : end, &r->slab);
    if (st == TDM_OK && r->keep)
        st = take(r, kept, &r->kept);
    if (st != TDM_OK)
        return st;
    kept = 0;
    for (int b = 0; b < r->bucket_count; b++) {
        tdmi_reducer_slice(r, b, &first, &count);
        r->bucket[b].memory = r->slab + r->bucket[b].offset;
        r->bucket[b].reduced = r->keep ? r->kept + kept : r->bucket[b].memory + first * r->elem_size;
        kept += aligned(count, r->elem_size);
    }
    if (!r->options.find_unused)
        return TDM_OK;
    void *used = NULL;
    st = tdm_alloc(r->group, (size_t)(r->count + 1) * sizeof *r->used, &used);
    r->used = used;
    return st;
}

static void begin_next_step(tdm_reducer *r)
{
    for (int b = 0; b < r->bucket_count; b++)
        r->bucket[b].pending = r->bucket[b].parameters;
    for (int i = 0; i < r->count; i++) {
        r->parameter[i].ready = false;
        if (r->sync)
            r->parameter[i].touched = false;
    }
    r->next = r->done = r->hooked = 0;
    r->in_step = false;
}

tdm_status tdm_reducer_commit(tdm_reducer *r)
{
    if (r->committed)
        return tdmi_fail(TDM_ERR_INVALID, "this reducer is committed already");
    tdm_status st = r->size > 1 ? reducer_agree(r) : TDM_OK;
    if (st == TDM_OK && !r->planned)
        st = make_plan(r);
    if (st == TDM_OK)
        st = allocate(r);
    if (st == TDM_OK)
        st = reducer_list_parts(r);
    if (st == TDM_OK)
        st = reducer_codec_create(r);
    if (st != TDM_OK)
        return st;
    r->committed = true;
    begin_next_step(r);
    for (int b = 0; b < r->bucket_count; b++) {
        tdm_bucket_info info = tdm_reducer_bucket(r, b);
        log_debug(TDM_LOG_DDP, "bucket %d: %zu bytes, %d parameters, %s ... %s", b, info.nbytes, info.parameters,
                  info.first, info.last);
    }
    return TDM_OK;
}

/* ---- a step ---- */

static void enter_step(tdm_reducer *r)
{
    if (!r->in_step) {
        r->in_step = true;
        r->sync = r->next_sync;
    }
}

static tdm_status start_full_buckets(tdm_reducer *r)
{
    tdm_status st = TDM_OK;
    while (st == TDM_OK && r->sync && r->next < r->bucket_count && r->bucket[r->next].pending == 0)
        st = reducer_bucket_start(r, r->next);
    return st;
}

void *tdm_reducer_gradient(tdm_reducer *r, int id)
{
    if (!r->committed || id < 0 || id >= r->count)
        return NULL;
    const reducer_parameter *p = &r->parameter[id];
    return r->bucket[p->bucket].memory + p->offset * r->elem_size;
}

tdm_status tdm_reducer_ready(tdm_reducer *r, int id)
{
    if (!r->committed || id < 0 || id >= r->count)
        return tdmi_fail(TDM_ERR_INVALID, "no parameter %d in a reducer with %d that is %s", id, r->count,
                         r->committed ? "committed" : "not committed");
    reducer_parameter *p = &r->parameter[id];
    if (p->ready)
        return tdmi_fail(TDM_ERR_INVALID, "parameter \"%s\" was marked ready twice in a step; mark a weight used in two places "
                                          "once, after both gradients are added", p->name);
    enter_step(r);
    p->ready = p->touched = true;
    r->bucket[p->bucket].pending--;
    return start_full_buckets(r);
}

tdm_status tdm_reducer_progress(tdm_reducer *r)
{
    return reducer_buckets_test(r);
}

/* The names of parameters not marked, as many as fit. */
static tdm_status fail_missing(const tdm_reducer *r, int missing)
{
    char names[600];
    size_t at = 0;
    for (int i = 0; i < r->count; i++) {
        const reducer_parameter *p = &r->parameter[i];
        if (p->ready)
            continue;
        size_t room = sizeof names - at, need = strlen(p->name) + 4;
        if (need + 4 > room) {
            snprintf(names + at, room, ", ...");
            break;
        }
        at += (size_t)snprintf(names + at, room, "%s\"%s\"", at == 0 ? "" : ", ", p->name);
    }
    return tdmi_fail(TDM_ERR_INVALID,
                     "%d of %d parameters were not marked ready in this step on rank %d: %s. Mark them, or create the reducer "
                     "with find_unused", missing, r->count, r->rank, names);
}

/* What this rank did not use counts as zero in the sum. */
static void fill_unused(tdm_reducer *r)
{
    for (int i = 0; i < r->count; i++) {
        reducer_parameter *p = &r->parameter[i];
        if (!p->touched)
            memset(tdm_reducer_gradient(r, i), 0, p->count * r->elem_size);
        r->used[i] = p->touched ? 1 : 0;
    }
    for (int b = 0; b < r->bucket_count; b++)
        r->bucket[b].pending = 0;
}

static tdm_status exchange_used(tdm_reducer *r)
{
    if (!r->options.find_unused || r->size == 1)
        return TDM_OK;
    tdm_status st = tdm_allreduce(r->group, r->used, r->used, (size_t)r->count, TDM_I32, TDM_MAX, NULL);
    return st == TDM_OK ? st : reducer_keep_failure(r, tdmi_fail_while(st, "exchanging which parameters were used"));
}

/* All buckets and the map of what was used. With a hook the map comes last: a hook's calls have their own order. After an error everything under way is ended before it returns. */
static tdm_status finish_reduction(tdm_reducer *r)
{
    if (r->options.find_unused)
        fill_unused(r);
    tdm_status st = start_full_buckets(r);
    if (st == TDM_OK && r->hook == NULL)
        st = exchange_used(r);
    while (st == TDM_OK && r->done < r->bucket_count)
        st = reducer_bucket_wait(r, r->done);
    if (st == TDM_OK && r->hook != NULL)
        st = exchange_used(r);
    if (st == TDM_OK)
        return TDM_OK;
    reducer_buckets_drain(r);
    tdmi_error_set_text(r->failure_text);
    return st;
}

tdm_status tdm_reducer_wait(tdm_reducer *r)
{
    if (!r->committed)
        return tdmi_fail(TDM_ERR_INVALID, "wait before commit");
    enter_step(r);
    int missing = 0;
    for (int i = 0; i < r->count; i++)
        missing += r->parameter[i].ready ? 0 : 1;
    if (missing > 0 && !r->options.find_unused && r->failure == TDM_OK) /* after a failure nobody marks the rest */
        return fail_missing(r, missing);
    tdm_status st = r->sync ? finish_reduction(r) : TDM_OK;
    if (st == TDM_OK)
        begin_next_step(r);
    return st;
}

void tdm_reducer_set_sync(tdm_reducer *r, bool sync)
{
    r->next_sync = sync;
}

bool tdm_reducer_used(const tdm_reducer *r, int id)
{
    return !r->options.find_unused || (r->committed && id >= 0 && id < r->count && r->used[id] != 0);
}

void tdm_reducer_zero(tdm_reducer *r)
{
    for (int b = 0; b < r->bucket_count; b++)
        memset(r->bucket[b].memory, 0, r->bucket[b].used * r->elem_size);
}

/* ---- the plan ---- */

int tdm_reducer_bucket_count(const tdm_reducer *r)
{
    return r->committed ? r->bucket_count : 0;
}

tdm_bucket_info tdm_reducer_bucket(const tdm_reducer *r, int bucket)
{
    if (bucket < 0 || bucket >= tdm_reducer_bucket_count(r))
        return (tdm_bucket_info){0};
    const reducer_bucket *b = &r->bucket[bucket];
    return (tdm_bucket_info){.nbytes = b->nbytes,
                             .parameters = b->parameters,
                             .first = b->first < 0 ? "" : r->parameter[b->first].name,
                             .last = b->last < 0 ? "" : r->parameter[b->last].name};
}
