/* job_json.c - a job as one object; docs/cli.md has the fields. */
#include "doctor/job_report.h"

#include "core/memory.h"
#include "job/intervals.h"
#include "job/kernels.h"
#include "job/syncs.h"

/* Lists end here: enough to see what matters, and an object of bounded size. */
#define KERNELS_MAX 40
#define SITES_MAX 40
#define BUCKETS_MAX 200

static json_t *number_or_null(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *memory_json(const tdmi_rank *rank)
{
    tdmi_memory_line line;
    if (!tdmi_memory_measure(rank, &line))
        return json_null();
    json_t *timeline = json_array();
    const double step_ms = tdmi_ms(line.end_ns - line.start_ns) / TDMI_MEMORY_POINTS;
    for (size_t i = 0; i < TDMI_MEMORY_POINTS; i++)
        if (line.allocated[i] >= 0)
            json_array_append_new(timeline, json_pack("[f, f]", step_ms * (double)i, (double)line.allocated[i] / 1e6));
    return json_pack("{s:f, s:o, s:o}", "most_allocated_mb", (double)line.most_allocated / 1e6, "most_reserved_mb",
                     number_or_null((double)line.most_reserved / 1e6), "timeline_ms_mb", timeline);
}

static json_t *rank_json(const tdmi_case *c, size_t place)
{
    const tdmi_rank *rank = &c->job->rank[place];
    const tdmi_split *s = &c->breakdown->mean[place];
    tdmi_launches launches;
    tdmi_launches_measure(c->job, place, &launches);
    const int64_t idle_ns = s->sync_ns + s->host_ns + s->kernel_ns + s->other_ns;
    json_t *o = json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "rank", rank->number, "iterations", (int)rank->iterations, "iteration_ms",
                          tdmi_ms(s->length_ns), "compute_pct", tdmi_pct(s->compute_ns, s->length_ns), "comm_exposed_pct", tdmi_pct(s->comm_exposed_ns, s->length_ns),
                          "comm_overlapped_pct", tdmi_pct(s->comm_overlap_ns, s->length_ns), "copy_pct", tdmi_pct(s->copy_ns, s->length_ns), "data_pct",
                          tdmi_pct(s->data_ns, s->length_ns), "idle_pct", tdmi_pct(idle_ns, s->length_ns));
    json_t *more = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:o}", "idle_sync_pct",
                             tdmi_pct(s->sync_ns, s->length_ns), "idle_host_pct", tdmi_pct(s->host_ns, s->length_ns), "idle_kernel_pct",
                             tdmi_pct(s->kernel_ns, s->length_ns), "idle_other_pct", tdmi_pct(s->other_ns, s->length_ns), "loading_ms", tdmi_ms(s->loading_ns),
                             "blocked_ms", tdmi_ms(s->blocked_ns), "forward_ms", tdmi_ms(s->forward_ns), "backward_ms", tdmi_ms(s->backward_ns), "optimizer_ms",
                             tdmi_ms(s->optimizer_ns), "forward_gpu_ms", tdmi_ms(s->forward_gpu_ns), "backward_gpu_ms", tdmi_ms(s->backward_gpu_ns),
                             "optimizer_gpu_ms", tdmi_ms(s->optimizer_gpu_ns), "kernels", (json_int_t)s->kernels, "launch_delay_us",
                             (double)launches.delay_ns / 1e3, "kernel_gap_us", (double)launches.gap_ns / 1e3, "queue_mean", launches.queue_mean,
                             "clock_offset_ms", tdmi_ms(rank->shift_ns - (rank->trace->base_ns - c->job->rank[0].trace->base_ns)), "queue_most",
                             (json_int_t)launches.queue_most, "last_to_join", (json_int_t)rank->last_to_join, "memory", memory_json(rank));
    json_t *each = json_array();
    for (size_t i = 0; i < rank->iterations; i++) {
        const tdmi_split *one = &c->breakdown->of[place][i];
        json_array_append_new(each, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "number", (json_int_t)rank->iteration[i].number,
                                              "length_ns", (json_int_t)one->length_ns, "compute_ns", (json_int_t)one->compute_ns, "comm_exposed_ns",
                                              (json_int_t)one->comm_exposed_ns, "comm_overlapped_ns", (json_int_t)one->comm_overlap_ns, "copy_ns",
                                              (json_int_t)one->copy_ns, "data_ns", (json_int_t)one->data_ns, "sync_ns", (json_int_t)one->sync_ns,
                                              "host_ns", (json_int_t)one->host_ns, "kernel_ns", (json_int_t)one->kernel_ns, "other_ns",
                                              (json_int_t)one->other_ns, "loading_ns", (json_int_t)one->loading_ns));
    }
    if (o != NULL && more != NULL)
        json_object_update(o, more);
    json_decref(more);
    if (o == NULL || json_object_set_new(o, "each", each) != 0)
        json_decref(each);
    return o;
}

static json_t *traffic_json(const tdmi_job *job)
{
    tdmi_traffic *traffic;
    size_t count;
    json_t *list = json_array();
    if (tdmi_traffic_sum(job, &traffic, &count) != TDM_OK)
        return list;
    for (size_t i = 0; i < count; i++) {
        const tdmi_traffic *t = &traffic[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:o, s:I, s:f, s:o, s:o, s:o}", "op", t->op, "group", t->group, "ranks", t->group_size, "bytes",
                                              t->nbytes >= 0 ? json_integer(t->nbytes) : json_null(), "count", (json_int_t)t->count, "transfer_ms",
                                              tdmi_ms(t->transfer_ns), "wait_ms", t->lined_up ? json_real(tdmi_ms(t->wait_ns)) : json_null(), "algbw_gbps",
                                              number_or_null(t->algbw_gbps), "busbw_gbps", number_or_null(t->busbw_gbps)));
    }
    tdmi_free(traffic);
    return list;
}

/* The collectives of one iteration as they came, and how much of each computation hides: of the last iteration, on the first rank. */
static json_t *buckets_json(const tdmi_case *c)
{
    json_t *list = json_array();
    const tdmi_rank *rank = c->job->ranks > 0 ? &c->job->rank[0] : NULL;
    tdmi_spans compute = {0};
    if (rank == NULL || rank->iterations == 0)
        return list;
    const tdmi_iteration *it = &rank->iteration[rank->iterations - 1];
    for (size_t g = 0; g < rank->gpu_count; g++)
        if (rank->role[rank->gpu[g]] == TDMI_ROLE_COMPUTE && tdmi_event_end(rank, rank->gpu[g]) > it->start_ns &&
            tdmi_spans_add(&compute, tdmi_event_start(rank, rank->gpu[g]), tdmi_event_end(rank, rank->gpu[g])) != TDM_OK)
            break;
    tdmi_spans_merge(&compute);
    for (size_t i = 0; i < c->job->meetings && json_array_size(list) < BUCKETS_MAX; i++) {
        const tdmi_meeting *m = &c->job->meeting[i];
        const tdmi_part *p = &c->job->part[m->first];
        if (p->place != 0 || p->start_ns < it->start_ns || p->start_ns >= it->end_ns)
            continue;
        json_array_append_new(list, json_pack("{s:s, s:o, s:f, s:f, s:f, s:o}", "op", m->op, "bytes", m->nbytes >= 0 ? json_integer(m->nbytes) : json_null(),
                                              "start_ms", tdmi_ms(p->start_ns - it->start_ns), "wait_ms", m->lined_up ? tdmi_ms(m->joined_ns - p->start_ns) : 0.0,
                                              "transfer_ms", tdmi_ms(m->transfer_ns), "overlapped_pct",
                                              rank->on_device ? json_real(tdmi_pct(tdmi_spans_within(&compute, p->start_ns, p->end_ns), p->end_ns - p->start_ns))
                                                              : json_null()));
    }
    tdmi_spans_free(&compute);
    return list;
}

static json_t *kernels_json(const tdmi_job *job)
{
    tdmi_kernels kernels;
    json_t *list = json_array();
    if (tdmi_kernels_sum(job, &kernels) != TDM_OK)
        return list;
    int64_t all_ns = 0;
    for (size_t i = 0; i < kernels.count; i++)
        all_ns += kernels.of[i].ns;
    for (size_t i = 0; i < kernels.count && i < KERNELS_MAX; i++) {
        const tdmi_kernel_sum *k = &kernels.of[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:f, s:f}", "name", k->name, "kind",
                                              k->role == TDMI_ROLE_COMM ? "communication" : k->role == TDMI_ROLE_COPY ? "copy" : "compute", "count",
                                              (json_int_t)k->count, "ms", tdmi_ms(k->ns), "pct", tdmi_pct(k->ns, all_ns)));
    }
    tdmi_kernels_free(&kernels);
    return list;
}

static json_t *syncs_json(const tdmi_job *job)
{
    tdmi_syncs syncs;
    json_t *list = json_array();
    if (tdmi_syncs_find(job, &syncs) != TDM_OK)
        return list;
    for (size_t i = 0; i < syncs.count && i < SITES_MAX; i++) {
        const tdmi_sync_site *s = &syncs.of[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:I, s:f}", "call", s->call, "op", s->op, "line", s->line, "count", (json_int_t)s->count,
                                              "blocked_ms", tdmi_ms(s->blocked_ns)));
    }
    tdmi_syncs_free(&syncs);
    return list;
}

json_t *tdmi_findings_json(const tdmi_findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const tdmi_finding *f = &findings->of[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:O, s:s, s:s, s:f, s:f, s:f, s:n}", "id", f->id, "severity", "warning", "rank",
                                              f->rank >= 0 ? json_integer(f->rank) : json_null(), "evidence", f->evidence, "text", f->text, "advice",
                                              f->advice, "gain_pct", f->gain.pct, "gain_pct_low", f->gain.low, "gain_pct_high", f->gain.high, "verified"));
    }
    return list;
}

static json_t *kinds_json(unsigned kinds)
{
    json_t *list = json_array();
    for (size_t i = 0; i < TDMI_JOB_KIND_NAMES; i++)
        if ((kinds >> i & 1) != 0)
            json_array_append_new(list, json_string(tdmi_job_kind_names[i]));
    return list;
}

/* All that is to be said about the files, each sentence once. */
static json_t *notes_json(const tdmi_job *job)
{
    json_t *list = json_array();
    for (size_t i = 0; i < job->traces->note_count; i++)
        json_array_append_new(list, json_string(job->traces->note[i]));
    for (size_t r = 0; r < job->ranks; r++)
        for (size_t i = 0; i < job->rank[r].trace->note_count; i++)
            json_array_append_new(list, json_sprintf("rank %d: %s", job->rank[r].number, job->rank[r].trace->note[i]));
    for (size_t r = 0; r < job->ranks; r++)
        if (job->rank[r].overlong > 0)
            json_array_append_new(list, json_sprintf("rank %d: %d kernels last longer than the whole trace and are left out", job->rank[r].number, (int)job->rank[r].overlong));
    for (size_t r = 0; r < job->ranks; r++)
        if (job->rank[r].out_of_range > 0)
            json_array_append_new(list, json_sprintf("rank %d: %d events start more than 73 years from zero, or last longer than a day, and are left out", job->rank[r].number,
                                                     (int)job->rank[r].out_of_range));
    return list;
}

json_t *tdmi_job_json(const tdmi_case *c, const tdmi_findings *findings)
{
    size_t iterations = 0;
    json_t *breakdown = json_array();
    for (size_t r = 0; r < c->job->ranks; r++) {
        json_array_append_new(breakdown, rank_json(c, r));
        iterations = c->job->rank[r].iterations > iterations ? c->job->rank[r].iterations : iterations;
    }
    return json_pack("{s:i, s:I, s:o, s:s?, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "world_size", c->job->traces->world_size,
                     "iterations", (json_int_t)iterations, "breakdown", breakdown, "limit", findings->count > 0 ? findings->of[0].id : tdmi_case_computes(c) ? "compute" : NULL,
                     "iteration_ms", tdmi_ms(c->model->now_ns), "replay_error_pct",
                     c->model->replay_error_pct, "parallel", kinds_json(c->job->kinds), "collectives", traffic_json(c->job), "buckets", buckets_json(c),
                     "kernels", kernels_json(c->job), "syncs", syncs_json(c->job), "notes", notes_json(c->job));
}
