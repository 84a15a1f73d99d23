/* agree.c - did all ranks register the same parameters?  One small all-gather of hashes; only where they differ do the ranks
 * exchange what they registered, so that all of them can name the first difference. */
#include "ddp/internal.h"

#include "core/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a rank registered, as texts one behind the other: the options, then each parameter. */
typedef struct description {
    char *text;
    size_t nbytes, capacity;
} description;

__attribute__((format(printf, 2, 3))) static tdm_status append(description *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t need = d->nbytes + (size_t)length + 1;
    if (need > d->capacity) {
        size_t capacity = 2 * need + 4096;
        char *grown = tdmi_realloc(d->text, capacity, "reducer description");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        d->text = grown;
        d->capacity = capacity;
    }
    va_start(args, format);
    vsnprintf(d->text + d->nbytes, d->capacity - d->nbytes, format, args);
    va_end(args);
    d->nbytes = need;
    return TDM_OK;
}

static tdm_status describe(const tdm_reducer *r, description *d)
{
    const tdm_compression *c = &r->options.compress;
    tdm_status st = append(d, "%s %s, %s, buckets of %zu bytes, the first %zu%s, compression %s %d %g %g %llu", tdm_dtype_name(r->options.dtype),
                           tdm_op_name(r->options.op), r->options.scatter ? "scattered" : "not scattered", r->cap,
                           r->first_cap, r->options.find_unused ? ", find_unused" : "", tdm_codec_name(c->codec), c->rank, c->min_saving,
                           c->fraction, (unsigned long long)c->seed);
    for (int i = 0; i < r->count && st == TDM_OK; i++) {
        const reducer_parameter *p = &r->parameter[i];
        if (r->planned)
            st = append(d, "\"%s\" with %zu elements in bucket %d at %zu, %s", p->name, p->count, p->bucket, p->offset,
                        tdm_codec_name(r->bucket[p->bucket].compress.codec));
        else if (p->rows > 1)
            st = append(d, "\"%s\" with %zu elements in %zu rows", p->name, p->count, p->rows);
        else
            st = append(d, "\"%s\" with %zu elements", p->name, p->count);
    }
    return st;
}

static uint64_t hash_of(const description *d)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < d->nbytes; i++)
        hash = (hash ^ (unsigned char)d->text[i]) * 0x100000001b3u;
    return hash;
}

/* Fails with the first text that differs; `a` and `b` are what rank 0 and rank `other` registered. */
static tdm_status name_difference(const char *a, size_t a_nbytes, const char *b, size_t b_nbytes, int other)
{
    const char *a_end = a + a_nbytes, *b_end = b + b_nbytes;
    int i = -1; /* the options, then parameter 0, 1, ... */
    while (a < a_end && b < b_end && strcmp(a, b) == 0) {
        a += strlen(a) + 1;
        b += strlen(b) + 1;
        i++;
    }
    if (i < 0)
        return tdmi_fail(TDM_ERR_MISMATCH, "ranks made different reducers: rank 0 %.200s; rank %d %.200s", a, other, b);
    const char *none = "no more parameters";
    return tdmi_fail(TDM_ERR_MISMATCH,
                     "ranks registered different parameters: parameter %d is %.300s on rank 0 and %.300s on rank %d; all ranks "
                     "must register the same parameters in the same order",
                     i, a < a_end ? a : none, b < b_end ? b : none, other);
}

/* `nbytes`: [size] bytes of each rank's description. */
static tdm_status exchange_details(tdm_reducer *r, const description *mine, const uint64_t *facts)
{
    size_t most = 0;
    for (int rank = 0; rank < r->size; rank++)
        if (facts[2 * rank + 1] > most)
            most = (size_t)facts[2 * rank + 1];
    char *all = tdmi_calloc((size_t)r->size, most, "reducer description");
    if (all == NULL)
        return TDM_ERR_NO_MEMORY;
    char *own = all + (size_t)r->rank * most;
    memcpy(own, mine->text, mine->nbytes);
    tdm_status st = tdm_all_gather(r->group, own, all, most, TDM_U8, NULL);
    int other = 1;
    while (st == TDM_OK && facts[2 * other] == facts[0] && facts[2 * other + 1] == facts[1])
        other++;
    if (st == TDM_OK)
        st = name_difference(all, (size_t)facts[1], all + (size_t)other * most, (size_t)facts[2 * other + 1], other);
    tdmi_free(all);
    return st;
}

tdm_status reducer_agree(tdm_reducer *r)
{
    description d = {0};
    uint64_t *facts = tdmi_calloc((size_t)r->size, 2 * sizeof *facts, "reducer description"); /* of each rank: hash, bytes */
    tdm_status st = facts == NULL ? TDM_ERR_NO_MEMORY : describe(r, &d);
    if (st == TDM_OK) {
        uint64_t *own = facts + 2 * r->rank;
        own[0] = hash_of(&d);
        own[1] = d.nbytes;
        st = tdm_all_gather(r->group, own, facts, 2, TDM_I64, NULL);
    }
    bool same = true;
    for (int rank = 1; rank < r->size && st == TDM_OK; rank++)
        same = same && facts[2 * rank] == facts[0] && facts[2 * rank + 1] == facts[1];
    if (st == TDM_OK && !same)
        st = exchange_details(r, &d, facts);
    tdmi_free(facts);
    tdmi_free(d.text);
    return st;
}
