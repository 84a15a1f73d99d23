/* copies.c - of matrices in the 16-bit type that products read: one array beside the parameters, element for element, shared by
 * the ranks of a node as they are. Whoever writes parameters writes the copy: the update a tile at a time while it is in the
 * first cache, everything else by exec_copy_range.
 *
 *     parameters  | wte | ln_1.weight | attn.weight | ...   float32
 *     copies      | wte |      -      | attn.weight | ...   bfloat16 or float16 */
#include "exec/internal.h"

#include "core/memory.h"

#include <tandem/compress.h>

#include <string.h>

static tdm_status find_elsewhere(tdmi_exec *exec, tdmi_id copy)
{
    const tdmi_exec *from = exec->options.parameters_of;
    const tdmi_tensor *t = &exec->graph->tensor[copy];
    const tdmi_id other = tdmi_graph_find(from->graph, t->name);
    if (other < 0 || from->graph->tensor[other].role != TDMI_ROLE_COPY || from->graph->tensor[other].shape.dtype != t->shape.dtype)
        return tdmi_fail(TDM_ERR_INTERNAL, "graph %s: the copy %s is not in graph %s", exec->graph->name, t->name, from->graph->name);
    exec->memory[copy] = from->memory[other];
    return TDM_OK;
}

static tdm_status make(tdmi_exec *exec, size_t elements)
{
    const size_t nbytes = elements * sizeof(uint16_t);
    void *memory;
    tdm_status st;
    if (exec->graph->bucket_count == 0)
        return (exec->copies = exec_page_memory(nbytes, "copies of parameters")) == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    st = exec->shared ? tdm_alloc_node(exec->options.group, nbytes, &memory) : tdm_alloc(exec->options.group, nbytes, &memory);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "placing the copies of %zu parameters", elements);
    exec->copies = memory;
    return TDM_OK;
}

tdm_status exec_bind_copies(tdmi_exec *exec, size_t elements)
{
    const tdmi_graph *g = exec->graph;
    tdm_status st = TDM_OK;
    for (tdmi_id t = 0; t < g->tensor_count && st == TDM_OK; t++) {
        const tdmi_tensor *copy = &g->tensor[t];
        if (copy->role != TDMI_ROLE_COPY)
            continue;
        if (exec->options.parameters_of != NULL && exec->gathered != NULL)
            continue; /* it comes with its bucket */
        if (exec->options.parameters_of != NULL) {
            st = find_elsewhere(exec, t);
            continue;
        }
        if (exec->copies == NULL)
            st = make(exec, elements);
        if (st != TDM_OK)
            break;
        exec->copy_type = copy->shape.dtype;
        exec->memory[t] = exec->gathered != NULL ? NULL : exec->copies + ((float *)exec->memory[copy->parameter] - exec->parameters);
        for (int b = copy->bucket; b >= 0 && b <= tdmi_graph_last_bucket(g, copy->parameter); b++)
            for (int s = 0; s < exec->bucket[b].segment_count; s++)
                if (exec->bucket[b].segment[s].parameter == copy->parameter)
                    exec->bucket[b].segment[s].copied = true;
    }
    return st;
}

static void narrow(tdmi_exec *exec, const float *from, size_t count)
{
    tdm_status st = tdm_cast_compress(exec->copy_type, from, NULL, exec->copies + (from - exec->parameters), count);
    if (st != TDM_OK && exec->inside == TDM_OK)
        exec->inside = st;
}

void exec_copy_range(tdmi_exec *exec, int b, size_t first, size_t count)
{
    const exec_bucket *bucket = &exec->bucket[b];
    for (int s = 0; exec->copies != NULL && s < bucket->segment_count; s++) {
        size_t at, n = exec_piece(&bucket->segment[s], first, count, &at);
        if (n > 0 && bucket->segment[s].copied)
            narrow(exec, bucket->part + (at - bucket->part_first), n);
    }
}

void exec_copy_own_share(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    if (exec->copies == NULL)
        return;
    if (g->bucket_count == 0) {
        for (tdmi_id t = 0; t < g->tensor_count; t++)
            if (g->tensor[t].role == TDMI_ROLE_COPY)
                narrow(exec, exec->memory[g->tensor[t].parameter], tdmi_shape_count(&g->tensor[t].shape));
        return;
    }
    const size_t ranks = exec->shared ? (size_t)tdm_group_local_size(exec->options.group) : 1;
    const size_t own = exec->shared ? (size_t)tdm_group_local_rank(exec->options.group) : 0;
    for (int b = 0; b < g->bucket_count; b++) {
        const size_t count = exec->bucket[b].part_count, from = count / ranks * own;
        exec_copy_range(exec, b, exec->bucket[b].part_first + from, own + 1 == ranks ? count - from : count / ranks);
    }
}
