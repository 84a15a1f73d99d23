/* bandwidth.c - the sum of the bandwidths of the copies that run, by the kind of copy, at every moment at which it changes and is above
 * 0. A copy of 0 us is taken as one of 1 us. Sums are cumulated in doubles as HTA does, so a rest of 1e-17 counts as a point. */
#include "hta/rank.h"

#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_CHARACTERS = 11 };

typedef struct change {
    char kind[sizeof ((tdmi_hta_bandwidth_figures *)0)->name];
    int64_t at_ns;
    double gbps;
    size_t order;
} change;

static void name_kind(const char *name, char kind[sizeof ((change *)0)->kind])
{
    size_t nbytes = 0, characters = 0;
    if (strncmp(name, "Memset", 6) == 0)
        name = "Memset";
    else if (strncmp(name, "Memcpy", 6) != 0)
        name = "Memcpy Unknown";
    else {
        for (; name[nbytes] != '\0'; nbytes++) /* characters begin at bytes that are no 10xxxxxx */
            if (((unsigned char)name[nbytes] & 0xc0) != 0x80 && characters++ == KIND_CHARACTERS)
                break;
        memcpy(kind, name, nbytes);
        kind[nbytes] = '\0';
        return;
    }
    strcpy(kind, name);
}

/* NaN: the file has a text where the number should be. HTA cannot add that; such a copy is left out here. */
static double bandwidth_of(const tdmi_trace *trace, const tdmi_event *event)
{
    const bool copy = event->kind == TDMI_EVENT_COPY || event->kind == TDMI_EVENT_SET;
    return copy && event->detail != TDMI_NONE ? trace->copy[event->detail].bandwidth_gbps : 0;
}

static int by_kind_and_time(const void *a, const void *b)
{
    const change *left = a, *right = b;
    const int kind = strcmp(left->kind, right->kind);
    if (kind != 0)
        return kind;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

static size_t collect(const tdmi_hta_rank *rank, change *changes)
{
    size_t count = 0;
    for (int end = 0; end < 2; end++) /* starts come before ends of the same time */
        for (size_t i = 0; i < rank->kernel_count; i++) {
            const tdmi_hta_kernel *kernel = &rank->kernel[i];
            if (kernel->type != TDMI_HTA_MEMORY || kernel->copies == 0)
                continue;
            const double gbps = bandwidth_of(rank->trace, &rank->trace->event[kernel->event]);
            for (uint32_t c = 0; !isnan(gbps) && c < kernel->copies; c++, count++)
                if (changes != NULL) {
                    const int64_t dur_ns = kernel->dur_ns == 0 ? 1000 : kernel->dur_ns;
                    changes[count] = (change){.at_ns = kernel->start_ns + (end ? dur_ns : 0), .gbps = end ? -gbps : gbps, .order = count};
                    name_kind(tdmi_trace_text(rank->trace, kernel->name), changes[count].kind);
                }
        }
    return count;
}

static tdm_status measure(const change *changes, size_t count, double *value, tdmi_hta_rank_figures *out)
{
    tdm_status status = TDM_OK;
    for (size_t from = 0, to; status == TDM_OK && from < count; from = to) {
        double sum = 0;
        size_t points = 0;
        for (to = from; to < count && strcmp(changes[to].kind, changes[from].kind) == 0; to++)
            if ((sum += changes[to].gbps) > 0)
                value[points++] = sum;
        if (points == 0)
            continue;
        tdmi_hta_bandwidth_figures *more = tdmi_realloc(out->bandwidth, (out->bandwidth_count + 1) * sizeof *more, "hta bandwidth");
        if (more == NULL)
            return TDM_ERR_NO_MEMORY;
        out->bandwidth = more;
        memcpy(more[out->bandwidth_count].name, changes[from].kind, sizeof more->name);
        status = tdmi_hta_describe_values(value, points, &more[out->bandwidth_count++].gbps);
    }
    return status;
}

tdm_status tdmi_hta_bandwidth(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    const size_t count = collect(rank, NULL);
    change *changes = tdmi_malloc((count + 1) * sizeof *changes, "hta bandwidth");
    double *value = tdmi_malloc((count + 1) * sizeof *value, "hta bandwidth");
    tdm_status status = TDM_ERR_NO_MEMORY;
    if (changes != NULL && value != NULL) {
        collect(rank, changes);
        qsort(changes, count, sizeof *changes, by_kind_and_time);
        status = measure(changes, count, value, out);
    }
    tdmi_free(changes);
    tdmi_free(value);
    return status;
}
