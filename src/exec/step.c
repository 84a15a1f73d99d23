/* step.c - the walk over the nodes: compute, start reductions, let them advance, decide, update, meet.
 *
 *     forward and backward of micro-batch 0, 1, ... K-1 (buckets start in the last)  |  wait, verdict, update, meet
 *
 * Threads: the owner of the executor; kernels may use OpenMP inside; over tcp the group has a thread of its own. */
#include "exec/internal.h"

#include "core/clock.h"
#include "core/memory.h"
#include "kernels/threads.h"
#include "optim/clip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

tdm_status tdmi_exec_create(const tdmi_graph *graph, const tdmi_exec_options *options, tdmi_exec **out)
{
    tdmi_exec *exec = tdmi_calloc(1, sizeof *exec, "executor");
    if (exec == NULL)
        return TDM_ERR_NO_MEMORY;
    exec->graph = graph;
    exec->options = *options;
    exec->rank = options->group == NULL ? 0 : tdm_group_rank(options->group);
    exec->size = options->group == NULL ? 1 : tdm_group_size(options->group);
    tdm_status st = exec_bind(exec);
    if (st != TDM_OK) {
        tdmi_exec_destroy(exec);
        return st;
    }
    *out = exec;
    return TDM_OK;
}

void tdmi_exec_destroy(tdmi_exec *exec)
{
    if (exec == NULL)
        return;
    exec_unbind(exec);
    tdmi_free(exec);
}

void *tdmi_exec_memory(tdmi_exec *exec, tdmi_id tensor)
{
    return exec->memory[tensor];
}

bool tdmi_exec_shares_parameters(const tdmi_exec *exec)
{
    return exec->shared;
}

const tdmi_graph *tdmi_exec_gathers(const tdmi_exec *exec)
{
    return exec->gathered != NULL ? exec->graph : NULL;
}

size_t tdmi_exec_slab_nbytes(const tdmi_exec *exec)
{
    return exec->graph->slab_nbytes;
}

tdm_status tdmi_exec_publish_parameters(tdmi_exec *exec)
{
    tdm_status st = exec->size == 1 ? TDM_OK : tdm_barrier(exec->options.group, NULL);
    if (st != TDM_OK || exec->copies == NULL)
        return st;
    exec_copy_own_share(exec);
    return exec->size == 1 ? TDM_OK : tdm_barrier(exec->options.group, NULL);
}

/* Runs inside the reduction of a bucket: this rank's slice, piece by piece, in order. Squares are summed in cells of a fixed
 * grid: how a transport cuts the pieces does not show in the norm. Where updates wait for the verdict the piece is kept. */
static void take_piece(void *arg, int bucket, size_t first, size_t count, const void *reduced)
{
    tdmi_exec *exec = arg;
    exec_bucket *b = &exec->bucket[bucket];
    const int64_t begin = tdmi_now_ns();
    float cell[EXEC_CELL];
    for (size_t at = 0, n; at < count; at += n) {
        size_t left = EXEC_CELL - (first + at - exec->bucket[bucket].slice_first) % EXEC_CELL;
        n = left < count - at ? left : count - at;
        const float *gradient = exec_widened(exec, reduced, at, n, cell);
        b->squares += tdmi_sum_of_squares(gradient, n);
        if (exec->fused)
            exec_update_range(exec, bucket, first + at, n, gradient);
    }
    const size_t size = tdm_dtype_size(exec->graph->gradient_type);
    char *kept = (char *)tdmi_reducer_reduced(exec->reducer, bucket) + (first - b->slice_first) * size;
    if (!exec->fused && kept != reduced)
        memcpy(kept, reduced, count * size);
    exec->updating_ns += tdmi_now_ns() - begin;
}

static tdm_status bucket_start(tdmi_exec *exec, int bucket)
{
    exec->in_flight++;
    if (exec->options.shard >= 2)
        exec_clear_gaps(exec, bucket);
    exec_onebit_start(exec, bucket);
    return tdmi_reducer_start_bucket(exec->reducer, bucket);
}

static tdm_status bucket_wait(tdmi_exec *exec, int bucket)
{
    tdm_status st = tdmi_reducer_wait_bucket(exec->reducer, bucket);
    exec->in_flight--;
    if (st != TDM_OK)
        return st;
    if (exec->fused) {
        exec_offload_left(exec, bucket);
        return exec_gather_start(exec, bucket);
    }
    if (!exec->pieces)
        exec->bucket[bucket].squares = exec_onebit_squares(exec, bucket);
    return TDM_OK;
}

static tdm_status bucket_update(tdmi_exec *exec, int bucket)
{
    if (exec->skip)
        return TDM_OK;
    if (exec->frozen)
        exec_onebit_update(exec, bucket);
    else
        exec_update_slice(exec, bucket);
    exec_offload_left(exec, bucket);
    return exec_gather_start(exec, bucket);
}

static bool interrupted(const tdmi_exec *exec)
{
    return exec->options.interrupt != NULL && atomic_load_explicit(exec->options.interrupt, memory_order_relaxed) != 0;
}

/* Communication advances: between two nodes of computation, and between two tiles of one. */
static void advance(void *arg)
{
    tdmi_exec *exec = arg;
    if (exec->inside != TDM_OK)
        return;
    const int64_t begin = tdmi_now_ns(), updating_ns = exec->updating_ns;
    exec->inside = tdm_reducer_progress(exec->reducer);
    if (exec->inside == TDM_OK)
        exec->inside = exec_gathers_advance(exec);
    if (exec->inside == TDM_OK && exec->gathers > 0)
        exec->inside = exec_late_advance(exec);
    exec->inside_ns += tdmi_now_ns() - begin - (exec->updating_ns - updating_ns);
}

static tdm_status run_compute(tdmi_exec *exec, exec_node *node, int64_t step)
{
    const bool communicates = exec->in_flight + exec->gathers > 0;
    if (communicates)
        tdmi_kernels_set_pause(advance, exec);
    tdmi_kernel_run(node->adds && exec->micro_batch > 0 ? &node->adding : &node->bound, node->in, node->out, exec->workspace);
    if (communicates)
        tdmi_kernels_set_pause(NULL, NULL);
    if (node->op == TDMI_OP_CUSTOM_BACKWARD)
        return exec_own_op_look(exec, node, step);
    return node - exec->node == exec->loss_node ? exec_loss_take(exec, node, step) : TDM_OK;
}

/* Time during which at least one bucket was under way: the union of their intervals, which start in order. */
static int64_t reduction_time(const tdmi_exec *exec)
{
    int64_t sum = 0, end = 0;
    for (int b = 0; b < exec->graph->bucket_count; b++) {
        tdmi_bucket_times t = tdmi_reducer_times(exec->reducer, b);
        int64_t begin = t.started_ns > end ? t.started_ns : end;
        if (t.done_ns > begin) {
            sum += t.done_ns - begin;
            end = t.done_ns;
        }
    }
    return sum;
}

static void trace_buckets(tdmi_exec *exec, int64_t step)
{
    for (int b = 0; b < exec->graph->bucket_count; b++) {
        tdmi_bucket_times t = tdmi_reducer_times(exec->reducer, b);
        tdmi_trace_add(exec->options.trace, exec->bucket[b].name, TDMI_TRACK_COMMUNICATION, t.started_ns, t.done_ns, step,
                       (int64_t)(exec->graph->compressed ? exec->graph->bucket[b].sends : exec->bucket[b].count * sizeof(float)));
    }
}

/* What a step is asked for, and what it has found so far. */
typedef struct step_run {
    int64_t step;
    double lr;
    bool ask_stop, committed;
    tdmi_trace *trace;  /* NULL: not this step */
    tdmi_step_result *out;
    int64_t other_ns; /* collectives beside the buckets */
    int64_t now_ns;   /* when the node before ended */
} step_run;

static tdm_status gather_end(tdmi_exec *exec, const exec_node *node, const step_run *run)
{
    const exec_bucket *b = &exec->bucket[node->bucket];
    const bool ours = b->gathering != NULL || b->gathering_copies != NULL;
    tdm_status st = exec_gather_end(exec, node);
    if (st == TDM_OK && ours && run->trace != NULL)
        tdmi_trace_add(run->trace, b->gather_name, TDMI_TRACK_COMMUNICATION, b->gather_started_ns, tdmi_now_ns(), run->step,
                       (int64_t)(b->count * sizeof(float)));
    return st;
}

static tdm_status run_node(tdmi_exec *exec, exec_node *node, step_run *run)
{
    switch (node->op) {
    case TDMI_OP_DRAW_MASK:
        exec_draw(exec, node);
        return TDM_OK;
    case TDMI_OP_BUCKET_START:
        if (exec->micro_batch + 1 < exec->micro_batches)
            return TDM_OK; /* the gradients of the step's last micro-batch complete the sum */
        if (exec->fused && !run->committed)
            exec_commit_begin(exec, run->step);
        run->committed = true;
        return bucket_start(exec, node->bucket);
    case TDMI_OP_BUCKET_WAIT:
        return bucket_wait(exec, node->bucket);
    case TDMI_OP_VERDICT:
        return exec_verdict(exec, run->lr, run->step, run->ask_stop, run->out);
    case TDMI_OP_UPDATE:
        return bucket_update(exec, node->bucket);
    case TDMI_OP_GATHER_START:
        return exec_gather_begin(exec, node);
    case TDMI_OP_GATHER_WAIT:
        return gather_end(exec, node, run);
    case TDMI_OP_RELEASE:
        return TDM_OK; /* what peers may still read is written over behind a meeting */
    case TDMI_OP_PARAMETERS_READY:
        if (exec->late_count > 0)
            return exec->micro_batch == 0 ? exec_late_ready(exec, node->bucket, run->trace, run->step) : TDM_OK;
        exec_commit_end(exec, run->step); /* this rank's own writes are done; the meeting tells the others */
        return exec_parameters_ready(exec, node->bucket);
    default:
        return run_compute(exec, node, run->step);
    }
}

/* What communication took inside a node or behind it: moving bytes is exposed, updating the reduced slice is the optimizer's. */
static int64_t take_inside(tdmi_exec *exec, step_run *run)
{
    const int64_t spent_ns = exec->inside_ns + exec->updating_ns;
    exec->exposed_ns += exec->inside_ns;
    run->out->optimizer_ns += exec->updating_ns;
    exec->inside_ns = exec->updating_ns = 0;
    return spent_ns;
}

static void account(tdmi_exec *exec, const exec_node *node, int64_t spent_ns, step_run *run)
{
    spent_ns -= take_inside(exec, run);
    switch (node->phase) {
    case TDMI_PHASE_FORWARD:
        run->out->forward_ns += spent_ns;
        break;
    case TDMI_PHASE_BACKWARD:
        run->out->backward_ns += spent_ns;
        break;
    case TDMI_PHASE_OPTIMIZER:
        run->out->optimizer_ns += spent_ns;
        break;
    case TDMI_PHASE_COMMUNICATION:
        exec->exposed_ns += spent_ns;
        if (node->op == TDMI_OP_VERDICT || node->op == TDMI_OP_PARAMETERS_READY || node->op == TDMI_OP_GATHER_WAIT)
            run->other_ns += spent_ns;
        break;
    }
}

static tdm_status begin_step(tdmi_exec *exec, int64_t step, double lr)
{
    for (int b = 0; b < exec->graph->bucket_count; b++)
        exec->bucket[b].squares = 0;
    exec->exposed_ns = exec->inside_ns = exec->updating_ns = 0;
    exec->inside = TDM_OK;
    exec->in_flight = 0;
    exec_loss_begin(exec);
    if (exec->loss_scale != NULL)
        *exec->loss_scale = exec->options.scaler->scale;
    if (exec->fused)
        exec_update_begin(exec, step, lr, (float)exec_short_factor(exec));
    if (exec->pieces)
        tdmi_reducer_set_epilogue(exec->reducer, take_piece, exec);
    tdm_status st = exec_codecs_begin(exec, step);
    return st == TDM_OK ? exec_onebit_begin(exec, step, lr) : st;
}

/* Nodes [first, end). */
static tdm_status walk(tdmi_exec *exec, int first, int end, step_run *run)
{
    for (int n = first; n < end; n++) {
        exec_node *node = &exec->node[n];
        if (interrupted(exec))
            return tdmi_fail(TDM_ERR_INTERRUPTED, "step %lld was interrupted at node %s", (long long)run->step, node->name);
        tdm_status st = run_node(exec, node, run);
        if (st != TDM_OK)
            return st;
        const int64_t start = run->now_ns;
        run->now_ns = tdmi_now_ns();
        account(exec, node, run->now_ns - start, run);
        if (run->trace != NULL)
            tdmi_trace_add(run->trace, node->name,
                           node->has_kernel || node->op == TDMI_OP_UPDATE ? TDMI_TRACK_COMPUTE : TDMI_TRACK_STEP, start,
                           run->now_ns, run->step, -1);
        if (exec->in_flight + exec->gathers > 0 && node->has_kernel) {
            advance(exec);
            if (exec->inside != TDM_OK)
                return exec->inside;
            (void)take_inside(exec, run);
            run->now_ns = tdmi_now_ns();
        }
    }
    return TDM_OK;
}

static tdm_status feed(tdmi_exec *exec, step_run *run)
{
    if (exec->options.feed == NULL)
        return TDM_OK;
    tdm_status st = exec->options.feed(exec->options.feed_arg, exec->micro_batch);
    if (st != TDM_OK) {
        if (exec->options.group != NULL)
            tdm_group_abort(exec->options.group, tdm_error_text());
        return st;
    }
    const int64_t start = run->now_ns;
    run->now_ns = tdmi_now_ns();
    run->out->data_ns += run->now_ns - start;
    if (run->trace != NULL)
        tdmi_trace_add(run->trace, "batch", TDMI_TRACK_DATA, start, run->now_ns, run->step, -1);
    return TDM_OK;
}

/* This rank's own writes are done; what the others need of them is on its way. */
static tdm_status end_late(tdmi_exec *exec, step_run *run)
{
    exec_commit_end(exec, run->step);
    tdm_status st = exec_late_begin(exec);
    const int64_t spent_ns = tdmi_now_ns() - run->now_ns;
    exec->exposed_ns += spent_ns;
    run->other_ns += spent_ns;
    return st;
}

tdm_status tdmi_exec_step(tdmi_exec *exec, int64_t step, int micro_batches, double lr, bool ask_stop, bool traced,
                          tdmi_step_result *out)
{
    step_run run = {.step = step, .lr = lr, .ask_stop = ask_stop, .trace = traced ? exec->options.trace : NULL, .out = out};
    *out = (tdmi_step_result){0};
    if (micro_batches < 1 || micro_batches > exec->graph->micro_batches)
        return tdmi_fail(TDM_ERR_INVALID, "step %lld: %d micro-batches; its graph was made for 1 to %d", (long long)step,
                         micro_batches, exec->graph->micro_batches);
    exec->micro_batches = micro_batches;
    const uint64_t sent = exec_sent(exec);
    run.now_ns = tdmi_now_ns();
    tdm_status st = begin_step(exec, step, lr);
    for (exec->micro_batch = 0; st == TDM_OK; exec->micro_batch++) {
        st = feed(exec, &run);
        if (st == TDM_OK)
            st = walk(exec, 0, exec->body, &run);
        if (exec->micro_batch + 1 == micro_batches)
            break;
    }
    if (st == TDM_OK)
        st = walk(exec, exec->body, exec->graph->node_count, &run);
    if (st == TDM_OK && exec->late_count > 0)
        st = end_late(exec, &run);
    if (st != TDM_OK)
        return st;
    out->sent_nbytes = exec_sent(exec) - sent;
    out->plain_nbytes = exec_plain_bytes(exec);
    out->comm_ns = reduction_time(exec) + run.other_ns;
    out->comm_exposed_ns = exec->exposed_ns;
    if (out->comm_ns < out->comm_exposed_ns)
        out->comm_ns = out->comm_exposed_ns;
    if (run.trace != NULL && exec->size > 1)
        trace_buckets(exec, step);
    return TDM_OK;
}

int exec_body(const tdmi_graph *g)
{
    int body = 0;
    for (int n = 0; n < g->node_count; n++)
        if (g->node[n].phase == TDMI_PHASE_BACKWARD)
            body = n + 1;
    return body;
}

size_t tdmi_exec_step_events(const tdmi_graph *g, int ranks)
{
    const int body = exec_body(g), reductions = ranks > 1 ? g->bucket_count : 0;
    int gathers = 0;
    for (int n = 0; n < body; n++)
        gathers += g->node[n].op == TDMI_OP_GATHER_WAIT;
    int late = 0;
    for (int n = 0; n < body; n++)
        late += g->node[n].op == TDMI_OP_PARAMETERS_READY;
    return (size_t)g->micro_batches * (size_t)(body + gathers + 1) + (size_t)(g->node_count - body + reductions + late);
}

tdm_status tdmi_exec_forward(tdmi_exec *exec, float *loss_out)
{
    tdm_status st = TDM_OK;
    for (int n = 0; n < exec->graph->node_count && exec->node[n].op != TDMI_OP_BUCKET_START; n++) {
        exec_node *node = &exec->node[n];
        if (node->phase == TDMI_PHASE_BACKWARD)
            break;
        if (interrupted(exec))
            return tdmi_fail(TDM_ERR_INTERRUPTED, "interrupted at node %s", node->name);
        if (node->op == TDMI_OP_GATHER_START)
            st = exec_gather_begin(exec, node);
        else if (node->op == TDMI_OP_GATHER_WAIT)
            st = exec_gather_end(exec, node);
        else if (node->has_kernel)
            tdmi_kernel_run(&node->bound, node->in, node->out, exec->workspace);
        if (st != TDM_OK)
            return st;
    }
    if (loss_out != NULL && exec->graph->loss >= 0)
        *loss_out = *(const float *)exec->memory[exec->graph->loss];
    return TDM_OK;
}
