/* json.c - the figures as one object, under the names that HTA's tables have (docs/cli.md). What HTA has no value for is null; why, is
 * in "errors". NaN is null, too. */
#include "hta/hta.h"

#include "core/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Times of day have 16 digits, more than are printed of a number with a point. */
static json_t *time_of_day(int64_t ns)
{
    return ns % 1000 == 0 ? json_integer(ns / 1000) : json_real((double)ns / 1000);
}

static json_t *us(double ns)
{
    return number(ns / 1000);
}

/* As numpy rounds. */
static json_t *rounded(double value, double scale)
{
    return number(rint(value * scale) / scale);
}

static json_t *temporal_row(int rank, const tdmi_hta_temporal_figures *t)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", rank, "idle_time(us)", us(t->idle_ns), "compute_time(us)", us(t->compute_ns),
                     "non_compute_time(us)", us(t->non_compute_ns), "kernel_time(us)", us(t->span_ns), "idle_time_pctg",
                     rounded(100 * (t->idle_ns / t->span_ns), 100), "compute_time_pctg", rounded(100 * (t->compute_ns / t->span_ns), 100),
                     "non_compute_time_pctg", rounded(100 * (t->non_compute_ns / t->span_ns), 100));
}

typedef enum { HTA, WITH_LAST, EXACT } variant;

static json_t *temporal(const tdmi_hta_figures *figures, variant which)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++) {
        const tdmi_hta_rank_figures *rank = &figures->rank[r];
        const tdmi_hta_temporal_figures *t = which == HTA ? &rank->temporal : which == WITH_LAST ? &rank->temporal_with_last : &rank->temporal_exact;
        if (t->any)
            json_array_append_new(rows, temporal_row(rank->rank, t));
    }
    return rows;
}

static json_t *overlap(const tdmi_hta_figures *figures, variant which)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++) {
        const tdmi_hta_rank_figures *rank = &figures->rank[r];
        const double pct = which == HTA ? rank->overlap_pct : which == WITH_LAST ? rank->overlap_with_last_pct : rank->overlap_exact_pct;
        json_array_append_new(rows, json_pack("{s:i, s:o}", "rank", rank->rank, "comp_comm_overlap_pctg", rounded(pct, 100)));
    }
    return rows;
}

static json_t *idle(const tdmi_hta_figures *figures)
{
    static const char *const names[] = {"host_wait", "kernel_wait", "other"};
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].idle_count; i++) {
            const tdmi_hta_idle_figures *stream = &figures->rank[r].idle[i];
            const double sum_ns = stream->ns[TDMI_HTA_HOST_WAIT] + stream->ns[TDMI_HTA_KERNEL_WAIT] + stream->ns[TDMI_HTA_OTHER_WAIT];
            for (int kind = 0; kind < TDMI_HTA_IDLE_KINDS; kind++)
                if (stream->any[kind])
                    json_array_append_new(rows, json_pack("{s:i, s:I, s:s, s:o, s:o}", "rank", figures->rank[r].rank, "stream", (json_int_t)stream->stream,
                                                          "idle_category", names[kind], "idle_time", rounded(stream->ns[kind] / 1000, 100),
                                                          "idle_time_ratio", rounded(stream->ns[kind] / sum_ns, 100)));
        }
    return rows;
}

/* ---- kernels ---- */

typedef struct type_time {
    const char *name;
    double ns;
} type_time;

static int by_time(const void *a, const void *b)
{
    const type_time *left = a, *right = b;
    return left->ns > right->ns ? -1 : left->ns < right->ns ? 1 : strcmp(left->name, right->name);
}

static json_t *types(const tdmi_hta_figures *figures, bool with_memory)
{
    type_time times[8];
    size_t count = 0;
    double sum_ns = 0;
    for (int running = 1; running < 8; running++) {
        type_time *t = &times[count];
        bool any = false;
        *t = (type_time){.name = tdmi_hta_running_name(running)};
        for (size_t r = 0; r < figures->rank_count; r++) {
            const tdmi_hta_sweep_times *sweep = with_memory ? &figures->rank[r].with_memory : &figures->rank[r].without_memory;
            t->ns += sweep->ns[running];
            any |= sweep->any[running];
        }
        sum_ns += t->ns;
        count += any;
    }
    qsort(times, count, sizeof *times, by_time);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, json_pack("{s:s, s:o, s:o}", "kernel_type", times[i].name, "sum", us(times[i].ns), "percentage",
                                              rounded(times[i].ns / sum_ns * 100, 10)));
    return rows;
}

static json_t *table_row(const tdmi_hta_table_row *row)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", row->name, "sum (us)", us(row->sum_ns), "max (us)", us(row->max_ns), "min (us)",
                     us(row->min_ns), "stddev", us(row->std_ns), "mean (us)", us(row->mean_ns));
}

typedef struct rank_row {
    const tdmi_hta_table_row *row;
    int rank;
} rank_row;

static const char *type_name(tdmi_hta_type type)
{
    return type == TDMI_HTA_COMPUTATION ? "COMPUTATION" : type == TDMI_HTA_COMMUNICATION ? "COMMUNICATION" : "MEMORY";
}

static int by_type_name_rank(const void *a, const void *b)
{
    const rank_row *left = a, *right = b;
    int order = strcmp(type_name(left->row->type), type_name(right->row->type));
    order = order != 0 ? order : strcmp(left->row->name, right->row->name);
    return order != 0 ? order : (left->rank > right->rank) - (left->rank < right->rank);
}

static json_t *kernels(const tdmi_hta_figures *figures)
{
    size_t count = 0, n = 0;
    for (size_t r = 0; r < figures->rank_count; r++)
        count += figures->rank[r].kernel_count;
    rank_row *all = tdmi_malloc((count + 1) * sizeof *all, "hta json");
    if (all == NULL)
        return NULL;
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].kernel_count; i++)
            all[n++] = (rank_row){&figures->rank[r].kernel[i], figures->rank[r].rank};
    qsort(all, count, sizeof *all, by_type_name_rank);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = table_row(all[i].row);
        json_object_set_new(row, "kernel_type", json_string(type_name(all[i].row->type)));
        json_object_set_new(row, "rank", json_integer(all[i].rank));
        json_array_append_new(rows, row);
    }
    tdmi_free(all);
    return rows;
}

static json_t *annotations(const tdmi_hta_figures *figures)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].annotation_count; i++) {
            json_t *row = table_row(&figures->rank[r].annotation[i]);
            json_object_set_new(row, "rank", json_integer(figures->rank[r].rank));
            json_array_append_new(rows, row);
        }
    return rows;
}

/* ---- counters ---- */

/* describe() under names that begin with `what`. */
static void describe(json_t *row, const char *what, const tdmi_hta_describe *d)
{
    const struct {
        const char *name;
        double value;
    } part[] = {{"count", d->count}, {"mean", d->mean}, {"std", d->std}, {"min", d->min}, {"25%", d->quarter}, {"50%", d->half}, {"75%", d->three_quarters}, {"max", d->max}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_%s", what, part[i].name);
        json_object_set_new(row, name, number(part[i].value));
    }
}

static json_t *queue(const tdmi_hta_figures *figures)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].queue_count; i++) {
            json_t *row = json_pack("{s:i, s:I}", "rank", figures->rank[r].rank, "stream", (json_int_t)figures->rank[r].queue[i].stream);
            describe(row, "queue_length", &figures->rank[r].queue[i].length);
            json_array_append_new(rows, row);
        }
    return rows;
}

static json_t *full(const tdmi_hta_figures *figures)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++)
        if (figures->rank[r].was_full)
            json_array_append_new(rows, json_pack("{s:i, s:I, s:o, s:o}", "rank", figures->rank[r].rank, "stream", (json_int_t)figures->rank[r].full_stream,
                                                  "duration_at_max_queue_length", us(figures->rank[r].full_ns),
                                                  "relative_duration_at_max_queue_length", number(figures->rank[r].full_ratio)));
    return rows;
}

static json_t *bandwidth(const tdmi_hta_figures *figures)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].bandwidth_count; i++) {
            json_t *row = json_pack("{s:i, s:s}", "rank", figures->rank[r].rank, "name", figures->rank[r].bandwidth[i].name);
            describe(row, "memory_bw_gbps", &figures->rank[r].bandwidth[i].gbps);
            json_array_append_new(rows, row);
        }
    return rows;
}

static json_t *launches(const tdmi_hta_figures *figures)
{
    json_t *rows = json_array();
    for (size_t r = 0; r < figures->rank_count; r++) {
        const tdmi_hta_launch_figures *l = &figures->rank[r].launches;
        json_array_append_new(rows, json_pack("{s:i, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "rank", figures->rank[r].rank, "count", (json_int_t)l->count,
                                              "cpu_duration_sum", us(l->cpu_ns), "gpu_duration_sum", us(l->gpu_ns), "launch_delay_sum", us(l->delay_ns),
                                              "launch_delay_max", us(l->delay_max_ns), "short_kernels", (json_int_t)l->short_kernels, "runtime_outliers",
                                              (json_int_t)l->slow_calls, "launch_delay_outliers", (json_int_t)l->late_kernels));
    }
    return rows;
}

/* ---- the whole ---- */

static void set_head(json_t *root, const tdmi_job_traces *job, const tdmi_hta_figures *figures)
{
    json_t *ranks = json_array(), *files = json_object(), *rows = json_object(), *steps = json_array();
    for (size_t r = 0; r < figures->rank_count; r++) {
        char key[16];
        const char *path = job->rank[r]->path, *slash = strrchr(path, '/');
        snprintf(key, sizeof key, "%d", figures->rank[r].rank);
        json_array_append_new(ranks, json_integer(figures->rank[r].rank));
        json_t *name = json_string(slash != NULL ? slash + 1 : path);
        json_object_set_new(files, key, name != NULL ? name : json_string("?")); /* a name may be no UTF-8 */
        json_object_set_new(rows, key, json_integer((json_int_t)figures->rank[r].rows));
    }
    for (size_t i = 0; i < figures->step_count; i++)
        json_array_append_new(steps, json_integer(figures->step[i]));
    json_object_set_new(root, "hta", json_string("0.5.0"));
    json_object_set_new(root, "ranks", ranks);
    json_object_set_new(root, "files", files);
    json_object_set_new(root, "rows_after_filter", rows);
    json_object_set_new(root, "min_ts", figures->first_ns != INT64_MAX ? time_of_day(figures->first_ns) : json_null());
    json_object_set_new(root, "profiler_steps", steps);
}

/* Takes value. */
static void set_metric(json_t *root, const tdmi_hta_figures *figures, tdmi_hta_metric metric, const char *name, json_t *value)
{
    if (figures->error[metric] == NULL) {
        json_object_set_new(root, name, value);
        return;
    }
    json_decref(value);
    json_object_set_new(root, name, json_null());
}

static void set_metrics(json_t *root, const tdmi_hta_figures *figures)
{
    set_metric(root, figures, TDMI_HTA_METRIC_TEMPORAL, "temporal_breakdown", temporal(figures, HTA));
    set_metric(root, figures, TDMI_HTA_METRIC_OVERLAP, "comm_comp_overlap", overlap(figures, HTA));
    set_metric(root, figures, TDMI_HTA_METRIC_IDLE, "idle_time_breakdown", idle(figures));
    json_object_set_new(root, "kernel_breakdown_with_memory", json_pack("{s:o, s:o}", "kernel_type", types(figures, true), "kernels", kernels(figures)));
    json_object_set_new(root, "kernel_breakdown_default", json_pack("{s:o}", "kernel_type", types(figures, false)));
    set_metric(root, figures, TDMI_HTA_METRIC_QUEUE, "queue_length_summary", queue(figures));
    set_metric(root, figures, TDMI_HTA_METRIC_FULL, "blocked_on_full_queue", full(figures));
    set_metric(root, figures, TDMI_HTA_METRIC_BANDWIDTH, "memory_bw_summary", bandwidth(figures));
    set_metric(root, figures, TDMI_HTA_METRIC_LAUNCHES, "cuda_kernel_launch_stats", launches(figures));
    json_t *stragglers = figures->rank_count > 1 ? json_array() : json_null();
    for (size_t i = 0; i < figures->straggler_count; i++)
        json_array_append_new(stragglers, json_integer(figures->straggler[i]));
    set_metric(root, figures, TDMI_HTA_METRIC_STRAGGLERS, "potential_stragglers", stragglers);
    json_object_set_new(root, "gpu_user_annotation_breakdown", annotations(figures));
    set_metric(root, figures, TDMI_HTA_METRIC_WITH_LAST, "temporal_breakdown_incl_last", temporal(figures, WITH_LAST));
    set_metric(root, figures, TDMI_HTA_METRIC_WITH_LAST, "comm_comp_overlap_incl_last", overlap(figures, WITH_LAST));
}

static json_t *errors(const tdmi_hta_figures *figures)
{
#define METRIC_NAME(NAME, text) text,
    static const char *const names[] = {TDMI_HTA_METRIC_MAP(METRIC_NAME)};
    json_t *all = json_object();
    for (int metric = 0; metric < TDMI_HTA_METRICS; metric++)
        if (figures->error[metric] != NULL)
            json_object_set_new(all, names[metric], json_string(figures->error[metric]));
    return all;
}

static json_t *notes(const tdmi_job_traces *job)
{
    json_t *all = json_array();
    for (size_t i = 0; i < job->note_count; i++)
        json_array_append_new(all, json_string(job->note[i]));
    for (size_t r = 0; r < job->count; r++)
        for (size_t i = 0; i < job->rank[r]->note_count; i++)
            json_array_append_new(all, json_sprintf("%s: %s", job->rank[r]->path, job->rank[r]->note[i]));
    return all;
}

tdm_status tdmi_hta_json(const tdmi_job_traces *job, const tdmi_hta_figures *figures, char **out)
{
    bool rounds = false;
    for (size_t r = 0; r < job->count; r++)
        rounds |= job->rank[r]->ns_times;
    json_t *root = json_object();
    set_head(root, job, figures);
    set_metrics(root, figures);
    json_object_set_new(root, "unrounded",
                        rounds ? json_pack("{s:o, s:o}", "temporal_breakdown", temporal(figures, EXACT), "comm_comp_overlap", overlap(figures, EXACT)) : json_null());
    json_object_set_new(root, "errors", errors(figures));
    json_object_set_new(root, "notes", notes(job));
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    *out = text != NULL ? tdmi_strdup(text, "hta json") : NULL;
    free(text);
    return *out != NULL ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "HTA's numbers as JSON need more memory than there is");
}
