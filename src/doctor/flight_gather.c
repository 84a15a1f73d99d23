/* flight_gather.c - the dumps of a job: read, given to their ranks, made recordings. */
#include "doctor/flight.h"

#include "core/memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)

typedef struct source {
    const char *path;
    int rank; /* -1: its name has none */
    tdmi_flight_dump dump;
} source;

static tdm_status read_file(const char *path, tdmi_flight_dump *out)
{
    struct stat facts;
    FILE *file = fopen(path, "rbe");
    if (file == NULL || fstat(fileno(file), &facts) != 0) {
        const int error = errno;
        if (file != NULL)
            fclose(file);
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, error, "cannot read %s", path);
    }
    const size_t nbytes = (size_t)facts.st_size;
    uint8_t *bytes = nbytes <= FILE_BYTES_MAX ? tdmi_malloc(nbytes + 1, "flight dump") : NULL;
    if (bytes == NULL) {
        fclose(file);
        return nbytes <= FILE_BYTES_MAX
                   ? TDM_ERR_NO_MEMORY
                   : tdmi_fail(TDM_ERR_BAD_FILE, "%s is larger than %zu bytes: no dump of a flight recorder", path, FILE_BYTES_MAX);
    }
    const size_t got = fread(bytes, 1, nbytes, file);
    fclose(file);
    const tdm_status status = tdmi_flight_dump_read(bytes, got, out);
    tdmi_free(bytes);
    return status == TDM_OK || status == TDM_ERR_NO_MEMORY ? status : tdmi_fail_while(status, "reading %s", path);
}

/* "nccl_trace_rank_12", "trace_3.json", "rank0.pickle": the number at the end, without what is behind a dot. */
static int rank_of_name(const char *path)
{
    const char *base = strrchr(path, '/');
    base = base != NULL ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t end = dot != NULL && dot > base && !isdigit((unsigned char)dot[1]) ? (size_t)(dot - base) : strlen(base), first = end;
    while (first > 0 && isdigit((unsigned char)base[first - 1]) && end - first < 7)
        first--;
    return first < end ? atoi(base + first) : -1;
}

static int64_t last_ns(const source *s)
{
    return s->dump.calls > 0 ? s->dump.call[s->dump.calls - 1].created_ns : 0;
}

static int by_rank_then_newest(const void *a, const void *b)
{
    const source *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (last_ns(x) < last_ns(y)) - (last_ns(x) > last_ns(y));
}

/* Files without a number get the ranks that are free, in their order. */
static size_t give_ranks(source *all, size_t count)
{
    size_t given = 0;
    int next = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_free = all[i].rank >= 0;
        if (is_free)
            continue;
        do {
            is_free = true;
            for (size_t o = 0; o < count && is_free; o++)
                is_free = all[o].rank != next;
            next += !is_free;
        } while (!is_free);
        all[i].rank = next++;
        given++;
    }
    return given;
}

/* Adds a remark about `number` dumps, if there are any. */
static void note(tdmi_flight_job *job, size_t number, const char *what)
{
    char *text = job->witnesses.note;
    const size_t length = strlen(text);
    if (number > 0)
        snprintf(text + length, sizeof job->witnesses.note - length, "%s%zu %s", length > 0 ? "; " : "", number, what);
}

/* Keeps the newest of each rank. */
static size_t drop_doubles(source *all, size_t *count)
{
    size_t kept = 0, dropped = 0;
    for (size_t i = 0; i < *count; i++)
        if (kept > 0 && all[kept - 1].rank == all[i].rank) {
            tdmi_flight_dump_free(&all[i].dump);
            dropped++;
        } else
            all[kept++] = all[i];
    *count = kept;
    return dropped;
}

static int world_of(const source *all, size_t count)
{
    int world = 1;
    for (size_t i = 0; i < count; i++) {
        world = all[i].rank >= world ? all[i].rank + 1 : world;
        for (size_t g = 0; g < all[i].dump.groups; g++)
            for (size_t r = 0; r < all[i].dump.group[g].ranks; r++)
                if (all[i].dump.group[g].rank[r] >= world && all[i].dump.group[g].rank[r] < 1 << 24)
                    world = all[i].dump.group[g].rank[r] + 1;
    }
    return world;
}

static bool is_whole(const tdmi_flight_dump *dump)
{
    return dump->calls == 0 || dump->call[0].record == 0;
}

/* All sources become witnesses; what was not moved stays with its source. */
static tdm_status convert_all(source *all, size_t count, tdmi_flight_job *job)
{
    bool whole = true;
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < count; i++)
        whole &= is_whole(&all[i].dump);
    job->witnesses.of = tdmi_calloc(count, sizeof *job->witnesses.of, "flight dump");
    job->dump = tdmi_calloc(count, sizeof *job->dump, "flight dump");
    if (job->witnesses.of == NULL || job->dump == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && status == TDM_OK; i++) {
        tdmi_witness *witness = &job->witnesses.of[i];
        for (size_t c = 0; c < all[i].dump.calls && !whole; c++)
            job->sends_left_out += all[i].dump.call[c].source >= 0;
        status = tdmi_flight_convert(&all[i].dump, all[i].rank, job->world, whole, &witness->recording);
        if (status != TDM_OK)
            break;
        snprintf(witness->recording.job, sizeof witness->recording.job, "of PyTorch");
        witness->path = tdmi_strdup(all[i].path, "flight dump");
        job->dump[i] = all[i].dump;
        all[i].dump = (tdmi_flight_dump){0};
        job->witnesses.count = i + 1;
        status = witness->path != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    }
    return status;
}

tdm_status tdmi_flight_gather(const char *const *paths, int count, tdmi_flight_job *out)
{
    tdmi_flight_job job = {.unread = json_array()};
    source *all = tdmi_calloc((size_t)count + 1, sizeof *all, "flight dump");
    tdm_status status = all != NULL && job.unread != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    char first[TDMI_ERROR_TEXT_MAX] = ""; /* why a file was left out */
    size_t read = 0;
    for (int i = 0; i < count && status == TDM_OK; i++) {
        const tdm_status one = read_file(paths[i], &all[read].dump);
        if (one == TDM_OK) {
            all[read].path = paths[i];
            all[read++].rank = rank_of_name(paths[i]);
        } else if (one == TDM_ERR_NO_MEMORY)
            status = one;
        else {
            if (first[0] == '\0')
                snprintf(first, sizeof first, "%s", tdm_error_text());
            json_array_append_new(job.unread, json_string(tdm_error_text()));
        }
    }
    if (status == TDM_OK && read == 0)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "%s", first[0] != '\0' ? first : "no dump of a flight recorder is there");
    if (status == TDM_OK) {
        const size_t given = give_ranks(all, read);
        qsort(all, read, sizeof *all, by_rank_then_newest);
        const size_t dropped = drop_doubles(all, &read);
        job.world = world_of(all, read);
        note(&job, given, "got their ranks by the order of files, for their names have none");
        note(&job, dropped, "older or other dumps of the same ranks are left out");
        status = convert_all(all, read, &job);
    }
    for (size_t i = 0; all != NULL && i < read; i++)
        tdmi_flight_dump_free(&all[i].dump);
    tdmi_free(all);
    if (status != TDM_OK) {
        tdmi_flight_job_free(&job);
        return status;
    }
    *out = job;
    return TDM_OK;
}

void tdmi_flight_job_free(tdmi_flight_job *job)
{
    for (size_t i = 0; job->dump != NULL && i < job->witnesses.count; i++)
        tdmi_flight_dump_free(&job->dump[i]);
    tdmi_free(job->dump);
    tdmi_witnesses_free(&job->witnesses);
    json_decref(job->unread);
    *job = (tdmi_flight_job){0};
}
