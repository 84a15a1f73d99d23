/* no_mixed_precision.c - matrix products in float on a device whose tensor cores idle.
 *
 * A trace cannot say what the same step would take in bf16. The model: products take a quarter (interval: a half to an eighth), pointwise
 * kernels on float half, as autocast gives them half the bytes (interval: all to half); the rest stays in float. */
#include "doctor/edits.h"
#include "doctor/kernel_names.h"

#include "core/memory.h"

#include <stdio.h>

/* Of the iteration: less is a head or a loss that is kept in float on purpose. */
#define SHARE_PCT_MIN 15.0
#define TENSOR_CORES_MAJOR 7

typedef struct precision {
    double product, pointwise; /* what is left of their time */
} precision;

static const precision likely = {0.25, 0.5}, slower = {0.5, 1}, faster = {0.125, 0.5};

typedef struct products {
    double count, ns, pointwise_ns; /* of an iteration and rank */
    int major, minor;
    const char *device;
} products;

static tdm_status edit_kernels(const tdmi_job *job, precision p, tdmi_edits *edits, products *out)
{
    tdmi_edit product = tdmi_edit_none(), pointwise = tdmi_edit_none();
    uint32_t product_edit = 0, pointwise_edit = 0;
    const double iterations = tdmi_job_iterations(job);
    product.device = p.product;
    pointwise.device = p.pointwise;
    tdm_status status = tdmi_edits_add(edits, &product, &product_edit);
    if (status == TDM_OK)
        status = tdmi_edits_add(edits, &pointwise, &pointwise_edit);
    for (size_t r = 0; r < job->ranks && status == TDM_OK; r++) {
        const tdmi_rank *rank = &job->rank[r];
        uint8_t *names = tdmi_names_of(rank);
        bool *update = tdmi_launched_inside(rank, tdmi_is_optimizer_span), *accumulates = tdmi_launched_inside(rank, tdmi_is_accumulation_span);
        const bool good = names != NULL && update != NULL && accumulates != NULL;
        for (size_t g = 0; good && g < rank->gpu_count; g++) {
            const uint32_t event = rank->gpu[g];
            if (rank->role[event] != TDMI_ROLE_COMPUTE || update[g] || accumulates[g])
                continue;
            if (tdmi_is_named(rank, names, event, TDMI_NAME_FLOAT_PRODUCT)) {
                tdmi_edits_mark(edits, r, event, product_edit);
                out->count++;
                out->ns += (double)rank->trace->event[event].dur_ns;
            } else if (tdmi_is_named(rank, names, event, TDMI_NAME_FLOAT_POINTWISE)) {
                tdmi_edits_mark(edits, r, event, pointwise_edit);
                out->pointwise_ns += (double)rank->trace->event[event].dur_ns;
            }
        }
        status = good ? TDM_OK : TDM_ERR_NO_MEMORY;
        tdmi_free(names);
        tdmi_free(update);
        tdmi_free(accumulates);
    }
    if (iterations > 0) {
        out->count /= iterations;
        out->ns /= iterations;
        out->pointwise_ns /= iterations;
    }
    return status;
}

static tdm_status gain_of(tdmi_case *c, precision p, tdmi_gain *out, products *seen)
{
    tdmi_edits edits;
    tdm_status status = tdmi_edits_create(c->job, &edits);
    seen->count = seen->ns = seen->pointwise_ns = 0;
    if (status == TDM_OK)
        status = edit_kernels(c->job, p, &edits, seen);
    if (status == TDM_OK && 100 * seen->ns >= SHARE_PCT_MIN * (double)c->model->now_ns)
        tdmi_edits_gain(&edits, c->model, out);
    tdmi_edits_free(&edits);
    return status;
}

/* The device of the first rank that names one. */
static bool has_tensor_cores(const tdmi_job *job, products *out)
{
    for (size_t r = 0; r < job->ranks; r++)
        if (job->rank[r].trace->device_count > 0 && job->rank[r].trace->vendor != TDMI_VENDOR_AMD) {
            const tdmi_device *d = &job->rank[r].trace->device[0];
            *out = (products){.major = d->major, .minor = d->minor, .device = tdmi_trace_text(job->rank[r].trace, d->name)};
            return d->major >= TENSOR_CORES_MAJOR;
        }
    return false;
}

void tdmi_find_no_mixed_precision(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "no_mixed_precision", .rank = -1};
    products seen = {0};
    tdmi_gain other = {0};
    if (!c->job->on_device || !has_tensor_cores(c->job, &seen))
        return;
    tdm_status status = gain_of(c, likely, &f.gain, &seen);
    if (status == TDM_OK && f.gain.pct >= TDMI_GAIN_PCT_MIN) {
        status = gain_of(c, slower, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
        if (status == TDM_OK)
            status = gain_of(c, faster, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
    }
    out->failed |= status != TDM_OK;
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    const double share = 100 * seen.ns / (double)c->model->now_ns;
    f.evidence = json_pack("{s:s, s:s, s:f, s:f, s:f, s:s}", "device", seen.device, "compute_capability", seen.major >= 8 ? "8 or later" : "7", "products", seen.count, "share_pct", share,
                           "pointwise_float_ms", seen.pointwise_ns / 1e6, "model", "products in 1/4 (1/2 to 1/8) of their time, pointwise kernels in 1/2 (1 to 1/2)");
    snprintf(f.text, sizeof f.text, "%.0f matrix products an iteration run in float without tensor cores, %.0f %% of its time, on %.100s, which has them", seen.count, share, seen.device);
    snprintf(f.advice, sizeof f.advice, "%s",
             seen.major >= 8 ? "torch.autocast(\"cuda\", dtype=torch.bfloat16) around forward and loss; torch.set_float32_matmul_precision(\"high\") (TF32) is one line to begin with"
                             : "torch.autocast(\"cuda\", dtype=torch.float16) around forward and loss, with torch.amp.GradScaler; this device has no bf16 and no TF32");
    tdmi_findings_add(out, &f);
}
