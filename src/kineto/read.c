/* read.c - one file: read at once if its events fit into memory, else looked through first and then read in part. */
#include "kineto/read.h"

#include "core/memory.h"
#include "kineto/reader.h"

#include <stdlib.h>

static tdm_status open_source(const tdmi_read_task *task, tdmi_source **out)
{
    return task->bytes != NULL ? tdmi_source_open_bytes(task->bytes, task->nbytes, out) : tdmi_source_open(task->path, task->ahead, out);
}

enum { TEXTS_MIN = 1 << 20 }; /* bytes of names that every trace may have */

static tdm_status create_trace(const tdmi_read_task *task, tdmi_trace **out)
{
    tdmi_trace *t = tdmi_calloc(1, sizeof *t, "trace");
    if (t == NULL)
        return TDM_ERR_NO_MEMORY;
    t->rank = t->world_size = -1;
    t->backend = t->nccl_version = t->host_name = t->trace_name = TDMI_NONE;
    t->kept_from_ns = INT64_MIN;
    t->path = tdmi_strdup(task->path, "trace");
    t->texts = tdmi_calloc(1, sizeof *t->texts, "trace texts");
    if (t->path == NULL || t->texts == NULL || tdmi_texts_init(t->texts, task->memory_bytes / 4 > TEXTS_MIN ? task->memory_bytes / 4 : TEXTS_MIN) != TDM_OK) {
        tdmi_trace_free(t);
        return TDM_ERR_NO_MEMORY;
    }
    *out = t;
    return TDM_OK;
}

static void drop_reader(tdmi_reader *r)
{
    tdmi_scanner_drop(&r->scanner);
    tdmi_lanes_drop(&r->lanes);
    tdmi_lanes_drop(&r->named);
    tdmi_survey_destroy(r->survey);
    tdmi_free(r);
}

/* All of the file once. */
static tdm_status pass(const tdmi_read_task *task, int64_t from_ns, tdmi_reader **reader_out, tdmi_trace **trace_out)
{
    tdmi_source *source = NULL;
    tdmi_reader *r = tdmi_calloc(1, sizeof *r, "trace reader");
    if (r == NULL)
        return TDM_ERR_NO_MEMORY;
    r->first_damage = UINT64_MAX;
    r->keep_from_ns = from_ns;
    r->budget = task->memory_bytes;
    r->rows_only = task->rows_only;
    tdm_status status = create_trace(task, &r->trace);
    if (status == TDM_OK)
        status = open_source(task, &source);
    if (status == TDM_OK) {
        r->texts = r->trace->texts;
        status = tdmi_scanner_init(&r->scanner, source);
    }
    if (status == TDM_OK)
        status = tdmi_reader_document(r);
    if (status == TDM_OK)
        tdmi_reader_finish(r);
    tdmi_source_close(source);
    *reader_out = r;
    *trace_out = r->trace;
    return status;
}

/* Whether what was read is a trace at all. */
static tdm_status judge(const tdmi_reader *r, const tdmi_read_task *task, bool *foreign)
{
    const tdmi_trace *t = r->trace;
    *foreign = false;
    if (r->found_events)
        return TDM_OK;
    *foreign = true;
    if (t->text_bytes == 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s is empty%s", task->path, t->truncated ? ", or nothing of it can be inflated" : "");
    if (r->level > 0 && t->truncated && !r->bare && r->begun == false && t->wrong[TDMI_WRONG_DAMAGED] == 0 && r->json) {
        *foreign = false;
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s ends after %llu bytes of text, before its traceEvents: it was cut; copy it again", task->path,
                         (unsigned long long)t->text_bytes);
    }
    if (!r->json)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s is not JSON; a trace begins with { or [", task->path);
    return tdmi_fail(TDM_ERR_BAD_FILE, "%s is JSON but no trace: it has no traceEvents", task->path);
}

static void note_choice(tdmi_trace *t, const tdmi_survey_choice *choice, size_t memory_bytes)
{
    const unsigned long long outside = (unsigned long long)t->wrong[TDMI_WRONG_OUTSIDE];
    t->kept_from_ns = choice->from_ns;
    if (choice->iterations > 0)
        tdmi_reader_note(t, "not all of it fits into the %zu MiB that its events may take: the last %d of %d iterations were used, and %llu events before them left out",
                         memory_bytes >> 20, t->iterations_kept, t->iterations_seen, outside);
    else
        tdmi_reader_note(t, "not all of it fits into the %zu MiB that its events may take, and it has no iterations: its last events were used, and %llu before them left out",
                         memory_bytes >> 20, outside);
}

tdm_status tdmi_trace_read_task(const tdmi_read_task *task, bool *foreign, tdmi_trace **out)
{
    tdmi_reader *r = NULL;
    tdmi_trace *trace = NULL;
    *foreign = false;
    tdm_status status = pass(task, INT64_MIN, &r, &trace);
    if (status == TDM_OK)
        status = judge(r, task, foreign);
    if (status == TDM_OK && r->survey != NULL) {
        const size_t texts = trace->texts->nbytes, room = task->memory_bytes > texts ? (task->memory_bytes - texts) / 10 * 9 : 0;
        const tdmi_survey_choice choice = tdmi_survey_choose(r->survey, room);
        tdmi_trace_free(trace);
        drop_reader(r);
        if (!choice.fits)
            return tdmi_fail(TDM_ERR_NO_MEMORY, "%s: its last iteration alone takes about %.1f MiB, and its events may take %.1f; give more with --memory",
                             task->path, (double)(choice.needed + texts) / (1 << 20), (double)task->memory_bytes / (1 << 20));
        r = NULL;
        trace = NULL;
        status = pass(task, choice.from_ns, &r, &trace);
        if (status == TDM_OK && r->survey != NULL)
            status = tdmi_fail(TDM_ERR_NO_MEMORY, "%s: its last iterations take more than the %zu MiB that its events may take; give more with --memory",
                               task->path, task->memory_bytes >> 20);
        if (status == TDM_OK)
            note_choice(trace, &choice, task->memory_bytes);
    }
    if (r != NULL)
        drop_reader(r);
    if (status != TDM_OK) {
        tdmi_trace_free(trace);
        return status;
    }
    *out = trace;
    return TDM_OK;
}

size_t tdmi_trace_memory(const tdmi_trace_options *options)
{
    return options != NULL && options->memory_bytes > 0 ? options->memory_bytes : tdmi_memory_total() / 4;
}

int tdmi_trace_threads(const tdmi_trace_options *options)
{
    return options != NULL && options->threads > 0 ? options->threads : tdmi_cpu_usable();
}

tdm_status tdmi_trace_read(const char *path, const tdmi_trace_options *options, tdmi_trace **out)
{
    bool foreign;
    return tdmi_trace_read_task(&(tdmi_read_task){.path = path,
                                                  .memory_bytes = tdmi_trace_memory(options),
                                                  .rows_only = options != NULL && options->rows_only,
                                                  .ahead = tdmi_trace_threads(options) > 1},
                                &foreign, out);
}

tdm_status tdmi_trace_read_bytes(const char *name, const void *bytes, size_t nbytes, const tdmi_trace_options *options, tdmi_trace **out)
{
    bool foreign;
    return tdmi_trace_read_task(&(tdmi_read_task){.path = name,
                                                  .bytes = nbytes > 0 ? bytes : "",
                                                  .nbytes = nbytes,
                                                  .memory_bytes = tdmi_trace_memory(options),
                                                  .rows_only = options != NULL && options->rows_only},
                                &foreign, out);
}
