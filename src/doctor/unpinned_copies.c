/* unpinned_copies.c - batches copied to the device from pageable memory: slow, and the host stands still meanwhile.
 *
 * Cured: the copies run at the speed of pinned ones and the calls return at once. */
#include "doctor/edits.h"

#include <stdio.h>
#include <string.h>

/* Less is a scalar or an index: pinning gains nothing. */
#define COPY_BYTES_MIN ((int64_t)64 << 10)
/* Of this size a pinned copy shows the link's speed. */
#define SHOWS_SPEED_BYTES ((int64_t)1 << 20)
/* A call that only puts a copy into the queue. */
#define CALL_NS 8000
/* The synchronisation behind a copy is the one that copy_() makes when it is not told to go on. */
#define SYNC_WITHIN_NS 20000

typedef struct copies {
    double count, nbytes, copy_ns, blocked_ns; /* of an iteration and rank */
} copies;

static const tdmi_copy_detail *detail_of(const tdmi_rank *rank, uint32_t event)
{
    const tdmi_event *e = &rank->trace->event[event];
    return e->kind == TDMI_EVENT_COPY && e->detail != TDMI_NONE ? &rank->trace->copy[e->detail] : NULL;
}

/* The link's speed, bytes a ns: the fastest large pinned copy of the job, else what the generation of the device has. */
static double pinned_speed(const tdmi_job *job, bool *measured)
{
    double fastest = 0;
    int major = 0;
    for (size_t r = 0; r < job->ranks; r++) {
        const tdmi_rank *rank = &job->rank[r];
        for (size_t g = 0; g < rank->gpu_count; g++) {
            const tdmi_copy_detail *d = detail_of(rank, rank->gpu[g]);
            const int64_t ns = rank->trace->event[rank->gpu[g]].dur_ns;
            if (d != NULL && d->nbytes >= SHOWS_SPEED_BYTES && ns > 0 && strstr(tdmi_event_name(rank, rank->gpu[g]), "HtoD (Pinned") != NULL &&
                (double)d->nbytes / (double)ns > fastest)
                fastest = (double)d->nbytes / (double)ns;
        }
        if (rank->trace->device_count > 0)
            major = rank->trace->device[0].major;
    }
    *measured = fastest > 0;
    return fastest > 0 ? fastest : major >= 9 ? 48 : major == 8 ? 24 : 12;
}

/* The synchronisation that follows a call on its thread, within the same copy_(); TDMI_NONE. */
static uint32_t sync_after(const tdmi_rank *rank, uint32_t call)
{
    const tdmi_event *e = &rank->trace->event[call];
    const int64_t end_ns = e->start_ns + e->dur_ns;
    size_t low = 0, high = rank->host_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rank->trace->event[rank->host[middle]].start_ns < end_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < rank->host_count && rank->trace->event[rank->host[i]].start_ns <= end_ns + SYNC_WITHIN_NS; i++)
        if (TDMI_ROLE_IS_SYNC(rank->role[rank->host[i]]) && rank->trace->event[rank->host[i]].lane == e->lane)
            return rank->host[i];
    return TDMI_NONE;
}

static tdm_status edit_copies(const tdmi_job *job, double speed, tdmi_edits *edits, copies *out)
{
    tdmi_edit call = tdmi_edit_none();
    uint32_t free_call = 0;
    const double iterations = tdmi_job_iterations(job);
    call.host_most_ns = CALL_NS;
    call.never_waits = true;
    tdm_status status = tdmi_edits_add(edits, &call, &free_call);
    *out = (copies){0};
    for (size_t r = 0; r < job->ranks && status == TDM_OK; r++) {
        const tdmi_rank *rank = &job->rank[r];
        for (size_t g = 0; g < rank->gpu_count && status == TDM_OK; g++) {
            const uint32_t event = rank->gpu[g], launch = rank->launch[g];
            const tdmi_copy_detail *d = detail_of(rank, event);
            const int64_t ns = rank->trace->event[event].dur_ns;
            if (d == NULL || d->nbytes < COPY_BYTES_MIN || strstr(tdmi_event_name(rank, event), "HtoD (Pageable") == NULL)
                continue;
            tdmi_edit faster = tdmi_edit_none();
            uint32_t device;
            faster.device_ns = (double)d->nbytes / speed < (double)ns ? (int64_t)((double)d->nbytes / speed) : ns;
            status = tdmi_edits_add(edits, &faster, &device);
            if (status != TDM_OK)
                break;
            tdmi_edits_mark(edits, r, event, device);
            out->count++;
            out->nbytes += (double)d->nbytes;
            out->copy_ns += (double)ns;
            if (launch == TDMI_NONE)
                continue;
            const uint32_t sync = sync_after(rank, launch);
            tdmi_edits_mark(edits, r, launch, free_call);
            out->blocked_ns += (double)rank->trace->event[launch].dur_ns;
            if (sync != TDMI_NONE) {
                tdmi_edits_mark(edits, r, sync, free_call);
                out->blocked_ns += (double)rank->trace->event[sync].dur_ns;
            }
        }
    }
    if (iterations > 0) {
        out->count /= iterations;
        out->nbytes /= iterations;
        out->copy_ns /= iterations;
        out->blocked_ns /= iterations;
    }
    return status;
}

static tdm_status gain_of(tdmi_case *c, double speed, tdmi_gain *out, copies *seen)
{
    tdmi_edits edits;
    tdm_status status = tdmi_edits_create(c->job, &edits);
    if (status == TDM_OK)
        status = edit_copies(c->job, speed, &edits, seen);
    if (status == TDM_OK && seen->count > 0)
        tdmi_edits_gain(&edits, c->model, out);
    tdmi_edits_free(&edits);
    return status;
}

void tdmi_find_unpinned_copies(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "unpinned_copies", .rank = -1, .explains = "implicit_sync launch_bound", .explains_share = 0.6};
    bool measured;
    copies seen;
    tdmi_gain other = {0};
    if (!c->job->on_device)
        return;
    const double speed = pinned_speed(c->job, &measured);
    tdm_status status = gain_of(c, speed, &f.gain, &seen);
    if (status == TDM_OK && f.gain.pct >= TDMI_GAIN_PCT_MIN && !measured) {
        status = gain_of(c, speed / 2, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
        if (status == TDM_OK)
            status = gain_of(c, speed * 1.5, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
    }
    out->failed |= status != TDM_OK;
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    f.evidence = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "copies", seen.count, "megabytes", seen.nbytes / 1e6, "copy_ms", seen.copy_ns / 1e6, "blocked_ms",
                           seen.blocked_ns / 1e6, "gbps", seen.nbytes / seen.copy_ns, "pinned_gbps", speed, "pinned_measured", measured);
    snprintf(f.text, sizeof f.text, "%.0f MB an iteration go to the device from pageable memory at %.1f GB/s, and the host stands still for %.1f ms of it; pinned memory would reach %.0f GB/s%s",
             seen.nbytes / 1e6, seen.nbytes / seen.copy_ns, seen.blocked_ns / 1e6, speed, measured ? "" : " on this generation of devices");
    snprintf(f.advice, sizeof f.advice, "%s",
             "DataLoader(pin_memory=True) and batch.to(device, non_blocking=True): both, one alone changes little; batches of an own type need a pin_memory() method");
    tdmi_findings_add(out, &f);
}
