/* survey.c - bytes of events by time, in stretches that get longer as the trace does.
 *
 * Events come in any order and iterations may be named last, so what fits is known at the end only. Times are counted in stretches of 2^shift
 * ns, each where something happens in a table; when the table fills up, pairs of stretches become one. A few events at absurd times take
 * a stretch each and harm nobody. */
#include "kineto/survey.h"

#include "core/memory.h"

#include <stdlib.h>

enum { SLOTS = 1 << 17, STRETCHES_MAX = SLOTS / 2, FIRST_SHIFT = 18, STEPS_MAX = 1 << 20 };

typedef struct stretch {
    int64_t at; /* start_ns >> shift */
    uint64_t nbytes; /* 0: free */
} stretch;

struct tdmi_survey {
    int shift;
    size_t used;
    stretch *slot; /* [SLOTS] */
    int64_t *step; /* where iterations begin */
    size_t step_count, step_capacity;
};

tdm_status tdmi_survey_create(tdmi_survey **out)
{
    tdmi_survey *s = tdmi_calloc(1, sizeof *s, "trace survey");
    if (s == NULL)
        return TDM_ERR_NO_MEMORY;
    s->shift = FIRST_SHIFT;
    s->slot = tdmi_calloc(SLOTS, sizeof *s->slot, "trace survey");
    if (s->slot == NULL) {
        tdmi_free(s);
        return TDM_ERR_NO_MEMORY;
    }
    *out = s;
    return TDM_OK;
}

void tdmi_survey_destroy(tdmi_survey *s)
{
    if (s == NULL)
        return;
    tdmi_free(s->slot);
    tdmi_free(s->step);
    tdmi_free(s);
}

static void put(tdmi_survey *s, int64_t at, uint64_t nbytes)
{
    const uint64_t hash = (uint64_t)at * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash >> 47) & (SLOTS - 1);
    while (s->slot[i].nbytes != 0 && s->slot[i].at != at)
        i = (i + 1) & (SLOTS - 1);
    s->used += s->slot[i].nbytes == 0;
    s->slot[i].at = at;
    s->slot[i].nbytes += nbytes;
}

static tdm_status lengthen(tdmi_survey *s)
{
    stretch *old = s->slot, *slot = tdmi_calloc(SLOTS, sizeof *slot, "trace survey");
    if (slot == NULL)
        return TDM_ERR_NO_MEMORY;
    s->slot = slot;
    s->used = 0;
    s->shift++;
    for (size_t i = 0; i < SLOTS; i++)
        if (old[i].nbytes != 0)
            put(s, old[i].at >> 1, old[i].nbytes);
    tdmi_free(old);
    return TDM_OK;
}

tdm_status tdmi_survey_add(tdmi_survey *s, const tdmi_event *event, bool step)
{
    put(s, event->start_ns >> s->shift, tdmi_event_nbytes(event->kind));
    while (s->used > STRETCHES_MAX)
        if (lengthen(s) != TDM_OK)
            return TDM_ERR_NO_MEMORY;
    if (!step || s->step_count == STEPS_MAX)
        return TDM_OK;
    int64_t *grown = tdmi_with_room(s->step, s->step_count, &s->step_capacity, sizeof *grown, "trace survey");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    s->step = grown;
    s->step[s->step_count++] = event->start_ns;
    return TDM_OK;
}

static int by_time(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

tdmi_survey_choice tdmi_survey_choose(tdmi_survey *s, size_t nbytes)
{
    tdmi_survey_choice choice = {.from_ns = INT64_MAX};
    uint64_t sum = 0;
    size_t left = 0;
    for (size_t i = 0; i < SLOTS; i++) /* it is a list from here on */
        if (s->slot[i].nbytes != 0)
            s->slot[left++] = s->slot[i];
    qsort(s->slot, left, sizeof *s->slot, by_time);
    if (s->step_count > 0)
        qsort(s->step, s->step_count, sizeof *s->step, by_value);
    for (size_t step = s->step_count; step-- > 0;) {
        while (left > 0 && s->slot[left - 1].at >= s->step[step] >> s->shift)
            sum += s->slot[--left].nbytes;
        if (choice.iterations == 0)
            choice.needed = (size_t)sum;
        if (sum > nbytes)
            break;
        choice.fits = true;
        choice.from_ns = s->step[step];
        choice.iterations++;
    }
    if (s->step_count > 0)
        return choice;
    while (left > 0 && sum + s->slot[left - 1].nbytes <= nbytes) {
        sum += s->slot[--left].nbytes;
        choice.from_ns = (int64_t)((uint64_t)s->slot[left].at << s->shift);
        choice.fits = true;
    }
    choice.needed = left > 0 ? (size_t)(sum + s->slot[left - 1].nbytes) : (size_t)sum;
    return choice;
}
