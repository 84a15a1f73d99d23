/* syncs.c - calls that wait for the device, gathered by where they come from. */
#include "job/syncs.h"

#include "core/memory.h"
#include "job/order.h"

#include <stdlib.h>
#include <string.h>

/* How many frames are looked at, from the call outwards. */
#define FRAMES_MAX 4096

bool tdmi_waits_for_copy(const tdmi_rank *rank, uint32_t call)
{
    const uint32_t gpu = rank->role[call] == TDMI_ROLE_LAUNCH ? rank->gpu_of[call] : TDMI_NONE;
    if (gpu == TDMI_NONE || rank->role[rank->gpu[gpu]] != TDMI_ROLE_COPY)
        return false;
    const uint32_t event = rank->gpu[gpu];
    return tdmi_event_end(rank, call) >= tdmi_event_end(rank, event) &&
           (strstr(tdmi_event_name(rank, event), "DtoH") != NULL || strstr(tdmi_event_name(rank, call), "Async") == NULL);
}

/* ---- Python ---- */

typedef struct frames {
    uint32_t *event; /* of the program's own files, by start */
    size_t count;
} frames;

static bool is_own_frame(const char *name)
{
    return strstr(name, ".py(") != NULL && strstr(name, "torch/") == NULL && strstr(name, "site-packages/") == NULL && name[0] != '<';
}

static tdm_status find_frames(const tdmi_rank *rank, frames *out)
{
    const tdmi_trace *trace = rank->trace;
    *out = (frames){0};
    if (trace->kind_count[TDMI_EVENT_PYTHON] == 0)
        return TDM_OK;
    uint8_t *own = tdmi_calloc(trace->text_count + 1, 1, "job"); /* of each text: 0 not looked at, 1 no, 2 yes */
    tdmi_key *key = tdmi_malloc((trace->kind_count[TDMI_EVENT_PYTHON] + 1) * sizeof *key, "job");
    out->event = tdmi_malloc((trace->kind_count[TDMI_EVENT_PYTHON] + 1) * sizeof *out->event, "job");
    tdm_status status = own != NULL && key != NULL && out->event != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == TDM_OK && i < trace->event_count; i++) {
        const tdmi_event *e = &trace->event[i];
        if (e->kind != TDMI_EVENT_PYTHON || e->name == TDMI_NONE || out->count >= trace->kind_count[TDMI_EVENT_PYTHON])
            continue;
        if (own[e->name] == 0)
            own[e->name] = is_own_frame(tdmi_trace_text(trace, e->name)) ? 2 : 1;
        if (own[e->name] == 2)
            key[out->count++] = (tdmi_key){e->start_ns, i};
    }
    if (status == TDM_OK)
        status = tdmi_keys_sort(key, out->count, NULL, NULL);
    for (size_t i = 0; status == TDM_OK && i < out->count; i++)
        out->event[i] = key[i].index;
    tdmi_free(own);
    tdmi_free(key);
    return status;
}

/* The innermost that is around the call on its thread; those of mid-2023 have no thread and stand for any. */
static const char *line_of(const tdmi_rank *rank, const frames *f, uint32_t call)
{
    const tdmi_event *c = &rank->trace->event[call];
    size_t low = 0, high = f->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rank->trace->event[f->event[middle]].start_ns <= c->start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t looked = 0; low > 0 && looked < FRAMES_MAX; looked++) {
        const tdmi_event *e = &rank->trace->event[f->event[--low]];
        if (e->start_ns + e->dur_ns >= c->start_ns + c->dur_ns)
            return tdmi_trace_text(rank->trace, e->name);
    }
    return NULL;
}

/* ---- sites ---- */

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static tdm_status add(tdmi_syncs *syncs, const tdmi_sync_site *site)
{
    for (size_t i = 0; i < syncs->count; i++)
        if (same(syncs->of[i].call, site->call) && same(syncs->of[i].op, site->op) && same(syncs->of[i].line, site->line)) {
            syncs->of[i].count++;
            syncs->of[i].blocked_ns += site->blocked_ns;
            return TDM_OK;
        }
    tdmi_sync_site *more = tdmi_with_room(syncs->of, syncs->count, &syncs->capacity, sizeof *more, "job");
    if (more == NULL)
        return TDM_ERR_NO_MEMORY;
    syncs->of = more;
    syncs->of[syncs->count++] = *site;
    return TDM_OK;
}

static int longest_first(const void *a, const void *b)
{
    const tdmi_sync_site *x = a, *y = b;
    return (x->blocked_ns < y->blocked_ns) - (x->blocked_ns > y->blocked_ns);
}

static tdm_status find_in(const tdmi_rank *rank, tdmi_syncs *out)
{
    frames f;
    tdm_status status = find_frames(rank, &f);
    uint32_t *outermost = tdmi_malloc((rank->trace->lane_count + 1) * sizeof *outermost, "job"); /* operator, by lane */
    if (status == TDM_OK && outermost == NULL)
        status = TDM_ERR_NO_MEMORY;
    if (status == TDM_OK)
        memset(outermost, 0xff, (rank->trace->lane_count + 1) * sizeof *outermost);
    for (size_t i = 0; i < rank->host_count && status == TDM_OK; i++) {
        const uint32_t event = rank->host[i];
        uint32_t *op = &outermost[rank->trace->event[event].lane];
        const uint8_t role = rank->role[event];
        if (*op != TDMI_NONE && tdmi_event_end(rank, *op) < tdmi_event_end(rank, event))
            *op = TDMI_NONE;
        if (*op == TDMI_NONE && (role == TDMI_ROLE_OP || role == TDMI_ROLE_ITEM || role == TDMI_ROLE_BACKWARD || role == TDMI_ROLE_COMM_CALL))
            *op = event;
        if (!TDMI_ROLE_IS_SYNC(role) && !tdmi_waits_for_copy(rank, event))
            continue;
        const tdmi_sync_site site = {.call = tdmi_event_name(rank, event),
                                     .op = *op != TDMI_NONE ? tdmi_event_name(rank, *op) : "",
                                     .line = line_of(rank, &f, event),
                                     .count = 1,
                                     .blocked_ns = rank->trace->event[event].dur_ns};
        status = add(out, &site);
    }
    tdmi_free(outermost);
    tdmi_free(f.event);
    return status;
}

tdm_status tdmi_syncs_find(const tdmi_job *job, tdmi_syncs *out)
{
    tdm_status status = TDM_OK;
    *out = (tdmi_syncs){0};
    for (size_t r = 0; r < job->ranks && status == TDM_OK; r++)
        status = find_in(&job->rank[r], out);
    if (status != TDM_OK) {
        tdmi_syncs_free(out);
        return status;
    }
    if (out->count > 1)
        qsort(out->of, out->count, sizeof *out->of, longest_first);
    return TDM_OK;
}

void tdmi_syncs_free(tdmi_syncs *syncs)
{
    tdmi_free(syncs->of);
    *syncs = (tdmi_syncs){0};
}
