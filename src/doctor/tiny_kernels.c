/* tiny_kernels.c - rows of small pointwise kernels that each read and write memory; fused they would do it once.
 *
 * Whether the device waits for the host between them is launch_bound's question; here launches stay what they are. The model: a row takes
 * as long as its longest kernel (interval: one and a half times that, to three quarters). */
#include "doctor/edits.h"
#include "doctor/kernel_names.h"

#include "core/memory.h"

#include <stdio.h>

/* So many in a row: two or three are what a layer has between its products, and stay. None of them longer than this: a long one is bound by its data. */
#define ROW_MIN 4
#define KERNEL_NS_MAX 50000

typedef struct rows {
    double rows, kernels, ns; /* of an iteration and rank */
} rows;

/* The row [first, next) of a stream becomes its longest kernel. */
static void fuse(const tdmi_rank *rank, size_t place, const uint32_t *list, size_t first, size_t next, const uint32_t edit[2], tdmi_edits *edits, rows *out)
{
    size_t longest = first;
    for (size_t i = first; i < next; i++) {
        if (rank->trace->event[rank->gpu[list[i]]].dur_ns > rank->trace->event[rank->gpu[list[longest]]].dur_ns)
            longest = i;
        out->ns += (double)rank->trace->event[rank->gpu[list[i]]].dur_ns;
    }
    for (size_t i = first; i < next; i++)
        tdmi_edits_mark(edits, place, rank->gpu[list[i]], edit[i != longest]);
    out->rows++;
    out->kernels += (double)(next - first);
}

static tdm_status edit_rank(const tdmi_rank *rank, size_t place, const uint32_t edit[2], tdmi_edits *edits, rows *out)
{
    uint8_t *names = tdmi_names_of(rank);
    bool *update = tdmi_launched_inside(rank, tdmi_is_optimizer_span), *accumulates = tdmi_launched_inside(rank, tdmi_is_accumulation_span);
    const bool good = names != NULL && update != NULL && accumulates != NULL;
    if (rank->compute_stream != TDMI_NONE && good) {
        const tdmi_stream *stream = &rank->stream[rank->compute_stream];
        const uint32_t *list = rank->gpu_by_stream + stream->first;
        size_t first = 0;
        for (size_t i = 0; i <= stream->count; i++) {
            const uint32_t event = i < stream->count ? rank->gpu[list[i]] : TDMI_NONE;
            const bool belongs = event != TDMI_NONE && rank->role[event] == TDMI_ROLE_COMPUTE && !update[list[i]] && !accumulates[list[i]] &&
                                 rank->trace->event[event].dur_ns <= KERNEL_NS_MAX && tdmi_is_named(rank, names, event, TDMI_NAME_POINTWISE);
            if (belongs)
                continue;
            if (i - first >= ROW_MIN)
                fuse(rank, place, list, first, i, edit, edits, out);
            first = i + 1;
        }
    }
    tdmi_free(names);
    tdmi_free(update);
    tdmi_free(accumulates);
    return good ? TDM_OK : TDM_ERR_NO_MEMORY;
}

static tdm_status gain_of(tdmi_case *c, double of_longest, tdmi_gain *out, rows *seen)
{
    tdmi_edits edits;
    tdmi_edit kept = tdmi_edit_none(), gone = tdmi_edit_none();
    uint32_t edit[2] = {0, 0}; /* of the longest, of the others */
    const double iterations = tdmi_job_iterations(c->job);
    kept.device = of_longest;
    gone.device_ns = 0;
    gone.no_gap = true;
    *seen = (rows){0};
    tdm_status status = tdmi_edits_create(c->job, &edits);
    if (status != TDM_OK)
        return status;
    status = tdmi_edits_add(&edits, &kept, &edit[0]);
    if (status == TDM_OK)
        status = tdmi_edits_add(&edits, &gone, &edit[1]);
    for (size_t r = 0; r < c->job->ranks && status == TDM_OK; r++)
        status = edit_rank(&c->job->rank[r], r, edit, &edits, seen);
    if (status == TDM_OK && seen->rows > 0) {
        tdmi_edits_gain(&edits, c->model, out);
        seen->rows /= iterations;
        seen->kernels /= iterations;
        seen->ns /= iterations;
    }
    tdmi_edits_free(&edits);
    return status;
}

void tdmi_find_tiny_kernels(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "tiny_kernels", .rank = -1};
    tdmi_gain other = {0};
    rows seen;
    if (!c->job->on_device)
        return;
    tdm_status status = gain_of(c, 1, &f.gain, &seen);
    if (status == TDM_OK && f.gain.pct >= TDMI_GAIN_PCT_MIN) {
        status = gain_of(c, 1.5, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
        if (status == TDM_OK)
            status = gain_of(c, 0.75, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
    }
    out->failed |= status != TDM_OK;
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    f.evidence = json_pack("{s:f, s:f, s:f, s:f, s:s}", "rows", seen.rows, "kernels", seen.kernels, "kernel_us", seen.ns / seen.kernels / 1e3, "share_pct",
                           100 * seen.ns / (double)c->model->now_ns, "model", "a row takes as long as its longest kernel (3/4 to 3/2 of that)");
    snprintf(f.text, sizeof f.text, "%.0f rows of pointwise kernels an iteration, %.0f kernels of %.0f us on average, take %.0f %% of it, each reading and writing memory again", seen.rows,
             seen.kernels, seen.ns / seen.kernels / 1e3, 100 * seen.ns / (double)c->model->now_ns);
    snprintf(f.advice, sizeof f.advice, "%s",
             "torch.compile(model) fuses them; mode=\"reduce-overhead\" adds CUDA graphs where shapes do not change; or fused modules "
             "(scaled_dot_product_attention, fused norms), torch.cuda.make_graphed_callables for the launches alone");
    tdmi_findings_add(out, &f);
}
