/* sampler.c - an epoch's order, shared out over ranks and cut into batches. */
#include "data/sampler.h"

#include "core/memory.h"
#include "data/rng.h"

struct tdmi_sampler {
    tdmi_sampler_options is;
    tdmi_sampler_position at;
    uint64_t limit;         /* places of an epoch that are handed out, over all ranks */
    uint32_t *order;        /* NULL: sequential */
    bool drawn;             /* order holds epoch `drawn_epoch` */
    uint64_t drawn_epoch;
    tdmi_rng rng;
};

static uint64_t global_batch(const tdmi_sampler *s)
{
    return (uint64_t)s->is.batch * (uint64_t)s->is.ranks;
}

tdm_status tdmi_sampler_create(const tdmi_sampler_options *options, tdmi_sampler **out)
{
    const tdmi_sampler_options *o = options;
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
        return tdmi_fail(TDM_ERR_INVALID, "sampler: rank %d of %d does not exist", o->rank, o->ranks);
    if (o->batch < 1)
        return tdmi_fail(TDM_ERR_INVALID, "sampler: a batch of %u samples; it needs at least 1", o->batch);
    if (o->samples >= UINT32_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "sampler: %llu samples; at most %u are possible", (unsigned long long)o->samples,
                         UINT32_MAX - 1);
    const uint64_t batch = (uint64_t)o->batch * (uint64_t)o->ranks;
    uint64_t limit = o->samples;
    if (o->end == TDMI_SAMPLER_PAD)
        limit = (o->samples + (uint64_t)o->ranks - 1) / (uint64_t)o->ranks * (uint64_t)o->ranks;
    if (o->samples == 0 || (o->end != TDMI_SAMPLER_EXACT && limit < batch))
        return tdmi_fail(TDM_ERR_BAD_FILE,
                         "%llu samples are fewer than one batch (%d ranks of %u samples: %llu); use more data or a smaller "
                         "batch",
                         (unsigned long long)o->samples, o->ranks, o->batch, (unsigned long long)batch);
    tdmi_sampler *s = tdmi_calloc(1, sizeof *s, "sampler");
    if (s == NULL)
        return TDM_ERR_NO_MEMORY;
    s->is = *o;
    s->limit = limit;
    if (o->shuffle) {
        s->order = tdmi_calloc(o->samples, sizeof *s->order, "sampler order");
        if (s->order == NULL) {
            tdmi_free(s);
            return TDM_ERR_NO_MEMORY;
        }
    }
    *out = s;
    return TDM_OK;
}

void tdmi_sampler_destroy(tdmi_sampler *sampler)
{
    if (sampler != NULL)
        tdmi_free(sampler->order);
    tdmi_free(sampler);
}

static void draw_order(tdmi_sampler *s)
{
    if (s->order == NULL || (s->drawn && s->drawn_epoch == s->at.epoch))
        return;
    tdmi_rng_seed(&s->rng, s->is.seed + s->at.epoch);
    tdmi_rng_permutation(&s->rng, s->order, (uint32_t)s->is.samples);
    s->drawn = true;
    s->drawn_epoch = s->at.epoch;
}

static uint32_t sample_at(const tdmi_sampler *s, uint64_t place)
{
    place %= s->is.samples; /* padding repeats the order from its head */
    return s->order != NULL ? s->order[place] : (uint32_t)place;
}

/* Whether a batch that begins at `next` exists. */
static bool has_batch(const tdmi_sampler *s, uint64_t next)
{
    return s->is.end == TDMI_SAMPLER_EXACT ? next < s->limit : next + global_batch(s) <= s->limit;
}

static void begin_next_epoch_if_done(tdmi_sampler *s)
{
    if (!has_batch(s, s->at.next)) {
        s->at.epoch++;
        s->at.next = 0;
    }
}

void tdmi_sampler_next(tdmi_sampler *s, uint32_t *indices, uint32_t *rows, bool *last)
{
    draw_order(s);
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->is.batch; i++) {
        uint64_t place = s->at.next + (uint64_t)s->is.rank + (uint64_t)i * (uint64_t)s->is.ranks;
        if (place >= s->limit)
            break;
        indices[count++] = sample_at(s, place);
    }
    s->at.next += global_batch(s);
    *rows = count;
    *last = !has_batch(s, s->at.next);
    begin_next_epoch_if_done(s);
}

static uint64_t batches_of(const tdmi_sampler *s, uint64_t places)
{
    uint64_t batch = global_batch(s);
    return s->is.end == TDMI_SAMPLER_EXACT ? (places + batch - 1) / batch : places / batch;
}

uint64_t tdmi_sampler_batches(const tdmi_sampler *s)
{
    return batches_of(s, s->limit);
}

uint64_t tdmi_sampler_left(const tdmi_sampler *s)
{
    return batches_of(s, s->limit - s->at.next);
}

tdmi_sampler_position tdmi_sampler_tell(const tdmi_sampler *s)
{
    return s->at;
}

tdm_status tdmi_sampler_seek(tdmi_sampler *s, tdmi_sampler_position position)
{
    if (position.next > s->limit)
        return tdmi_fail(TDM_ERR_BAD_FILE,
                         "position %llu lies beyond an epoch of %llu samples; the run was begun with other data",
                         (unsigned long long)position.next, (unsigned long long)s->limit);
    s->at = position;
    begin_next_epoch_if_done(s); /* with another number of ranks the rest may no longer fill a batch */
    return TDM_OK;
}

uint64_t tdmi_sampler_count(const tdmi_sampler *s)
{
    const uint64_t ranks = (uint64_t)s->is.ranks, rank = (uint64_t)s->is.rank;
    if (s->is.end == TDMI_SAMPLER_EXACT)
        return s->limit > rank ? (s->limit - rank - 1) / ranks + 1 : 0;
    return s->limit / ranks;
}

uint32_t tdmi_sampler_at(tdmi_sampler *s, uint64_t i)
{
    draw_order(s);
    return sample_at(s, (uint64_t)s->is.rank + i * (uint64_t)s->is.ranks);
}
