/* memory.c - the tables of a trace: how they grow, what they take, and what happens when that is too much. */
#include "kineto/reader.h"

#include "core/memory.h"

#include <string.h>

tdm_status tdmi_reader_grow(void **array, size_t *capacity, size_t size)
{
    void *grown = tdmi_with_room(*array, *capacity, capacity, size, "trace");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    *array = grown;
    return TDM_OK;
}

/* The bytes that the tables take now. */
static size_t nbytes_of(const tdmi_reader *r)
{
    const tdmi_trace *t = r->trace;
    return t->event_count * sizeof *t->event + t->op_count * sizeof *t->op + t->kernel_count * sizeof *t->kernel +
           t->copy_count * sizeof *t->copy + t->memory_count * sizeof *t->memory + t->python_count * sizeof *t->python +
           t->sync_count * sizeof *t->sync + t->collective_count * sizeof *t->collective + r->texts->nbytes + tdmi_lanes_nbytes(&r->lanes) +
           tdmi_lanes_nbytes(&r->named);
}

void tdmi_reader_forget(tdmi_reader *r)
{
    tdmi_trace *t = r->trace;
    t->event_count = t->op_count = t->kernel_count = t->copy_count = t->memory_count = t->python_count = t->sync_count = t->collective_count = 0;
    memset(t->kind_count, 0, sizeof t->kind_count);
    t->seen = t->flows = t->counters = t->metadata = 0;
    t->iterations_seen = t->iterations_kept = 0;
    r->zero_starts = 0;
    for (size_t i = 0; i < r->lanes.count; i++)
        r->lanes.lane[i].events = 0;
}

static void drop_table(void **array, size_t *count, size_t *capacity)
{
    tdmi_free(*array);
    *array = NULL;
    *count = *capacity = 0;
}

static void drop_tables(tdmi_reader *r)
{
    tdmi_trace *t = r->trace;
    drop_table((void **)&t->event, &t->event_count, &r->event_capacity);
    drop_table((void **)&t->op, &t->op_count, &r->op_capacity);
    drop_table((void **)&t->kernel, &t->kernel_count, &r->kernel_capacity);
    drop_table((void **)&t->copy, &t->copy_count, &r->copy_capacity);
    drop_table((void **)&t->memory, &t->memory_count, &r->memory_capacity);
    drop_table((void **)&t->python, &t->python_count, &r->python_capacity);
    drop_table((void **)&t->sync, &t->sync_count, &r->sync_capacity);
    drop_table((void **)&t->collective, &t->collective_count, &r->collective_capacity);
}

tdm_status tdmi_reader_check_memory(tdmi_reader *r)
{
    if (r->survey != NULL || nbytes_of(r) <= r->budget)
        return TDM_OK;
    tdm_status status = tdmi_survey_create(&r->survey);
    for (size_t i = 0; i < r->trace->event_count && status == TDM_OK; i++)
        status = tdmi_survey_add(r->survey, &r->trace->event[i], tdmi_reader_is_step(r, &r->trace->event[i]));
    if (status != TDM_OK)
        return status;
    drop_tables(r);
    return TDM_OK;
}
