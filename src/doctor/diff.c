/* diff.c - times by name on each side, then names of both sides lined up. */
#include "doctor/diff.h"

#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;
    double count, ns;
} row;

typedef struct rows {
    row *of;
    size_t count, capacity;
} rows;

static tdm_status push(rows *to, const char *name, double count, double ns)
{
    row *grown = tdmi_with_room(to->of, to->count, &to->capacity, sizeof *grown, "doctor");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    to->of = grown;
    to->of[to->count++] = (row){name, count, ns};
    return TDM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

/* One row a name. */
static void merge(rows *of)
{
    size_t kept = 0;
    if (of->count > 0)
        qsort(of->of, of->count, sizeof *of->of, by_name);
    for (size_t i = 0; i < of->count; i++)
        if (kept > 0 && strcmp(of->of[kept - 1].name, of->of[i].name) == 0) {
            of->of[kept - 1].count += of->of[i].count;
            of->of[kept - 1].ns += of->of[i].ns;
        } else {
            of->of[kept++] = of->of[i];
        }
    of->count = kept;
}

static double share_of(const tdmi_job *job, size_t place)
{
    const size_t iterations = job->rank[place].iterations;
    return 1.0 / ((double)(iterations > 0 ? iterations : 1) * (double)job->ranks);
}

static bool counts(tdmi_role role, tdmi_diff_kind kind)
{
    if (kind == TDMI_DIFF_KERNELS)
        return TDMI_ROLE_IS_DEVICE(role);
    return role == TDMI_ROLE_OP || role == TDMI_ROLE_BACKWARD || role == TDMI_ROLE_ITEM || role == TDMI_ROLE_COMM_CALL;
}

/* Of one rank: sums by name number first, so that there are few rows. An operator's time has that of those within it. */
static tdm_status gather_events(const tdmi_job *job, size_t place, tdmi_diff_kind kind, rows *out)
{
    const tdmi_rank *rank = &job->rank[place];
    const tdmi_trace *trace = rank->trace;
    const uint32_t *event = kind == TDMI_DIFF_KERNELS ? rank->gpu : rank->host;
    const size_t count = kind == TDMI_DIFF_KERNELS ? rank->gpu_count : rank->host_count;
    row *by = tdmi_calloc(trace->text_count + 1, sizeof *by, "doctor");
    if (by == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const tdmi_event *e = &trace->event[event[i]];
        if (!counts(rank->role[event[i]], kind) || e->name == TDMI_NONE)
            continue;
        by[e->name].count += 1;
        by[e->name].ns += (double)e->dur_ns;
    }
    tdm_status status = TDM_OK;
    for (size_t n = 0; n < trace->text_count && status == TDM_OK; n++)
        if (by[n].count > 0)
            status = push(out, tdmi_trace_text(trace, (uint32_t)n), by[n].count * share_of(job, place), by[n].ns * share_of(job, place));
    tdmi_free(by);
    return status;
}

static tdm_status gather_meetings(const tdmi_job *job, rows *out)
{
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < job->meetings && status == TDM_OK; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        for (uint32_t p = m->first; p < m->first + m->count && status == TDM_OK; p++)
            status = push(out, m->op, share_of(job, job->part[p].place),
                          (double)(job->part[p].end_ns - job->part[p].start_ns) * share_of(job, job->part[p].place));
    }
    return status;
}

static tdm_status gather(const tdmi_job *job, tdmi_diff_kind kind, rows *out)
{
    tdm_status status = kind == TDMI_DIFF_COLLECTIVES ? gather_meetings(job, out) : TDM_OK;
    for (size_t r = 0; r < job->ranks && kind != TDMI_DIFF_COLLECTIVES && status == TDM_OK; r++)
        status = gather_events(job, r, kind, out);
    merge(out);
    return status;
}

static double change(const tdmi_difference *d)
{
    return fabs(d->ns[1] - d->ns[0]);
}

static int by_change(const void *a, const void *b)
{
    const double x = change(a), y = change(b);
    if (x != y)
        return x < y ? 1 : -1;
    return strcmp(((const tdmi_difference *)a)->name, ((const tdmi_difference *)b)->name);
}

tdm_status tdmi_differences_find(tdmi_diagnosis *const side[2], tdmi_diff_kind kind, tdmi_differences *out)
{
    rows of[2] = {{0}, {0}};
    *out = (tdmi_differences){0};
    tdm_status status = gather(side[0]->job, kind, &of[0]);
    if (status == TDM_OK)
        status = gather(side[1]->job, kind, &of[1]);
    if (status == TDM_OK) {
        out->of = tdmi_calloc(of[0].count + of[1].count + 1, sizeof *out->of, "doctor");
        status = out->of != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    }
    for (size_t a = 0, b = 0; status == TDM_OK && (a < of[0].count || b < of[1].count);) {
        const int order = a == of[0].count ? 1 : b == of[1].count ? -1 : strcmp(of[0].of[a].name, of[1].of[b].name);
        tdmi_difference *d = &out->of[out->count++];
        if (order <= 0) {
            *d = (tdmi_difference){.name = of[0].of[a].name, .count = {of[0].of[a].count}, .ns = {of[0].of[a].ns}};
            a++;
        }
        if (order >= 0) {
            d->name = of[1].of[b].name;
            d->count[1] = of[1].of[b].count;
            d->ns[1] = of[1].of[b].ns;
            b++;
        }
    }
    if (status == TDM_OK && out->count > 0)
        qsort(out->of, out->count, sizeof *out->of, by_change);
    tdmi_free(of[0].of);
    tdmi_free(of[1].of);
    return status;
}

void tdmi_differences_free(tdmi_differences *differences)
{
    tdmi_free(differences->of);
    *differences = (tdmi_differences){0};
}
