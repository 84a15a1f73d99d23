/* bind.c - gives every tensor its memory and every node its kernel: all that allocates or decides happens here. */
#include "exec/internal.h"

#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Zeroed memory in huge pages where the kernel grants them; it is touched here, so lack of it shows now. */
void *exec_page_memory(size_t nbytes, const char *label)
{
    size_t rounded = (nbytes + 4095) & ~(size_t)4095;
    char *memory = tdmi_aligned_alloc(rounded >= HUGE_PAGE ? HUGE_PAGE : 4096, rounded + 64, label);
    if (memory == NULL)
        return NULL;
    if (rounded >= HUGE_PAGE)
        (void)madvise(memory, rounded & ~(HUGE_PAGE - 1), MADV_HUGEPAGE); /* a wish: without it all works, slower */
    memset(memory, 0, rounded);
    return memory;
}

static tdm_status find_parameters_elsewhere(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph, *other = exec->options.parameters_of->graph;
    for (tdmi_id t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        for (tdmi_id o = 0; o < other->tensor_count && exec->memory[t] == NULL; o++)
            if (other->tensor[o].role == TDMI_ROLE_PARAMETER && strcmp(other->tensor[o].name, g->tensor[t].name) == 0 &&
                tdmi_shape_count(&other->tensor[o].shape) == tdmi_shape_count(&g->tensor[t].shape))
                exec->memory[t] = exec->options.parameters_of->memory[o];
        if (exec->memory[t] == NULL)
            return tdmi_fail(TDM_ERR_INTERNAL, "graph %s: parameter %s is not in graph %s", g->name, g->tensor[t].name,
                             other->name);
    }
    return TDM_OK;
}

/* Parameters without buckets: one after the other, they and their copies of 16 bits on cache lines. */
static tdm_status bind_plain_parameters(tdmi_exec *exec, size_t *elements)
{
    const tdmi_graph *g = exec->graph;
    size_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            exec->parameters = exec_page_memory(total * sizeof(float), "parameters");
            if (exec->parameters == NULL)
                return TDM_ERR_NO_MEMORY;
            total = 0;
        }
        for (tdmi_id t = 0; t < g->tensor_count; t++)
            if (g->tensor[t].role == TDMI_ROLE_PARAMETER) {
                if (pass == 1)
                    exec->memory[t] = exec->parameters + total;
                total += (tdmi_shape_count(&g->tensor[t].shape) + 31) & ~(size_t)31;
            }
    }
    *elements = total;
    return TDM_OK;
}

static int by_first(const void *a, const void *b)
{
    size_t x = ((const exec_segment *)a)->first, y = ((const exec_segment *)b)->first;
    return (x > y) - (x < y);
}

/* Its memory, and a segment of each bucket that holds a part of it. */
static void bind_parameter(tdmi_exec *exec, tdmi_id t)
{
    const tdmi_tensor *p = &exec->graph->tensor[t];
    const size_t count = tdmi_shape_count(&p->shape);
    exec->memory[t] = exec->gathered != NULL ? NULL : exec->bucket[p->bucket].part + p->offset;
    size_t first = p->offset, within = 0;
    for (int b = p->bucket; within < count; b++, first = 0) {
        exec_bucket *bucket = &exec->bucket[b];
        const size_t part = bucket->count - first < count - within ? bucket->count - first : count - within;
        bucket->segment[bucket->segment_count++] =
            (exec_segment){.parameter = t, .first = first, .count = part, .within = within, .decay = p->decay, .group = p->group};
        within += part;
    }
}

static tdm_status lay_out_gradients(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    size_t *offset = tdmi_malloc((size_t)g->bucket_count * sizeof *offset, "executor");
    if (offset == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int b = 0; b < g->bucket_count; b++)
        offset[b] = g->bucket[b].offset;
    tdm_status st = tdmi_reducer_lay_out(exec->reducer, offset, g->gradient_nbytes, g->slices_kept);
    tdmi_free(offset);
    return st;
}

static void find_slice(tdmi_exec *exec, int b)
{
    exec_bucket *bucket = &exec->bucket[b];
    tdmi_reducer_slice(exec->reducer, b, &bucket->slice_first, &bucket->slice_count);
    if (exec->graph->compressed && exec->shared) { /* all ranks get whole buckets: those of a node divide them */
        bucket->slice_count = bucket->count / (size_t)tdm_group_local_size(exec->options.group);
        bucket->slice_first = bucket->slice_count * (size_t)tdm_group_local_rank(exec->options.group);
    }
}

/* This rank's slices, and the optimizer's moments of them. */
static tdm_status bind_state(tdmi_exec *exec)
{
    for (int b = 0; b < exec->graph->bucket_count; b++) {
        exec_bucket *bucket = &exec->bucket[b];
        find_slice(exec, b);
        for (int k = 0; k < tdmi_optimizer_moments(&exec->options.optimizer) && exec->options.offload == NULL; k++) {
            const size_t held = exec->onebit ? bucket->count : bucket->slice_count;
            bucket->held[k] = exec_page_memory(held * sizeof(float), "optimizer state");
            if (bucket->held[k] == NULL)
                return TDM_ERR_NO_MEMORY;
            bucket->moment[k] = bucket->held[k] + (exec->onebit ? bucket->slice_first : 0);
        }
    }
    return TDM_OK;
}

static tdm_status bind_buckets(tdmi_exec *exec, size_t *elements)
{
    const tdmi_graph *g = exec->graph;
    const tdmi_exec_options *o = &exec->options;
    exec->bucket = tdmi_calloc((size_t)g->bucket_count, sizeof *exec->bucket, "executor");
    if (exec->bucket == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int b = 0; b < g->bucket_count; b++)
        exec->bucket[b].count = g->bucket[b].count;
    tdm_status st = exec_share(exec);
    if (st == TDM_OK)
        st = exec_bind_gathered(exec);
    if (st == TDM_OK)
        st = exec_place_parameters(exec);
    if (st != TDM_OK)
        return st;
    for (int b = 0; b < g->bucket_count; b++)
        *elements += exec->bucket[b].part_count;

    tdm_reducer_options reduction;
    tdm_reducer_options_init(&reduction);
    reduction.scatter = o->shard > 0 && !g->compressed;
    reduction.dtype = g->gradient_type;
    st = tdm_reducer_create(o->group, &reduction, &exec->reducer);
    if (st != TDM_OK)
        return st;
    for (int b = 0; b < g->bucket_count; b++) {
        exec_bucket *bucket = &exec->bucket[b];
        snprintf(bucket->name, sizeof bucket->name, "bucket %d %s", b,
                 g->bucket[b].compress.codec != TDM_CODEC_NONE ? tdm_codec_name(g->bucket[b].compress.codec)
                 : reduction.scatter                           ? "reduce-scatter"
                                                               : "allreduce");
        snprintf(bucket->gather_name, sizeof bucket->gather_name, "bucket %d gather", b);
        bucket->segment = tdmi_calloc((size_t)g->bucket[b].parameters, sizeof *bucket->segment, "executor");
        if (bucket->segment == NULL)
            return TDM_ERR_NO_MEMORY;
    }
    for (tdmi_id t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER)
            bind_parameter(exec, t);
    for (int b = 0; b < g->bucket_count; b++)
        qsort(exec->bucket[b].segment, (size_t)exec->bucket[b].segment_count, sizeof *exec->bucket[b].segment, by_first);
    st = exec_register_buckets(exec);
    if (st == TDM_OK)
        st = lay_out_gradients(exec);
    if (st == TDM_OK)
        st = tdm_reducer_commit(exec->reducer);
    if (st == TDM_OK)
        st = exec_onebit_bind(exec);
    if (st == TDM_OK)
        st = bind_state(exec);
    if (st != TDM_OK)
        return st;
    for (tdmi_id t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_GRADIENT)
            exec->memory[t] = (char *)tdmi_reducer_bucket_memory(exec->reducer, g->tensor[t].bucket) +
                              g->tensor[t].offset * tdm_dtype_size(g->gradient_type);
    return TDM_OK;
}

static tdm_status bind_activations(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    exec->slab = exec_page_memory(g->slab_nbytes, "activations");
    if (exec->slab == NULL)
        return TDM_ERR_NO_MEMORY;
    for (tdmi_id t = 0; t < g->tensor_count; t++) {
        tdmi_id root = tdmi_graph_root(g, t);
        const tdmi_role role = g->tensor[root].role;
        if (exec->memory[root] == NULL && role != TDMI_ROLE_PARAMETER && role != TDMI_ROLE_COPY)
            exec->memory[root] = exec->slab + g->tensor[root].offset;
        exec->memory[t] = exec->memory[root];
    }
    return TDM_OK;
}

bool exec_is_compute(tdmi_op op)
{
    switch (op) {
    case TDMI_OP_DRAW_MASK:
    case TDMI_OP_BUCKET_START:
    case TDMI_OP_BUCKET_WAIT:
    case TDMI_OP_VERDICT:
    case TDMI_OP_UPDATE:
    case TDMI_OP_PARAMETERS_READY:
    case TDMI_OP_GATHER_START:
    case TDMI_OP_GATHER_WAIT:
    case TDMI_OP_RELEASE:
        return false;
    default:
        return true;
    }
}

static const char *bucket_word(tdmi_op op)
{
    return op == TDMI_OP_BUCKET_START   ? "start"
           : op == TDMI_OP_BUCKET_WAIT  ? "wait"
           : op == TDMI_OP_UPDATE       ? "update"
           : op == TDMI_OP_GATHER_START ? "gather start"
           : op == TDMI_OP_GATHER_WAIT  ? "gather wait"
           : op == TDMI_OP_RELEASE      ? "release"
                                        : "parameters ready";
}

static tdm_status bind_adding(tdmi_exec *exec, const tdmi_node *from, exec_node *to, size_t *workspace)
{
    tdmi_kernel_io io = to->bound.io;
    to->adds = exec_io_adds(exec->graph, from, &io);
    if (!to->adds)
        return TDM_OK;
    tdm_status st = tdmi_kernel_bind(&io, exec->options.isa, &to->adding);
    if (st != TDM_OK) {
        to->adds = false;
        return tdmi_fail_while(st, "preparing node %s for a step of several micro-batches", to->name);
    }
    if (to->adding.workspace_nbytes > *workspace)
        *workspace = to->adding.workspace_nbytes;
    return TDM_OK;
}

tdmi_kernel_io exec_io_of(const tdmi_graph *g, const tdmi_node *node)
{
    static const tdmi_shape absent = {.ndim = -1};
    tdmi_kernel_io io = {.op = node->op, .attr = node->attr, .in_count = node->in_count, .out_count = node->out_count};
    for (int i = 0; i < node->in_count; i++)
        io.in[i] = node->in[i] < 0 ? absent : g->tensor[node->in[i]].shape;
    for (int i = 0; i < node->out_count; i++)
        io.out[i] = node->out[i] < 0 ? absent : g->tensor[node->out[i]].shape;
    return io;
}

/* Gradients are added to then, whatever the graph's order of writers says of the first micro-batch. */
bool exec_io_adds(const tdmi_graph *g, const tdmi_node *node, tdmi_kernel_io *io)
{
    bool adds = false;
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && g->tensor[node->out[i]].role == TDMI_ROLE_GRADIENT) {
            io->attr.accumulate |= 1u << i;
            adds = true;
        }
    return adds;
}

static tdm_status bind_node(tdmi_exec *exec, const tdmi_node *from, exec_node *to, size_t *workspace)
{
    const tdmi_graph *g = exec->graph;
    to->op = from->op;
    to->phase = from->phase;
    to->bucket = from->attr.bucket;
    to->place = from->attr.place;
    to->copy_place = from->attr.copy_place;
    size_t name_nbytes = strlen(from->label) + strlen(tdmi_op_text(from->op)) + EXEC_BUCKET_NAME;
    to->name = tdmi_malloc(name_nbytes, "executor");
    if (to->name == NULL)
        return TDM_ERR_NO_MEMORY;
    if (strcmp(from->label, "bucket") == 0)
        snprintf(to->name, name_nbytes, "bucket %d %s", from->attr.bucket, bucket_word(from->op));
    else
        snprintf(to->name, name_nbytes, "%s%s%s%s", from->label, from->label[0] != '\0' ? " " : "", tdmi_op_text(from->op),
                 from->attr.again ? " again" : "");

    const tdmi_kernel_io io = exec_io_of(g, from);
    for (int i = 0; i < from->in_count; i++)
        to->in[i] = from->in[i] < 0 ? NULL : exec->memory[from->in[i]];
    for (int i = 0; i < from->out_count; i++)
        to->out[i] = from->out[i] < 0 ? NULL : exec->memory[from->out[i]];
    to->bound.io = io;
    if (!exec_is_compute(from->op))
        return TDM_OK;
    tdm_status st = tdmi_kernel_bind(&io, exec->options.isa, &to->bound);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "preparing node %s", to->name);
    to->has_kernel = true;
    if (to->bound.workspace_nbytes > *workspace)
        *workspace = to->bound.workspace_nbytes;
    return g->micro_batches > 1 ? bind_adding(exec, from, to, workspace) : TDM_OK;
}

static tdm_status bind_nodes(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    size_t workspace = 0;
    exec->node = tdmi_calloc((size_t)g->node_count, sizeof *exec->node, "executor");
    if (exec->node == NULL)
        return TDM_ERR_NO_MEMORY;
    exec->fused = true;
    exec->body = exec_body(g);
    exec->loss_node = g->loss < 0 ? -1 : g->tensor[g->loss].producer;
    for (int n = 0; n < g->node_count; n++) {
        tdm_status st = bind_node(exec, &g->node[n], &exec->node[n], &workspace);
        if (st != TDM_OK)
            return st;
        if (g->node[n].op == TDMI_OP_UPDATE)
            exec->fused = false;
        if (g->node[n].op == TDMI_OP_GATHER_WAIT || g->node[n].op == TDMI_OP_RELEASE)
            exec_bind_arrival(exec, &g->node[n]);
    }
    exec_mark_meetings(exec);
    tdm_status st = exec_bind_draws(exec);
    if (st == TDM_OK && g->bucket_count > 0)
        st = exec_bind_late(exec);
    if (st != TDM_OK)
        return st;
    exec->workspace = exec_page_memory(workspace, "workspace of kernels");
    return exec->workspace == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
}

/* The commit words, and the numbers of the verdict. */
static tdm_status bind_words(tdmi_exec *exec)
{
    tdm_group *group = exec->options.group;
    void *memory;
    exec->commit_count = exec->shared ? tdm_group_local_size(group) : 1;
    exec->commit_own = exec->shared ? tdm_group_local_rank(group) : 0;
    size_t nbytes = (size_t)exec->commit_count * sizeof *exec->commit;
    tdm_status st = exec->shared ? tdm_alloc_node(group, nbytes, &memory) : tdm_alloc(group, nbytes, &memory);
    if (st != TDM_OK)
        return st;
    exec->commit = memory;
    st = tdm_alloc(group, VERDICT_COUNT * sizeof *exec->verdict, &memory);
    if (st == TDM_OK)
        exec->verdict = memory;
    return st;
}

tdm_status exec_bind(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    exec->memory = tdmi_calloc((size_t)g->tensor_count, sizeof *exec->memory, "executor");
    if (exec->memory == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status st;
    size_t elements = 0;
    if (exec->options.parameters_of != NULL)
        st = g->parameter_nbytes > 0 ? exec_bind_gathered(exec) : find_parameters_elsewhere(exec);
    else if (g->bucket_count == 0)
        st = bind_plain_parameters(exec, &elements);
    else
        st = bind_buckets(exec, &elements);
    if (st == TDM_OK)
        st = exec_bind_copies(exec, elements);
    if (st == TDM_OK)
        st = bind_activations(exec);
    if (st == TDM_OK)
        st = bind_nodes(exec);
    if (st == TDM_OK && g->bucket_count > 0)
        exec->pieces = exec->options.shard > 0 && !g->compressed &&
                       (exec->fused || tdm_group_local_size(exec->options.group) == exec->size);
    if (st == TDM_OK && exec->bucket != NULL)
        st = bind_words(exec);
    const tdmi_id scale = tdmi_graph_find(g, TDMI_LOSS_SCALE);
    if (st == TDM_OK && scale >= 0) {
        exec->loss_scale = exec->memory[scale];
        if (exec->options.scaler == NULL || exec->fused)
            st = tdmi_fail(TDM_ERR_INTERNAL, "graph %s is in float16: it needs a scaler, and updates that wait for the verdict", g->name);
    }
    if (st == TDM_OK && exec->bucket != NULL && exec->options.offload != NULL)
        st = exec_offload(exec); /* last, as a disk may be full for one rank alone, and what is collective is done */
    return st;
}

void exec_unbind(tdmi_exec *exec)
{
    tdm_group *group = exec->options.group;
    exec_late_drain(exec);
    for (int n = 0; exec->node != NULL && n < exec->graph->node_count; n++) {
        if (exec->node[n].has_kernel)
            tdmi_kernel_unbind(&exec->node[n].bound);
        if (exec->node[n].adds)
            tdmi_kernel_unbind(&exec->node[n].adding);
        tdmi_free(exec->node[n].name);
    }
    for (int b = 0; exec->bucket != NULL && b < exec->graph->bucket_count; b++) {
        for (int k = 0; k < TDMI_MOMENTS_MAX; k++)
            tdmi_free(exec->bucket[b].held[k]);
        tdmi_free(exec->bucket[b].segment);
    }
    tdm_reducer_destroy(exec->reducer);
    exec_offload_end(exec);
    exec_unbind_gathered(exec);
    exec_unshare(exec);
    if (exec->bucket != NULL) {
        tdm_free(group, exec->parameters);
        tdm_free(group, exec->copies);
        tdm_free(group, (void *)exec->commit);
        tdm_free(group, exec->verdict);
    } else {
        tdmi_free(exec->parameters);
        tdmi_free(exec->copies);
    }
    tdmi_free(exec->bucket);
    tdmi_free(exec->node);
    tdmi_free(exec->slab);
    tdmi_free(exec->workspace);
    tdmi_free(exec->draw_copies);
    tdmi_free(exec->memory);
}
