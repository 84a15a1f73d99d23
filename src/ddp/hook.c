/* hook.c - buckets through the phases of a hook, one after the other.
 *
 *     bucket   0           1              2            started as their gradients are there, in order
 *     phases   0 . 1 . 2   0 . 1 . 2      0 .          . is the work that a phase has started: looked at, never waited for,
 *                                                      but by tdm_reducer_wait
 * How far this is differs between ranks; the order of calls does not. */
#include "ddp/internal.h"

#include "core/clock.h"
#include "core/memory.h"
#include "group/sends.h"

#include <stdlib.h>

static tdm_bucket described(const tdm_reducer *r, const reducer_bucket *b)
{
    return (tdm_bucket){.group = r->group, .number = b->number, .memory = b->memory, .count = b->used, .dtype = r->options.dtype,
                        .op = r->options.op, .part = b->part, .parts = b->parameters};
}

/* The next phase of a bucket whose last one is over. */
static tdm_status enter(tdm_reducer *r, reducer_bucket *b)
{
    const tdm_bucket bucket = described(r, b);
    const tdm_status st = r->hook(r->hook_arg, &bucket, b->phase++, &b->work);
    if (st != TDM_OK) {
        reducer_failed(r, st, "in the hook of", b->number);
        tdm_group_abort(r->group, r->failure_text);
        return st;
    }
    r->sent += tdmi_work_sends(b->work);
    if (b->work == NULL) {
        b->phase = 0;
        b->times.done_ns = tdmi_now_ns();
        r->hooked++;
    }
    return TDM_OK;
}

/* *over: its work is, and has been taken. */
static tdm_status look(tdm_reducer *r, reducer_bucket *b, bool wait, bool *over)
{
    *over = true;
    if (b->work == NULL)
        return TDM_OK;
    tdm_status st = wait ? TDM_OK : tdm_work_test(b->work, over);
    if (st == TDM_OK && *over) {
        tdm_work *work = b->work;
        b->work = NULL;
        st = tdm_work_wait(work);
    }
    return st == TDM_OK ? TDM_OK : reducer_failed(r, st, "reducing", b->number);
}

tdm_status reducer_hook_advance(tdm_reducer *r, int bucket)
{
    while (r->hooked < r->next) {
        reducer_bucket *b = &r->bucket[r->hooked];
        bool over;
        tdm_status st = look(r, b, r->hooked <= bucket, &over);
        if (st == TDM_OK && over)
            st = enter(r, b);
        if (st != TDM_OK || !over)
            return st;
    }
    return TDM_OK;
}

static tdm_status check_between_steps(const tdm_reducer *r, const char *what)
{
    if (r->options.scatter)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s with scatter: it takes whole buckets", what);
    if (!r->committed || r->in_step || r->next != 0)
        return tdmi_fail(TDM_ERR_INVALID, "%s %s", what, r->committed ? "inside a step" : "before commit");
    return TDM_OK;
}

tdm_status tdm_reducer_set_hook(tdm_reducer *r, tdm_reducer_hook hook, void *arg)
{
    const tdm_status st = check_between_steps(r, "a hook");
    if (st != TDM_OK)
        return st;
    r->hook = hook;
    r->hook_arg = arg;
    return TDM_OK;
}

uint64_t tdm_reducer_sent(const tdm_reducer *r)
{
    return r->sent;
}

/* ---- what a bucket holds ---- */

static int by_first(const void *a, const void *b)
{
    const size_t x = ((const tdm_part *)a)->first, y = ((const tdm_part *)b)->first;
    return (x > y) - (x < y);
}

tdm_status reducer_list_parts(tdm_reducer *r)
{
    for (int i = 0; i < r->bucket_count; i++) {
        reducer_bucket *b = &r->bucket[i];
        int at = 0;
        b->part = tdmi_calloc((size_t)b->parameters + 1, sizeof *b->part, "reducer buckets");
        if (b->part == NULL)
            return TDM_ERR_NO_MEMORY;
        for (int p = 0; p < r->count; p++)
            if (r->parameter[p].bucket == i)
                b->part[at++] = (tdm_part){r->parameter[p].offset, r->parameter[p].count, r->parameter[p].rows};
        qsort(b->part, (size_t)at, sizeof *b->part, by_first);
    }
    return TDM_OK;
}
