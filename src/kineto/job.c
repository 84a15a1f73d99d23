/* job.c - the traces of a job: read in parallel, then told apart by rank.
 *
 * Threads: as many as there are cores and files read files; each takes the next file that nobody has, and writes only what it read there.
 * The caller waits for all of them. */
#include "core/memory.h"
#include "kineto/each.h"
#include "kineto/files.h"
#include "kineto/read.h"
#include "kineto/reader.h"

#include <stdlib.h>
#include <string.h>

typedef struct outcome {
    tdmi_trace *trace;
    tdm_status status;
    bool foreign;
    char text[TDMI_ERROR_TEXT_MAX];
    int name_rank; /* what the name tells; -1 */
} outcome;

typedef struct work {
    const tdmi_files *files;
    outcome *outcome; /* [files->count]; each written by one thread */
    size_t memory_bytes;
    uint64_t text_bytes; /* about, in all files */
    bool rows_only, ahead, newest;
} work;

static void add_note(tdmi_job_traces *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_note(tdmi_job_traces *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tdmi_note_add(&job->note, &job->note_count, format, arguments);
    va_end(arguments);
}

/* Of the memory, each file may have what its text is of all text: all ranks keep about as many iterations. */
static size_t share_of(const work *w, size_t file)
{
    enum { LEAST = 1 << 20 };
    const double share = (double)w->memory_bytes * ((double)w->files->file[file].text_bytes / (double)(w->text_bytes > 0 ? w->text_bytes : 1));
    return share > LEAST ? (size_t)share : LEAST;
}

/* One file; that it fails is an outcome too, and stops no other. */
static tdm_status read_file(uint32_t i, void *arg)
{
    const work *w = arg;
    outcome *o = &w->outcome[i];
    const tdmi_read_task task = {.path = w->files->file[i].path, .memory_bytes = share_of(w, i), .rows_only = w->rows_only, .ahead = w->ahead};
    o->status = tdmi_trace_read_task(&task, &o->foreign, &o->trace);
    if (o->status != TDM_OK)
        strncpy(o->text, tdm_error_text(), sizeof o->text - 1);
    return TDM_OK;
}

static int64_t last_ns(const tdmi_trace *t)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < t->event_count; i++)
        last = t->event[i].start_ns > last ? t->event[i].start_ns : last;
    return last > 0 ? last + (t->base_ns < INT64_MAX - last ? t->base_ns : 0) : last;
}

static bool is_taken(const outcome *o, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        if (o[i].trace != NULL && o[i].trace->rank == rank)
            return true;
    return false;
}

static void take_name(tdmi_job_traces *job, outcome *o)
{
    o->trace->rank = o->name_rank;
    o->trace->rank_from_name = true;
    add_note(job, "%s does not say which rank it is; its name says %d", o->trace->path, o->name_rank);
}

/* Of two files of one rank, each stays if the name of one says another rank that is free; else the newer one, or none. */
static tdm_status settle(tdmi_job_traces *job, outcome *all, size_t count, size_t a, size_t b, bool newest)
{
    outcome *const pair[] = {&all[b], &all[a]};
    for (int i = 0; i < 2; i++) {
        outcome *o = pair[i];
        if (o->name_rank >= 0 && o->name_rank != o->trace->rank && !is_taken(all, count, o->name_rank)) {
            add_note(job, "%s says it is rank %d, as %s does; its name says %d, which is taken", o->trace->path, o->trace->rank,
                     pair[1 - i]->trace->path, o->name_rank);
            o->trace->rank = o->name_rank;
            o->trace->rank_from_name = true;
            return TDM_OK;
        }
    }
    if (!newest)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s and %s both say they are rank %d of the job; give one trace of each rank, and other iterations or jobs apart",
                         all[a].trace->path, all[b].trace->path, all[a].trace->rank);
    outcome *older = last_ns(all[a].trace) > last_ns(all[b].trace) ? &all[b] : &all[a];
    const outcome *newer = older == &all[a] ? &all[b] : &all[a];
    add_note(job, "%s and %s are both of rank %d: the second, which is newer, is used", older->trace->path, newer->trace->path, newer->trace->rank);
    tdmi_trace_free(older->trace);
    older->trace = NULL;
    return TDM_OK;
}

/* Every trace gets a rank of its own: what the file says, what its name says, or the next free one in order of names. */
static tdm_status assign_ranks(tdmi_job_traces *job, outcome *all, size_t count, bool newest)
{
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; status == TDM_OK && all[i].trace != NULL && all[i].trace->rank >= 0 && k < i; k++)
            if (all[k].trace != NULL && all[k].trace->rank == all[i].trace->rank)
                status = settle(job, all, count, k, i, newest);
    for (size_t i = 0; i < count; i++)
        if (all[i].trace != NULL && all[i].trace->rank < 0 && all[i].name_rank >= 0 && !is_taken(all, count, all[i].name_rank))
            take_name(job, &all[i]);
    int next = 0;
    for (size_t i = 0; i < count; i++) {
        tdmi_trace *t = all[i].trace;
        if (t == NULL || t->rank >= 0)
            continue;
        while (is_taken(all, count, next))
            next++;
        t->rank = next;
        t->rank_from_name = true;
        add_note(job, "%s does not say which rank it is; it is taken as rank %d, in order of names", t->path, next);
    }
    return status;
}

static int by_rank(const void *a, const void *b)
{
    const tdmi_trace *const *x = a, *const *y = b;
    return ((*x)->rank > (*y)->rank) - ((*x)->rank < (*y)->rank);
}

static void find_world(tdmi_job_traces *job)
{
    int smallest = INT32_MAX;
    for (size_t i = 0; i < job->count; i++) {
        const int size = job->rank[i]->world_size;
        job->world_size = size > job->world_size ? size : job->world_size;
        if (size > 0 && size < smallest)
            smallest = size;
    }
    if (smallest < job->world_size)
        add_note(job, "the files speak of jobs of %d and of %d ranks: perhaps they are of several jobs", smallest, job->world_size);
    const int highest = job->rank[job->count - 1]->rank;
    if (highest >= job->world_size)
        job->world_size = highest < INT32_MAX ? highest + 1 : highest;
    if ((size_t)job->world_size > job->count)
        add_note(job, "there are traces of %zu of %d ranks", job->count, job->world_size);
}

/* What could not be read, in words: in a folder, files that are no traces are no failures. */
static void note_failures(tdmi_job_traces *job, const work *w, char first[TDMI_ERROR_TEXT_MAX])
{
    for (size_t i = 0; i < w->files->count; i++) {
        const outcome *o = &w->outcome[i];
        if (o->status == TDM_OK)
            continue;
        const bool other = o->foreign && !w->files->file[i].named;
        job->failed += !other;
        if (other)
            add_note(job, "%s is no trace and was left out", w->files->file[i].path);
        else
            add_note(job, "%s", o->text);
        if (first[0] == '\0')
            memcpy(first, o->text, TDMI_ERROR_TEXT_MAX);
    }
}

static tdm_status collect(tdmi_job_traces *job, work *w)
{
    char first[TDMI_ERROR_TEXT_MAX] = "";
    bool memory = false;
    job->failed = w->files->missing;
    if (w->files->note_count > 0)
        strncpy(first, w->files->missing > 0 ? w->files->note[0] : "", sizeof first - 1);
    for (size_t i = 0; i < w->files->note_count; i++)
        add_note(job, "%s", w->files->note[i]);
    note_failures(job, w, first);
    const tdm_status status = assign_ranks(job, w->outcome, w->files->count, w->newest);
    if (status != TDM_OK)
        return status;
    job->rank = tdmi_calloc(w->files->count + 1, sizeof *job->rank, "traces");
    if (job->rank == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < w->files->count; i++) {
        memory |= w->outcome[i].status == TDM_ERR_NO_MEMORY;
        if (w->outcome[i].trace != NULL)
            job->rank[job->count++] = w->outcome[i].trace;
        w->outcome[i].trace = NULL;
    }
    if (job->count == 0 && w->files->count == 0 && first[0] == '\0' && w->files->inside != NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "there are only folders in the folder, which are not entered; give one of them, such as %s", w->files->inside);
    if (job->count == 0 && w->files->count == 0 && first[0] == '\0')
        return tdmi_fail(TDM_ERR_BAD_FILE, "there are no files in the folder");
    if (job->count == 0)
        return tdmi_fail(memory ? TDM_ERR_NO_MEMORY : TDM_ERR_BAD_FILE, "no trace could be read: %s", first);
    qsort(job->rank, job->count, sizeof *job->rank, by_rank);
    find_world(job);
    return TDM_OK;
}

tdm_status tdmi_job_traces_read(const char *const *path, size_t count, const tdmi_trace_options *options, tdmi_job_traces **out)
{
    tdmi_files files;
    const int threads = tdmi_trace_threads(options);
    tdm_status status = tdmi_files_list(path, count, &files);
    if (status != TDM_OK)
        return status;
    work w = {.files = &files, .memory_bytes = tdmi_trace_memory(options)};
    for (size_t i = 0; i < files.count; i++)
        w.text_bytes += files.file[i].text_bytes;
    w.ahead = (size_t)threads > files.count;
    w.rows_only = options != NULL && options->rows_only;
    w.newest = options != NULL && options->newest_of_rank;
    tdmi_job_traces *job = tdmi_calloc(1, sizeof *job, "traces");
    w.outcome = tdmi_calloc(files.count + 1, sizeof *w.outcome, "traces");
    if (job == NULL || w.outcome == NULL) {
        tdmi_free(job);
        tdmi_free(w.outcome);
        tdmi_files_drop(&files);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < files.count; i++)
        w.outcome[i].name_rank = tdmi_files_rank_of_name(files.file[i].path);
    tdmi_each_place(files.count, threads, read_file, &w);
    status = collect(job, &w);
    for (size_t i = 0; i < files.count; i++)
        tdmi_trace_free(w.outcome[i].trace);
    tdmi_free(w.outcome);
    tdmi_files_drop(&files);
    if (status != TDM_OK) {
        tdmi_job_traces_free(job);
        return status;
    }
    *out = job;
    return TDM_OK;
}

void tdmi_job_traces_free(tdmi_job_traces *job)
{
    if (job == NULL)
        return;
    for (size_t i = 0; i < job->count; i++)
        tdmi_trace_free(job->rank[i]);
    tdmi_free(job->rank);
    tdmi_notes_free(job->note, job->note_count);
    tdmi_free(job);
}
