/* recording_json.c - a recording as JSON: one object, one call a line. */
#include "trace/json_text.h"
#include "trace/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const state_names[] = {
    [TDMI_CALL_CREATED] = "created", [TDMI_CALL_STARTED] = "started", [TDMI_CALL_FINISHED] = "finished", [TDMI_CALL_FAILED] = "failed"};

static void put_field(FILE *f, const char *name, const char *text)
{
    fprintf(f, ",\"%s\":", name);
    tdmi_json_put_string(f, text);
}

static void put_time(FILE *f, const char *name, int64_t ns)
{
    if (ns != 0)
        fprintf(f, ",\"%s\":%" PRId64, name, ns);
    else
        fprintf(f, ",\"%s\":null", name);
}

/* Ranks of the group, as far as the bits reach; null where nobody looked. */
static void put_arrivals(FILE *f, const tdmi_recorded_call *call)
{
    if (call->missing <= 0 && call->arrived == 0)
        return;
    fprintf(f, ",\"missing\":%d,\"first_missing\":%d,\"arrived\":[", call->missing, call->first_missing);
    const char *between = "";
    for (int r = 0; r < 64; r++)
        if (call->arrived >> r & 1) {
            fprintf(f, "%s%d", between, r);
            between = ",";
        }
    fputc(']', f);
    put_time(f, "missed_ns", call->missed_ns);
}

static void put_call(FILE *f, const tdmi_recorded_call *call)
{
    fprintf(f, "{\"index\":%" PRIu64, call->index);
    put_field(f, "group", call->group);
    fprintf(f, ",\"group_id\":\"%016" PRIx64 "\",\"group_rank\":%d,\"group_size\":%d,\"call\":%" PRIu64, call->group_id,
            call->group_rank, call->group_size, call->number);
    put_field(f, "op", call->op);
    put_field(f, "dtype", call->dtype);
    put_field(f, "reduction", call->reduction);
    fprintf(f, ",\"fused\":%s,\"uneven\":%s,\"count\":%" PRIu64 ",\"root\":%d", call->fused ? "true" : "false",
            call->uneven ? "true" : "false", call->count, call->root);
    put_field(f, "label", call->label);
    put_field(f, "state", state_names[call->state]);
    put_time(f, "created_ns", call->created_ns);
    put_time(f, "started_ns", call->started_ns);
    put_time(f, "finished_ns", call->finished_ns);
    put_arrivals(f, call);
    fputc('}', f);
}

void tdmi_recording_put_json(const tdmi_recording *r, FILE *f)
{
    fprintf(f, "{\"tandem_recorder\":1,\"rank\":%d,\"size\":%d,\"pid\":%d,\"birth\":%" PRIu64, r->rank, r->size, r->pid, r->birth);
    put_field(f, "host", r->host);
    put_field(f, "boot", r->boot);
    put_field(f, "job", r->job);
    if (r->failed) {
        put_field(f, "status", tdm_status_name(r->status));
        put_field(f, "error", r->error);
    } else {
        fputs(",\"status\":null,\"error\":null", f);
    }
    fputs(",\"calls\":[", f);
    for (size_t i = 0; i < r->count; i++) {
        fputs(i > 0 ? ",\n" : "\n", f);
        put_call(f, &r->call[i]);
    }
    fputs("\n]}\n", f);
}

tdm_status tdmi_recording_write_json(const tdmi_recording *recording, const char *path)
{
    char temporary[4096];
    struct stat facts;
    const bool is_device = stat(path, &facts) == 0 && !S_ISREG(facts.st_mode); /* or a pipe: written to, never replaced */
    if ((size_t)snprintf(temporary, sizeof temporary, "%s%s", path, is_device ? "" : ".tmp") >= sizeof temporary)
        return tdmi_fail(TDM_ERR_INVALID, "the dump's path has more than %zu bytes", sizeof temporary);
    FILE *f = fopen(temporary, "we");
    if (f == NULL)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot write the dump %s", temporary);
    tdmi_recording_put_json(recording, f);
    errno = 0;
    bool bad = fflush(f) != 0 || ferror(f) != 0;
    const int error = errno != 0 ? errno : EIO;
    bad = fclose(f) != 0 || bad;
    if (!bad && (is_device || rename(temporary, path) == 0))
        return TDM_OK;
    const tdm_status status = tdmi_fail_errno(TDM_ERR_SYSTEM, bad ? error : errno, "cannot write the dump %s", path);
    if (!is_device)
        unlink(temporary);
    return status;
}
