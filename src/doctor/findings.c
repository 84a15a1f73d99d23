/* findings.c - the list of findings about traces, and their order. */
#include "doctor/finding.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

static tdmi_find *const all[] = {
    tdmi_find_communication_exposed, tdmi_find_data_loading, tdmi_find_implicit_sync, tdmi_find_launch_bound, tdmi_find_straggler,
};

/* A finding that explains another stands for it from this share of the other's gain on: then there is little more to it than the one
 * rank. */
#define EXPLAINS_SHARE 0.9

void tdmi_findings_add(tdmi_findings *findings, const tdmi_finding *finding)
{
    if (findings->count == findings->capacity) {
        const size_t capacity = findings->capacity * 2 + 8;
        tdmi_finding *more = tdmi_realloc(findings->of, capacity * sizeof *more, "doctor");
        if (more == NULL) {
            json_decref(finding->evidence);
            findings->failed = true;
            return;
        }
        findings->of = more;
        findings->capacity = capacity;
    }
    findings->failed |= finding->evidence == NULL;
    findings->of[findings->count++] = *finding;
}

/* A rank that holds all others back comes before causes of (nearly) the same gain that name nobody. */
static int by_gain(const void *a, const void *b)
{
    const tdmi_finding *x = a, *y = b;
    const bool x_names = x->explains != NULL, y_names = y->explains != NULL;
    if (x_names != y_names && (x_names ? x : y)->gain.pct > EXPLAINS_SHARE * (x_names ? y : x)->gain.pct)
        return x_names ? -1 : 1;
    return x->gain.pct != y->gain.pct ? (x->gain.pct < y->gain.pct) - (x->gain.pct > y->gain.pct) : strcmp(x->id, y->id);
}

static bool is_explained(const tdmi_findings *findings, const tdmi_finding *one)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->of[i].explains != NULL && strcmp(findings->of[i].explains, one->id) == 0 &&
            findings->of[i].gain.pct > EXPLAINS_SHARE * one->gain.pct)
            return true;
    return false;
}

void tdmi_findings_look(tdmi_case *c, tdmi_findings *out)
{
    *out = (tdmi_findings){0};
    for (size_t f = 0; f < sizeof all / sizeof *all; f++)
        all[f](c, out);
    size_t kept = 0;
    bool *explained = tdmi_calloc(out->count + 1, sizeof *explained, "doctor");
    for (size_t i = 0; explained != NULL && i < out->count; i++)
        explained[i] = is_explained(out, &out->of[i]);
    for (size_t i = 0; explained != NULL && i < out->count; i++)
        if (explained[i])
            json_decref(out->of[i].evidence);
        else
            out->of[kept++] = out->of[i];
    out->failed |= explained == NULL;
    out->count = explained != NULL ? kept : out->count;
    tdmi_free(explained);
    if (out->count > 1)
        qsort(out->of, out->count, sizeof *out->of, by_gain);
}

void tdmi_findings_free(tdmi_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        json_decref(findings->of[i].evidence);
    tdmi_free(findings->of);
    *findings = (tdmi_findings){0};
}

void tdmi_case_gain_beyond_loader(tdmi_case *c, const tdmi_variation *both, tdmi_gain *out)
{
    tdmi_gain loaded;
    tdmi_scaling without = tdmi_scaling_none();
    without.factor[TDMI_DUE_DATA] = 0;
    tdmi_model_what_if(c->model, &(tdmi_variation){tdmi_scale, &without}, &loaded);
    tdmi_model_what_if(c->model, both, out);
    out->without_ns += c->model->now_ns - loaded.without_ns;
    out->pct -= loaded.pct;
    out->low = out->low > loaded.pct ? out->low - loaded.pct : 0;
    out->high -= loaded.pct;
}

double tdmi_case_spent_pct(const tdmi_case *c, tdmi_due due)
{
    double sum = 0;
    for (size_t r = 0; r < c->job->ranks; r++)
        sum += (double)tdmi_model_spent(c->model, r, due);
    return c->model->now_ns > 0 && c->job->ranks > 0 ? 100 * sum / (double)c->job->ranks / (double)c->model->now_ns : 0;
}

double tdmi_case_part_pct(const tdmi_case *c, size_t field)
{
    double sum = 0;
    for (size_t r = 0; r < c->job->ranks; r++) {
        const tdmi_split *split = &c->breakdown->mean[r];
        int64_t ns;
        memcpy(&ns, (const char *)split + field, sizeof ns);
        sum += split->length_ns > 0 ? 100 * (double)ns / (double)split->length_ns : 0;
    }
    return c->job->ranks > 0 ? sum / (double)c->job->ranks : 0;
}
