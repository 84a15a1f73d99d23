/* findings.c - the list of findings about traces, and their order. */
#include "doctor/finding.h"

#include "core/memory.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static tdmi_find *const all[] = {
    tdmi_find_bucket_order,        tdmi_find_communication_exposed, tdmi_find_data_loading, tdmi_find_fsdp_prefetch,  tdmi_find_implicit_sync,
    tdmi_find_large_buckets,       tdmi_find_launch_bound,          tdmi_find_no_mixed_precision,
    tdmi_find_optimizer_not_fused, tdmi_find_recompute,             tdmi_find_slow_link,    tdmi_find_small_buckets, tdmi_find_straggler,
    tdmi_find_tiny_kernels,        tdmi_find_unpinned_copies,
};

/* A finding that names a rank comes before one that names nobody from this share of the other's gain on: then there is little more to it
 * than the one rank. */
#define NAMED_SHARE 0.9
#define COMPUTES_PCT_MIN 50

void tdmi_findings_add(tdmi_findings *findings, const tdmi_finding *finding)
{
    tdmi_finding *more = tdmi_with_room(findings->of, findings->count, &findings->capacity, sizeof *more, "doctor");
    if (more == NULL) {
        json_decref(finding->evidence);
        findings->failed = true;
        return;
    }
    findings->of = more;
    findings->failed |= finding->evidence == NULL;
    findings->of[findings->count++] = *finding;
}

static int by_gain(const void *a, const void *b)
{
    const tdmi_finding *x = a, *y = b;
    return x->gain.pct != y->gain.pct ? (x->gain.pct < y->gain.pct) - (x->gain.pct > y->gain.pct) : strcmp(x->id, y->id);
}

/* By gain; the first that names a rank goes to the front of causes of (nearly) the same gain that name nobody. */
static void sort(tdmi_findings *findings)
{
    tdmi_finding *of = findings->of;
    size_t named = 0;
    if (findings->count > 1)
        qsort(of, findings->count, sizeof *of, by_gain);
    while (named < findings->count && of[named].rank < 0)
        named++;
    if (named == 0 || named == findings->count || of[named].gain.pct <= NAMED_SHARE * of[0].gain.pct)
        return;
    const tdmi_finding first = of[named];
    memmove(of + 1, of, named * sizeof *of);
    of[0] = first;
}

static bool names_id(const char *ids, const char *id)
{
    const size_t nbytes = strlen(id);
    for (const char *at = ids; at != NULL && (at = strstr(at, id)) != NULL; at += nbytes)
        if ((at == ids || at[-1] == ' ') && (at[nbytes] == ' ' || at[nbytes] == '\0'))
            return true;
    return false;
}

static bool is_explained(const tdmi_findings *findings, const tdmi_finding *one)
{
    for (size_t i = 0; i < findings->count; i++)
        if (names_id(findings->of[i].explains, one->id) && findings->of[i].gain.pct > findings->of[i].explains_share * one->gain.pct)
            return true;
    return false;
}

/* What several of them ask for is made once. */
static void ask_all(tdmi_case *c, tdmi_findings *out)
{
    tdmi_scaling no_loader = tdmi_scaling_none();
    no_loader.factor[TDMI_DUE_DATA] = 0;
    tdmi_model_what_if(c->model, &(tdmi_variation){.change = tdmi_scale, .arg = &no_loader}, &c->without_loader);
    const tdm_status status = tdmi_readers_find(c->job, &c->readers);
    for (size_t f = 0; f < sizeof all / sizeof *all && status == TDM_OK; f++)
        all[f](c, out);
    out->failed |= status != TDM_OK;
    tdmi_readers_free(&c->readers);
}

void tdmi_findings_look(tdmi_case *c, tdmi_findings *out)
{
    *out = (tdmi_findings){0};
    ask_all(c, out);
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
    sort(out);
}

double tdmi_job_iterations(const tdmi_job *job)
{
    double sum = 0;
    for (size_t r = 0; r < job->ranks; r++)
        sum += (double)job->rank[r].iterations;
    return sum;
}

bool tdmi_case_computes(const tdmi_case *c)
{
    /* A host that is far ahead launches within its iterations what runs behind the last of them. */
    const double launched_pct = tdmi_case_part_pct(c, offsetof(tdmi_split, forward_gpu_ns)) + tdmi_case_part_pct(c, offsetof(tdmi_split, backward_gpu_ns)) +
                                tdmi_case_part_pct(c, offsetof(tdmi_split, optimizer_gpu_ns));
    return tdmi_case_part_pct(c, offsetof(tdmi_split, compute_ns)) >= COMPUTES_PCT_MIN || launched_pct >= COMPUTES_PCT_MIN;
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
    const tdmi_gain *loaded = &c->without_loader;
    tdmi_model_what_if(c->model, both, out);
    out->without_ns += c->model->now_ns - loaded->without_ns;
    out->pct -= loaded->pct;
    out->low = out->low > loaded->pct ? out->low - loaded->pct : 0;
    out->high -= loaded->pct;
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
        sum += split->length_ns > 0 ? 100 * (double)tdmi_split_ns(split, field) / (double)split->length_ns : 0;
    }
    return c->job->ranks > 0 ? sum / (double)c->job->ranks : 0;
}
