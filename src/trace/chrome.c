/* chrome.c - a trace as Chrome's "Trace Event Format": one complete event ("ph":"X") a line, after the names of process and
 * threads. One event a line is what lets tdmi_trace_merge_chrome join files without parsing JSON. */
#include "trace/trace.h"

#include "core/memory.h"
#include "trace/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define TAIL "]}\n"

static const char *const track_names[] = {
    [TDMI_TRACK_COMPUTE] = "compute",
    [TDMI_TRACK_COMMUNICATION] = "communication",
    [TDMI_TRACK_DATA] = "data",
    [TDMI_TRACK_STEP] = "step",
};
_Static_assert(sizeof track_names / sizeof track_names[0] == TDMI_TRACK_COUNT, "each track has a name");

static void put_us(FILE *f, int64_t ns)
{
    fprintf(f, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

static void put_metadata(FILE *f, const char *what, int pid, int tid)
{
    fprintf(f, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{", what, pid, tid);
}

static void put_event(FILE *f, int pid, const tdmi_trace_event *event)
{
    fputs(",\n{\"ph\":\"X\",\"name\":", f);
    tdmi_json_put_string(f, event->name);
    fprintf(f, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":", track_names[event->track], pid, (int)event->track);
    put_us(f, event->begin_ns);
    fputs(",\"dur\":", f);
    put_us(f, event->end_ns - event->begin_ns);
    fprintf(f, ",\"args\":{\"step\":%" PRId64, event->step);
    if (event->nbytes >= 0)
        fprintf(f, ",\"bytes\":%" PRId64, event->nbytes);
    fputs("}}", f);
}

/* Opens `path`.tmp for writing. */
static tdm_status open_temporary(const char *path, char **temporary, FILE **out)
{
    size_t nbytes = strlen(path) + sizeof ".tmp";
    *temporary = tdmi_malloc(nbytes, "trace path");
    if (*temporary == NULL)
        return TDM_ERR_NO_MEMORY;
    snprintf(*temporary, nbytes, "%s.tmp", path);
    *out = fopen(*temporary, "w");
    if (*out == NULL) {
        tdm_status st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot write the timeline %s", *temporary);
        tdmi_free(*temporary);
        return st;
    }
    return TDM_OK;
}

/* Closes the file and gives it its name, or removes it when `st` or the closing says that it is not whole. */
static tdm_status finish(FILE *f, char *temporary, const char *path, tdm_status st)
{
    errno = 0;
    bool bad = fflush(f) != 0 || ferror(f) != 0;
    int err = errno;
    bad = fclose(f) != 0 || bad;
    if (st == TDM_OK && bad)
        st = tdmi_fail_errno(TDM_ERR_SYSTEM, err != 0 ? err : EIO, "cannot write the timeline %s", temporary);
    if (st == TDM_OK && rename(temporary, path) != 0)
        st = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot rename %s to %s", temporary, path);
    if (st != TDM_OK)
        unlink(temporary);
    tdmi_free(temporary);
    return st;
}

tdm_status tdmi_trace_write_chrome(const tdmi_trace *trace, const char *path)
{
    char *temporary;
    FILE *f;
    tdm_status st = open_temporary(path, &temporary, &f);
    if (st != TDM_OK)
        return st;
    int pid = tdmi_trace_rank(trace);
    fputs(HEAD, f);
    put_metadata(f, "process_name", pid, 0);
    fprintf(f, "\"name\":\"rank %d\"}},\n", pid);
    put_metadata(f, "process_sort_index", pid, 0);
    fprintf(f, "\"sort_index\":%d}}", pid);
    for (int track = 0; track < TDMI_TRACK_COUNT; track++) {
        fputs(",\n", f);
        put_metadata(f, "thread_name", pid, track);
        fprintf(f, "\"name\":\"%s\"}},\n", track_names[track]);
        put_metadata(f, "thread_sort_index", pid, track);
        fprintf(f, "\"sort_index\":%d}}", track);
    }
    uint64_t dropped;
    size_t count = tdmi_trace_count(trace, &dropped);
    for (size_t i = 0; i < count; i++) {
        tdmi_trace_event event = tdmi_trace_get(trace, i);
        put_event(f, pid, &event);
    }
    if (dropped > 0) {
        fputs(",\n", f);
        put_metadata(f, "process_labels", pid, 0);
        fprintf(f, "\"labels\":\"%" PRIu64 " older events were dropped\"}}", dropped);
    }
    fputs("\n" TAIL, f);
    return finish(f, temporary, path, TDM_OK);
}

static tdm_status copy_events(const char *part, bool *first, FILE *out)
{
    FILE *f = fopen(part, "r");
    if (f == NULL)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read the timeline %s", part);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length = getline(&line, &capacity, f);
    bool whole = false, good = length > 0 && strcmp(line, HEAD) == 0;
    while (good && !whole && (length = getline(&line, &capacity, f)) > 0) {
        whole = strcmp(line, TAIL) == 0;
        good = whole || (line[0] == '{' && line[length - 1] == '\n');
        if (whole || !good)
            continue;
        line[--length] = 0;
        if (line[length - 1] == ',')
            length--;
        fputs(*first ? "" : ",\n", out);
        fwrite(line, 1, (size_t)length, out);
        *first = false;
    }
    free(line);
    fclose(f);
    if (!good || !whole)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s is no timeline of Tandem or is cut off; remove it and merge the others", part);
    return TDM_OK;
}

tdm_status tdmi_trace_merge_chrome(const char *const *paths, int count, const char *out_path)
{
    char *temporary;
    FILE *f;
    tdm_status st = open_temporary(out_path, &temporary, &f);
    if (st != TDM_OK)
        return st;
    bool first = true;
    fputs(HEAD, f);
    for (int i = 0; i < count && st == TDM_OK; i++)
        st = copy_events(paths[i], &first, f);
    fputs(first ? TAIL : "\n" TAIL, f);
    return finish(f, temporary, out_path, st);
}
