/* job_text.c - a job for people: 100 columns, what matters first. */
#include "doctor/job_report.h"

#include "core/memory.h"
#include "job/kernels.h"
#include "job/syncs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define BAR_CELLS 26
/* Ranks beyond are left out of the table: the slowest are in the findings. */
#define RANKS_MAX 32
#define LIST_MAX 5

/* "1.5 GB" */
static const char *size_text(int64_t nbytes, char text[32])
{
    if (nbytes < 0)
        return "size not said";
    snprintf(text, 32, nbytes >= 1000000000 ? "%.2f GB" : nbytes >= 1000000 ? "%.1f MB" : "%.1f kB",
             (double)nbytes / (nbytes >= 1000000000 ? 1e9 : nbytes >= 1000000 ? 1e6 : 1e3));
    return text;
}

/* ---- who and what ---- */

const char *const tdmi_job_kind_names[TDMI_JOB_KIND_NAMES] = {"DDP", "FSDP", "ZeRO", "DataParallel"};

void tdmi_job_title(const tdmi_case *c, char text[TDMI_JOB_TITLE_BYTES])
{
    const tdmi_job *job = c->job;
    const tdmi_rank *first = &job->rank[0];
    char what[128] = "", steps[96];
    size_t used = 0, iterations = 0, least = SIZE_MAX;
    for (size_t r = 0; r < job->ranks; r++) {
        iterations = job->rank[r].iterations > iterations ? job->rank[r].iterations : iterations;
        least = job->rank[r].iterations < least ? job->rank[r].iterations : least;
    }
    for (size_t i = 0; i < TDMI_JOB_KIND_NAMES; i++)
        if ((job->kinds >> i & 1) != 0)
            used += (size_t)snprintf(what + used, sizeof what - used, ", %s", tdmi_job_kind_names[i]);
    const char *backend = tdmi_trace_text(first->trace, first->trace->backend);
    if (backend[0] != '\0')
        snprintf(what + used, sizeof what - used, " over %.40s", backend);
    if (!first->has_steps)
        snprintf(steps, sizeof steps, "no ProfilerStep and no optimizer: the whole trace counts as one iteration");
    else if (tdmi_steps_are_cut(first))
        snprintf(steps, sizeof steps, "%zu iteration%s, each to the end of an optimizer's step", least, least == 1 ? "" : "s");
    else if (least != iterations)
        snprintf(steps, sizeof steps, "%zu to %zu iterations", least, iterations);
    else
        snprintf(steps, sizeof steps, iterations == 1 ? "%zu iteration (%lld)" : "%zu iterations (%lld to %lld)", iterations,
                 (long long)first->iteration[0].number, (long long)first->iteration[first->iterations - 1].number);
    snprintf(text, TDMI_JOB_TITLE_BYTES, "traces of %zu of %d rank%s%s, %s; %s; %.2f ms an iteration", job->ranks, job->traces->world_size,
             job->traces->world_size == 1 ? "" : "s", what, job->on_device ? "with a device" : "CPU only", steps, tdmi_ms(c->model->now_ns));
}

static void introduce(const tdmi_case *c, tdm_doctor_report *report)
{
    const tdmi_job *job = c->job;
    char title[TDMI_JOB_TITLE_BYTES];
    tdmi_job_title(c, title);
    tdmi_report_wrap(report, 2, "%s", title);
    for (size_t i = 0; i < job->traces->note_count; i++)
        tdmi_report_wrap(report, 2, "note: %s", job->traces->note[i]);
    for (size_t r = 0; r < job->ranks; r++)
        for (size_t i = 0; i < job->rank[r].trace->note_count; i++)
            tdmi_report_wrap(report, 2, "note: rank %d: %s", job->rank[r].number, job->rank[r].trace->note[i]);
    for (size_t r = 0; r < job->ranks; r++)
        if (job->rank[r].overlong > 0)
            tdmi_report_wrap(report, 2, "note: rank %d: %zu kernels last longer than the whole trace and are left out", job->rank[r].number, job->rank[r].overlong);
    for (size_t r = 0; r < job->ranks; r++)
        if (job->rank[r].out_of_range > 0)
            tdmi_report_wrap(report, 2, "note: rank %d: %zu events start more than 73 years from zero, or last longer than a day, and are left out", job->rank[r].number,
                        job->rank[r].out_of_range);
    if (job->clock_spread_ns > 100000)
        tdmi_report_wrap(report, 2, "note: clocks of the hosts are up to %.2f ms apart; set right by the ends of collectives", tdmi_ms(job->clock_spread_ns));
}

/* ---- the breakdown ---- */

static void bar(const tdmi_split *s, char *out, size_t nbytes)
{
    /* compute, exposed communication, copies, loader; the rest is idle */
    static const char *const ink[] = {"█", "▒", "▪", "░"};
    const int64_t part[] = {s->compute_ns, s->comm_exposed_ns, s->copy_ns, s->data_ns};
    size_t used = 0, cells = 0;
    double until = 0;
    out[0] = '\0';
    for (size_t p = 0; p < sizeof part / sizeof *part; p++) {
        until += s->length_ns > 0 ? BAR_CELLS * (double)part[p] / (double)s->length_ns : 0;
        for (; cells < BAR_CELLS && (double)cells + 0.5 <= until && used + 4 < nbytes; cells++)
            used += (size_t)snprintf(out + used, nbytes - used, "%s", ink[p]);
    }
    for (; cells < BAR_CELLS && used + 4 < nbytes; cells++)
        used += (size_t)snprintf(out + used, nbytes - used, "·");
}

static void breakdown_text(const tdmi_case *c, tdm_doctor_report *report)
{
    char cells[BAR_CELLS * 4 + 4];
    tdmi_report_say(report, "%s", "");
    tdmi_report_say(report, "%s", c->job->on_device ? " rank  iteration  compute  comm.  copies  loader   sync   host  other  %"
                                                    : " rank  iteration  compute  comm.  loader  other  %");
    for (size_t r = 0; r < c->job->ranks && r < RANKS_MAX; r++) {
        const tdmi_split *s = &c->breakdown->mean[r];
        const int64_t all = s->length_ns;
        bar(s, cells, sizeof cells);
        if (c->job->on_device)
            tdmi_report_say(report, "%5d %7.2f ms    %5.1f  %5.1f   %5.1f   %5.1f  %5.1f  %5.1f  %5.1f  %s", c->job->rank[r].number, tdmi_ms(all),
                            tdmi_pct(s->compute_ns, all), tdmi_pct(s->comm_exposed_ns, all), tdmi_pct(s->copy_ns, all), tdmi_pct(s->data_ns, all), tdmi_pct(s->sync_ns, all),
                            tdmi_pct(s->host_ns, all), tdmi_pct(s->kernel_ns + s->other_ns, all), cells);
        else
            tdmi_report_say(report, "%5d %7.2f ms    %5.1f  %5.1f   %5.1f  %5.1f  %s", c->job->rank[r].number, tdmi_ms(all), tdmi_pct(s->compute_ns, all),
                            tdmi_pct(s->comm_exposed_ns, all), tdmi_pct(s->data_ns, all), tdmi_pct(s->other_ns, all), cells);
    }
    if (c->job->ranks > RANKS_MAX)
        tdmi_report_say(report, "  ... and %zu ranks more (--json has all)", c->job->ranks - RANKS_MAX);
    if (c->job->on_device) {
        tdmi_report_say(report, "       █ compute  ▒ communication not hidden  ▪ copies  ░ device idle for the loader");
        tdmi_report_say(report, "       · device idle: the host in a sync, behind with launching, other");
    } else {
        tdmi_report_say(report, "       █ operators  ▒ waiting for communication  ░ loader  · other");
    }
}

/* ---- more of the numbers ---- */

static void phases_text(const tdmi_case *c, tdm_doctor_report *report)
{
    tdmi_split mean = {0};
    for (size_t r = 0; r < c->job->ranks; r++) {
        const tdmi_split *s = &c->breakdown->mean[r];
        mean.forward_ns += s->forward_ns / (int64_t)c->job->ranks;
        mean.backward_ns += s->backward_ns / (int64_t)c->job->ranks;
        mean.optimizer_ns += s->optimizer_ns / (int64_t)c->job->ranks;
        mean.forward_gpu_ns += s->forward_gpu_ns / (int64_t)c->job->ranks;
        mean.backward_gpu_ns += s->backward_gpu_ns / (int64_t)c->job->ranks;
        mean.optimizer_gpu_ns += s->optimizer_gpu_ns / (int64_t)c->job->ranks;
        mean.loading_ns += s->loading_ns / (int64_t)c->job->ranks;
        mean.blocked_ns += s->blocked_ns / (int64_t)c->job->ranks;
    }
    tdmi_report_wrap(report, 9, "on the   host: forward %.2f ms, backward %.2f, optimizer %.2f, loader %.2f, in calls that wait for the device %.2f", tdmi_ms(mean.forward_ns),
                tdmi_ms(mean.backward_ns), tdmi_ms(mean.optimizer_ns), tdmi_ms(mean.loading_ns), tdmi_ms(mean.blocked_ns));
    if (c->job->on_device)
        tdmi_report_wrap(report, 9, "on the device: forward %.2f ms, backward %.2f, optimizer %.2f", tdmi_ms(mean.forward_gpu_ns), tdmi_ms(mean.backward_gpu_ns),
                    tdmi_ms(mean.optimizer_gpu_ns));
}

/* Who came last, where one rank did so in half of all collectives and more: the three that did so most often. */
static void last_to_join_text(const tdmi_case *c, tdm_doctor_report *report)
{
    char text[256] = "";
    size_t used = 0, below = SIZE_MAX;
    for (int shown = 0; shown < 3; shown++) {
        size_t most = 0, most_place = 0;
        for (size_t r = 0; r < c->job->ranks; r++) {
            const size_t last = c->job->rank[r].last_to_join;
            if (last > most && last < below) {
                most = last;
                most_place = r;
            }
        }
        if (most == 0 || (shown == 0 && 2 * most < c->job->lined_up))
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s rank %d in %zu", used > 0 ? "," : "", c->job->rank[most_place].number, most);
        below = most;
    }
    if (used > 0)
        tdmi_report_say(report, "  last to join:%s of %zu collectives", text, c->job->lined_up);
}

static const char *why_no_communication(const tdmi_case *c)
{
    const tdmi_trace *trace = c->job->rank[0].trace;
    const char *backend = tdmi_trace_text(trace, trace->backend);
    if (c->job->traces->world_size < 2 && backend[0] == '\0')
        return "nothing says that there is more than one rank";
    if (strstr(backend, "nccl") != NULL && !c->job->on_device)
        return "NCCL's kernels are in a trace of ProfilerActivity.CUDA only";
    return "these iterations have none, as under no_sync() and in evaluation";
}

static void traffic_text(const tdmi_case *c, tdm_doctor_report *report)
{
    tdmi_traffic *traffic;
    size_t count;
    char size[32];
    if (tdmi_traffic_sum(c->job, &traffic, &count) != TDM_OK)
        return;
    for (size_t i = 0; i < count && i < LIST_MAX; i++) {
        const tdmi_traffic *t = &traffic[i];
        char wait[64] = "waiting and transfer not to be told apart", rate[64] = "", seen[32] = "";
        if (t->lined_up)
            snprintf(wait, sizeof wait, "%.3f ms waiting for the last rank", tdmi_ms(t->wait_ns));
        if (t->busbw_gbps > 0)
            snprintf(rate, sizeof rate, ", %.1f GB/s (bus %.1f)", t->algbw_gbps, t->busbw_gbps);
        if (t->seen < t->group_size)
            snprintf(seen, sizeof seen, ", seen on %d", t->seen);
        tdmi_report_wrap(report, 4, "  %lld x %s of %s, %d rank%s%s: %.3f ms%s, %s", (long long)t->count, t->op, size_text(t->nbytes, size), t->group_size,
                    t->group_size == 1 ? "" : "s", seen, tdmi_ms(t->transfer_ns), rate, wait);
    }
    if (count > LIST_MAX)
        tdmi_report_say(report, "  ... and %zu kinds more", count - LIST_MAX);
    tdmi_free(traffic);
}

static void kernels_text(const tdmi_case *c, tdm_doctor_report *report)
{
    tdmi_kernels kernels;
    int64_t all_ns = 0;
    if (tdmi_kernels_sum(c->job, &kernels) != TDM_OK)
        return;
    for (size_t i = 0; i < kernels.count; i++)
        all_ns += kernels.of[i].ns;
    for (size_t i = 0; i < kernels.count && i < LIST_MAX; i++)
        tdmi_report_say(report, "  %5.1f %%  %6lld x %9.1f us  %.62s", tdmi_pct(kernels.of[i].ns, all_ns), (long long)kernels.of[i].count,
                        (double)kernels.of[i].ns / (double)kernels.of[i].count / 1e3, kernels.of[i].name);
    tdmi_kernels_free(&kernels);
}

/* The rank whose host is the least ahead. */
static void launches_text(const tdmi_case *c, tdm_doctor_report *report)
{
    tdmi_launches one, least = {0};
    int rank = -1;
    for (size_t r = 0; r < c->job->ranks; r++) {
        tdmi_launches_measure(c->job, r, &one);
        if (one.count > 0 && (rank < 0 || one.delay_ns < least.delay_ns)) {
            least = one;
            rank = c->job->rank[r].number;
        }
    }
    if (rank >= 0)
        tdmi_report_wrap(report, 2, "launching: %.1f us from a call to its kernel, %.0f in a stream's queue on average, at most %lld (rank %d)",
                    (double)least.delay_ns / 1e3, least.queue_mean, (long long)least.queue_most, rank);
}

static void syncs_text(const tdmi_case *c, tdm_doctor_report *report)
{
    tdmi_syncs syncs;
    if (tdmi_syncs_find(c->job, &syncs) != TDM_OK)
        return;
    if (syncs.count > 0)
        tdmi_report_say(report, "the host waits for the device");
    for (size_t i = 0; i < syncs.count && i < LIST_MAX; i++) {
        const tdmi_sync_site *s = &syncs.of[i];
        tdmi_report_wrap(report, 4, "  %lld x, %.2f ms in all: %.60s%s%.60s%s%.200s", (long long)s->count, tdmi_ms(s->blocked_ns), s->call, s->op[0] != '\0' ? " in " : "",
                    s->op, s->line != NULL ? " at " : "", s->line != NULL ? s->line : "");
    }
    tdmi_syncs_free(&syncs);
}

static void memory_text(const tdmi_case *c, tdm_doctor_report *report)
{
    tdmi_memory_line line, most = {.most_allocated = -1};
    int rank = -1;
    char allocated[32], reserved[32];
    for (size_t r = 0; r < c->job->ranks; r++)
        if (tdmi_memory_measure(&c->job->rank[r], &line) && line.most_allocated > most.most_allocated) {
            most = line;
            rank = c->job->rank[r].number;
        }
    if (rank >= 0)
        tdmi_report_say(report, "memory: at most %s allocated, %s reserved (rank %d)", size_text(most.most_allocated, allocated),
                        size_text(most.most_reserved, reserved), rank);
}

static void findings_text(const tdmi_case *c, const tdmi_findings *findings, tdm_doctor_report *report)
{
    tdmi_report_say(report, "%s", "");
    for (size_t i = 0; i < findings->count; i++) {
        const tdmi_finding *f = &findings->of[i];
        tdmi_report_wrap(report, 3, "%zu. %s: %s.", i + 1, f->id, f->text);
        tdmi_report_wrap(report, 3, "   To gain: %.0f %% of an iteration (%.0f to %.0f), by replaying it without: %.2f ms instead of %.2f.", f->gain.pct, f->gain.low,
                    f->gain.high, tdmi_ms(f->gain.without_ns), tdmi_ms(c->model->now_ns));
        tdmi_report_wrap(report, 3, "   %s. More: docs/findings/%s.md", f->advice, f->id);
    }
    if (findings->count > 0)
        return;
    if (c->model->now_ns <= 0)
        tdmi_report_say(report, "there is nothing in the trace that takes time: no operators, no kernels");
    else if (tdmi_case_computes(c))
        tdmi_report_wrap(report, 0, "healthy: limited by computation; no cause has %.0f %% or more to gain", TDMI_GAIN_PCT_MIN);
    else
        tdmi_report_wrap(report, 0, "no cause has %.0f %% or more to gain, though only %.0f %% of an iteration is computation: see below where the rest goes",
                    TDMI_GAIN_PCT_MIN, tdmi_case_part_pct(c, offsetof(tdmi_split, compute_ns)));
}

void tdmi_job_text(const tdmi_case *c, const tdmi_findings *findings, tdm_doctor_report *report)
{
    introduce(c, report);
    findings_text(c, findings, report);
    breakdown_text(c, report);
    tdmi_report_say(report, "%s", "");
    phases_text(c, report);
    if (c->job->meetings > 0)
        tdmi_report_say(report, "communication");
    else
        tdmi_report_say(report, "communication: none found (%s)", why_no_communication(c));
    traffic_text(c, report);
    if (c->job->ranks > 1)
        last_to_join_text(c, report);
    if (c->job->on_device)
        tdmi_report_say(report, "on the device, by time");
    kernels_text(c, report);
    launches_text(c, report);
    syncs_text(c, report);
    memory_text(c, report);
    tdmi_report_wrap(report, 2, "replay: a graph of %zu moments gives the measured iterations back within %.3f %%", tdmi_graph_nodes(c->model->graph),
                c->model->replay_error_pct < 0 ? -c->model->replay_error_pct : c->model->replay_error_pct);
}
