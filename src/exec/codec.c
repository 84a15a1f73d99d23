/* codec.c - buckets and their codecs: told to the reducer, saved and restored, counted. */
#include "exec/internal.h"

#include "core/memory.h"

#include <stdio.h>

static tdmi_piece *new_pieces(const tdmi_graph *g)
{
    return tdmi_malloc((size_t)TDMI_PIECES_MAX(g) * sizeof(tdmi_piece), "executor");
}

static tdm_status register_piece(tdmi_exec *exec, int b, const tdmi_piece *piece)
{
    char name[128];
    int id;
    const char *parameter = exec->graph->tensor[piece->parameter].name;
    if (piece->within > 0)
        snprintf(name, sizeof name, "%s from %zu", parameter, piece->within);
    else
        snprintf(name, sizeof name, "%s", parameter);
    tdm_status st = tdmi_reducer_add_planned(exec->reducer, name, piece->count, b, piece->first, exec->bucket[b].count, &id);
    return st == TDM_OK ? tdm_reducer_set_rows(exec->reducer, id, piece->rows) : st;
}

tdm_status exec_register_buckets(tdmi_exec *exec)
{
    const tdmi_graph *g = exec->graph;
    tdmi_piece *pieces = new_pieces(g);
    tdm_status st = pieces == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    for (int b = 0; b < g->bucket_count && st == TDM_OK; b++) {
        const int count = tdmi_graph_pieces(g, b, pieces);
        for (int i = 0; i < count && st == TDM_OK; i++)
            st = register_piece(exec, b, &pieces[i]);
        if (st == TDM_OK)
            tdmi_reducer_compress_bucket(exec->reducer, b, &g->bucket[b].compress);
        if (g->bucket[b].compress.codec != TDM_CODEC_NONE)
            exec->warmup = g->bucket[b].compress.warmup;
    }
    exec->onebit = exec_has_onebit(g);
    if (st == TDM_OK && exec->onebit && exec->options.offload != NULL)
        st = tdmi_fail(TDM_ERR_UNSUPPORTED, "compression onebit needs the optimizer's state in memory: momentum travels; it is offloaded");
    tdmi_free(pieces);
    return st;
}

bool exec_has_onebit(const tdmi_graph *g)
{
    for (int b = 0; b < g->bucket_count; b++)
        if (g->bucket[b].compress.codec == TDM_CODEC_ONEBIT)
            return true;
    return false;
}

tdm_status exec_codecs_begin(tdmi_exec *exec, int64_t step)
{
    return exec->graph->compressed && exec->size > 1 ? tdm_reducer_set_compress(exec->reducer, step > exec->warmup) : TDM_OK;
}

uint64_t exec_sent(const tdmi_exec *exec)
{
    return exec->sent + (exec->reducer == NULL ? 0 : tdm_reducer_sent(exec->reducer));
}

uint64_t exec_plain_bytes(const tdmi_exec *exec)
{
    uint64_t elements = 0;
    for (int b = 0; b < exec->graph->bucket_count; b++)
        elements += exec->graph->bucket[b].used;
    return 2 * elements * sizeof(float) * (uint64_t)(exec->size - 1) / (uint64_t)exec->size;
}

/* ---- state ---- */

static tdm_status visit_segment(tdmi_exec *exec, int b, const exec_segment *seg, tdmi_exec_codec_visit visit, void *arg)
{
    float *residual = tdmi_reducer_residual(exec->reducer, b);
    if (residual == NULL)
        return TDM_OK;
    tdm_status st = visit(arg, TDMI_CODEC_RESIDUAL, seg->parameter, seg->within, seg->count, residual + seg->first);
    size_t first, count, at;
    float *served = tdmi_reducer_served(exec->reducer, b, &first, &count);
    const size_t n = served == NULL ? 0 : exec_piece(seg, first, count, &at);
    if (st == TDM_OK && n > 0)
        st = visit(arg, TDMI_CODEC_SERVED, seg->parameter, at - seg->first + seg->within, n, served + (at - first));
    return st;
}

static tdm_status visit_bucket(tdmi_exec *exec, int b, tdmi_piece *pieces, tdmi_exec_codec_visit visit, void *arg)
{
    tdm_status st = TDM_OK;
    for (int s = 0; s < exec->bucket[b].segment_count && st == TDM_OK; s++)
        st = visit_segment(exec, b, &exec->bucket[b].segment[s], visit, arg);
    const int count = tdmi_graph_pieces(exec->graph, b, pieces);
    for (int i = 0; i < count && st == TDM_OK; i++) {
        size_t elements = 0;
        float *factor = tdmi_reducer_factor(exec->reducer, b, i, &elements);
        if (factor != NULL)
            st = visit(arg, TDMI_CODEC_FACTOR, pieces[i].parameter, pieces[i].within, elements, factor);
    }
    return st;
}

tdm_status tdmi_exec_visit_codecs(tdmi_exec *exec, tdmi_exec_codec_visit visit, void *arg)
{
    tdmi_piece *pieces = new_pieces(exec->graph);
    tdm_status st = pieces == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    for (int b = 0; exec->graph->compressed && b < exec->graph->bucket_count && st == TDM_OK; b++)
        st = visit_bucket(exec, b, pieces, visit, arg);
    tdmi_free(pieces);
    return st;
}

bool tdmi_exec_owns_state(const tdmi_exec *exec)
{
    if (exec->options.shard > 0 && !exec->graph->compressed)
        return true; /* every slice has one owner */
    return exec->shared ? exec->rank < tdm_group_local_size(exec->options.group) : exec->rank == 0;
}
