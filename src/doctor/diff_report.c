/* diff_report.c - differences as a text and as an object. */
#include "doctor/diff.h"

#include "core/printable.h"

#include <string.h>

enum { SHOWN = 12, NAME_BYTES = 52, LISTED = 200 };

typedef struct measure {
    const char *name;
    size_t field; /* of tdmi_split */
} measure;

#define PART(name) {#name, offsetof(tdmi_split, name##_ns)},
static const measure parts[] = {TDMI_PARTS_MAP(PART)};
static const measure phases[] = {PART(loading) PART(forward) PART(backward) PART(optimizer) PART(blocked) PART(comm_overlap)};
#undef PART

static const char *const kind_names[TDMI_DIFF_KINDS] = {"kernels", "operators", "collectives"};

/* The mean over the ranks. */
static double mean_of(const tdmi_diagnosis *side, size_t field)
{
    double sum = 0;
    for (size_t r = 0; r < side->breakdown.ranks; r++)
        sum += (double)tdmi_split_ns(&side->breakdown.mean[r], field);
    return side->breakdown.ranks > 0 ? sum / (double)side->breakdown.ranks : 0;
}

static void write_times(FILE *out, const double ns[2])
{
    fprintf(out, "%10.3f %10.3f %+10.3f", ns[0] / 1e6, ns[1] / 1e6, (ns[1] - ns[0]) / 1e6);
    if (ns[0] > 0 && ns[1] > 0)
        fprintf(out, " %+7.1f %%\n", 100 * (ns[1] - ns[0]) / ns[0]);
    else
        fprintf(out, " %9s\n", ns[0] > 0 ? "gone" : ns[1] > 0 ? "new" : "");
}

static void write_measures(tdmi_diagnosis *const side[2], const measure *of, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        const double ns[2] = {mean_of(side[0], of[i].field), mean_of(side[1], of[i].field)};
        if (ns[0] == 0 && ns[1] == 0)
            continue;
        char name[32];
        snprintf(name, sizeof name, "%s", of[i].name);
        for (char *c = name; *c != '\0'; c++)
            *c = *c == '_' ? ' ' : *c;
        fprintf(out, "  %-*s", NAME_BYTES - 1, name);
        write_times(out, ns);
    }
}

/* Names are cut in the middle: their ends say as much as their beginnings. */
static void write_name(FILE *out, const char *name)
{
    const size_t length = strlen(name), room = NAME_BYTES - 3;
    char text[NAME_BYTES];
    if (length <= room)
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "%.*s..%s", (int)room - 20, name, name + length - 18);
    tdmi_printable(text, false);
    fprintf(out, "  %-*s", NAME_BYTES - 1, text);
}

static void write_findings(tdmi_diagnosis *const side[2], FILE *out)
{
    for (int s = 0; s < 2; s++)
        for (size_t f = 0; f < side[s]->findings.count; f++) {
            const tdmi_finding *mine = &side[s]->findings.of[f], *other = NULL;
            for (size_t g = 0; g < side[1 - s]->findings.count; g++)
                if (strcmp(side[1 - s]->findings.of[g].id, mine->id) == 0)
                    other = &side[1 - s]->findings.of[g];
            if (other == NULL)
                fprintf(out, "  %s: %s, %.0f %% to gain\n", s == 0 ? "gone" : "new", mine->id, mine->gain.pct);
            else if (s == 1)
                fprintf(out, "  both: %s, %.0f and %.0f %% to gain\n", mine->id, other->gain.pct, mine->gain.pct);
        }
}

tdm_status tdmi_diff_text(tdmi_diagnosis *const side[2], const char *const names[2], FILE *out)
{
    const double length[2] = {mean_of(side[0], offsetof(tdmi_split, length_ns)), mean_of(side[1], offsetof(tdmi_split, length_ns))};
    fprintf(out, "A %s: %zu rank%s\nB %s: %zu rank%s\n\n", names[0], side[0]->job->ranks, side[0]->job->ranks == 1 ? "" : "s", names[1], side[1]->job->ranks,
            side[1]->job->ranks == 1 ? "" : "s");
    fprintf(out, "%-*s %10s %10s %10s\n", NAME_BYTES, "ms an iteration, mean of the ranks", "A", "B", "B - A");
    fprintf(out, "  %-*s", NAME_BYTES - 1, "iteration");
    write_times(out, length);
    write_measures(side, parts, sizeof parts / sizeof *parts, out);
    fputs("on the host, beside the above\n", out);
    write_measures(side, phases, sizeof phases / sizeof *phases, out);
    if (side[0]->findings.count + side[1]->findings.count > 0)
        fputs("findings\n", out);
    write_findings(side, out);
    for (int k = 0; k < TDMI_DIFF_KINDS; k++) {
        tdmi_differences d;
        tdm_status status = tdmi_differences_find(side, (tdmi_diff_kind)k, &d);
        if (status != TDM_OK)
            return status;
        if (d.count > 0)
            fprintf(out, "%s, the largest changes%s\n", kind_names[k], k == TDMI_DIFF_OPERATORS ? " (with those within)" : "");
        for (size_t i = 0; i < d.count && i < SHOWN; i++) {
            write_name(out, d.of[i].name);
            write_times(out, d.of[i].ns);
        }
        tdmi_differences_free(&d);
    }
    return TDM_OK;
}

static json_t *pair(double a, double b)
{
    return json_pack("{s:f, s:f, s:f}", "a", a, "b", b, "change", b - a);
}

static int put_measures(json_t *object, tdmi_diagnosis *const side[2], const measure *of, size_t count)
{
    char name[40];
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s_ms", of[i].name);
        failed |= json_object_set_new(object, name, pair(mean_of(side[0], of[i].field) / 1e6, mean_of(side[1], of[i].field) / 1e6));
    }
    return failed;
}

static json_t *list(tdmi_diagnosis *const side[2], tdmi_diff_kind kind)
{
    tdmi_differences d;
    if (tdmi_differences_find(side, kind, &d) != TDM_OK)
        return NULL;
    json_t *array = json_array();
    for (size_t i = 0; i < d.count && i < LISTED; i++)
        json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "name", d.of[i].name, "count", pair(d.of[i].count[0], d.of[i].count[1]),
                                               "ms", pair(d.of[i].ns[0] / 1e6, d.of[i].ns[1] / 1e6)));
    tdmi_differences_free(&d);
    return array;
}

json_t *tdmi_diff_json(tdmi_diagnosis *const side[2])
{
    json_t *root = json_object(), *iteration = json_object();
    int failed = put_measures(iteration, side, &(measure){"length", offsetof(tdmi_split, length_ns)}, 1);
    failed |= put_measures(iteration, side, parts, sizeof parts / sizeof *parts);
    failed |= put_measures(iteration, side, phases, sizeof phases / sizeof *phases);
    failed |= json_object_set_new(root, "ranks", pair((double)side[0]->job->ranks, (double)side[1]->job->ranks));
    failed |= json_object_set_new(root, "iteration", iteration);
    for (int k = 0; k < TDMI_DIFF_KINDS; k++)
        failed |= json_object_set_new(root, kind_names[k], list(side, (tdmi_diff_kind)k));
    if (failed == 0)
        return root;
    json_decref(root);
    return NULL;
}
