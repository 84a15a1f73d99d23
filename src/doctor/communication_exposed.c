/* communication_exposed.c - transfers that no computation hides. Waiting for a late rank is no transfer: that is the straggler's. */
#include "doctor/finding.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct traffic {
    double transfer_ms, wait_ms;   /* of an iteration and rank */
    double nbytes;                 /* of an iteration */
    double busbw_gbps;             /* over all that is known */
    size_t alone;                  /* collectives that could not be lined up */
    bool is_p2p;                   /* nothing but sends and receives */
} traffic;

static traffic look(const tdmi_case *c)
{
    traffic t = {.is_p2p = true};
    const double iterations = tdmi_job_iterations(c->job);
    double bus_bytes = 0, bus_s = 0;
    for (size_t i = 0; i < c->job->meetings && iterations > 0; i++) {
        const tdmi_meeting *m = &c->job->meeting[i];
        t.alone += !m->lined_up;
        t.is_p2p &= strcmp(m->op, "send") == 0 || strcmp(m->op, "recv") == 0 || strcmp(m->op, "sendrecv") == 0;
        for (uint32_t p = m->first; p < m->first + m->count; p++) {
            const double ns = (double)(c->job->part[p].end_ns - c->job->part[p].start_ns);
            const double transfer_ns = (double)m->transfer_ns < ns ? (double)m->transfer_ns : ns;
            t.transfer_ms += transfer_ns / 1e6 / iterations;
            t.wait_ms += (ns - transfer_ns) / 1e6 / iterations;
        }
        const double factor = tdmi_bus_factor(m->op, m->group_size > 0 ? m->group_size : (int)m->count);
        if (m->nbytes > 0 && m->lined_up && m->transfer_ns > 0) {
            bus_bytes += factor * (double)m->nbytes;
            bus_s += (double)m->transfer_ns / 1e9;
        }
        t.nbytes += m->nbytes > 0 ? (double)m->nbytes * (double)m->count / iterations : 0;
    }
    t.busbw_gbps = bus_s > 0 ? bus_bytes / bus_s / 1e9 : 0;
    return t;
}

/* What the whole job does, measured by one rank that does not communicate: its ranks are that many times faster. Waiting for ranks without
 * a trace would count as communication. */
static void say_speed(const tdmi_case *c, const traffic *t, const tdmi_gain *gain, char text[128])
{
    const int ranks = c->job->traces->world_size;
    const double compute_pct = tdmi_case_part_pct(c, offsetof(tdmi_split, compute_ns)), speed = ranks * (double)gain->without_ns / (double)c->model->now_ns;
    text[0] = '\0';
    if (t->alone == 0 && ranks > 1 && t->transfer_ms > compute_pct / 100 * (double)c->model->now_ns / 1e6)
        snprintf(text, 128, "; that is longer than it computes: %d ranks do the work of %.1f%s", ranks, speed, speed < 1 ? ", less than one process alone" : "");
}

static const char *advice(const tdmi_case *c, bool is_p2p)
{
    const tdmi_trace *trace = c->job->rank[0].trace;
    if (is_p2p)
        return "Between the stages of a pipeline: more micro-batches a step and an interleaved schedule (ScheduleInterleaved1F1B of torch.distributed.pipelining), "
               "stages of equal time, isend and irecv (batch_isend_irecv) posted before the computation that hides them, activations sent in bf16; "
               "put neighbouring stages on one host or behind the fastest link";
    if ((c->job->kinds & TDMI_JOB_FSDP) != 0)
        return "FSDP: forward_prefetch=True, backward_prefetch=BACKWARD_PRE, limit_all_gathers=True, wrap larger blocks, MixedPrecision(reduce_dtype="
               "torch.bfloat16), HYBRID_SHARD inside a host; check the link of the slowest hosts";
    if (!c->job->on_device && strstr(tdmi_trace_text(trace, trace->backend), "nccl") == NULL) /* of a job that is joined no backend is said */
        return "Halve the bytes with fp16_compress_hook, accumulate gradients under no_sync(), use a larger batch a rank; with DDP set "
               "static_graph=True and gradient_as_bucket_view=True, and try other bucket_cap_mb; set GLOO_SOCKET_IFNAME to the fastest "
               "network, and take fewer ranks with more threads each on one host";
    return "Halve the bytes with bf16_compress_hook, accumulate gradients under no_sync(), use a larger batch a rank; with DDP set "
           "static_graph=True and gradient_as_bucket_view=True, and try other bucket_cap_mb; check that NCCL uses InfiniBand or NVLink";
}

void tdmi_find_communication_exposed(tdmi_case *c, tdmi_findings *out)
{
    tdmi_scaling without = tdmi_scaling_none();
    tdmi_finding f = {.id = "communication_exposed", .rank = -1};
    if (c->job->meetings == 0)
        return;
    without.factor[TDMI_DUE_TRANSFER] = 0;
    tdmi_model_what_if(c->model, &(tdmi_variation){.change = tdmi_scale, .arg = &without}, &f.gain);
    if (f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    const traffic t = look(c);
    char speed[128];
    say_speed(c, &t, &f.gain, speed);
    const double exposed = tdmi_case_part_pct(c, offsetof(tdmi_split, comm_exposed_ns)), hidden = tdmi_case_part_pct(c, offsetof(tdmi_split, comm_overlap_ns));
    f.evidence = json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:I}", "exposed_pct", exposed, "overlapped_pct", hidden, "transfer_ms", t.transfer_ms,
                           "wait_ms", t.wait_ms, "megabytes", t.nbytes / 1e6, "busbw_gbps", t.busbw_gbps > 0 ? json_real(t.busbw_gbps) : json_null(),
                           "not_lined_up", (json_int_t)t.alone);
    snprintf(f.text, sizeof f.text, "%s take %.1f ms of an iteration%s; %.0f %% of the iteration they run with nothing to hide them, %.0f %% behind computation%s",
             t.is_p2p ? "sends and receives" : "collectives", t.transfer_ms, t.alone > 0 ? " (waiting for ranks without a trace included)" : "", exposed, hidden, speed);
    snprintf(f.advice, sizeof f.advice, "%s", advice(c, t.is_p2p));
    tdmi_findings_add(out, &f);
}
