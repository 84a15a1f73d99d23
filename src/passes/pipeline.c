/* pipeline.c - the order of the passes. verify runs after each, so a broken rule names the pass that broke it. */
#include "passes/passes.h"

#include "core/log.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>

static tdm_status autodiff(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    (void)options;
    return tdmi_pass_autodiff(g);
}

static tdm_status inplace(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    (void)options;
    return tdmi_pass_inplace(g);
}

static tdm_status place(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    (void)options;
    return tdmi_pass_place(g);
}

typedef struct pass {
    const char *name;
    bool train_only;
    tdm_status (*run)(tdmi_graph *g, const tdmi_pipeline_options *options);
} pass;

static const pass passes[] = {
    {"accumulate", true, tdmi_pass_accumulate},
    {"amp", false, tdmi_pass_amp},
    {"autodiff", true, autodiff},
    {"remat", true, tdmi_pass_remat},
    {"fuse", true, tdmi_pass_fuse},
    {"inplace", false, inplace},
    {"bucket", true, tdmi_pass_bucket},
    {"compress", true, tdmi_pass_compress},
    {"shard", true, tdmi_pass_shard},
    {"schedule", true, tdmi_pass_schedule},
    {"gather", false, tdmi_pass_gather},
    {"place", false, place},
};

static int shared_tensors(const tdmi_graph *g)
{
    int count = 0;
    for (int t = 0; t < g->tensor_count; t++)
        count += g->tensor[t].alias >= 0;
    return count;
}

/* `out`: a line a pass, or NULL. */
static tdm_status run(tdmi_graph *g, const tdmi_pipeline_options *options, FILE *out)
{
    tdm_status st = tdmi_graph_verify(g);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "looking at the model's graph before any pass");
    if (out != NULL)
        fprintf(out, "%-10s %5d nodes, %d tensors, %zu parameters\n", "model", g->node_count, g->tensor_count,
                tdmi_graph_parameter_count(g));
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        if (passes[i].train_only && !options->train)
            continue;
        st = passes[i].run(g, options);
        if (st == TDM_OK)
            st = tdmi_graph_verify(g);
        if (st != TDM_OK)
            return tdmi_fail_while(st, "running pass %s", passes[i].name);
        if (out != NULL)
            fprintf(out, "%-10s %5d nodes, %d tensors, %d in memory of another, %d buckets, slab %zu bytes\n", passes[i].name,
                    g->node_count, g->tensor_count, shared_tensors(g), g->bucket_count, g->slab_nbytes);
    }
    log_debug(TDM_LOG_GRAPH, "graph %s: %d nodes, %d buckets, slab %zu bytes", g->name, g->node_count, g->bucket_count,
              g->slab_nbytes);
    return TDM_OK;
}

tdm_status tdmi_pipeline_behind_remat(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    const size_t count = sizeof passes / sizeof passes[0];
    size_t i = 0;
    while (passes[i].run != tdmi_pass_remat)
        i++;
    tdm_status st = TDM_OK;
    for (i++; i < count && st == TDM_OK; i++)
        st = passes[i].run(g, options);
    return st;
}

tdm_status tdmi_pipeline_run(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    return run(g, options, NULL);
}

char *tdmi_pipeline_explain(const tdmi_graph *g, const tdmi_pipeline_options *options)
{
    char *text = NULL, *result = NULL;
    size_t size = 0;
    tdmi_graph *copy = tdmi_graph_copy(g);
    FILE *out = copy != NULL ? open_memstream(&text, &size) : NULL;
    if (out != NULL) {
        tdm_status st = run(copy, options, out);
        char *nodes = st == TDM_OK ? tdmi_graph_print(copy) : NULL;
        char *memory = nodes != NULL ? tdmi_place_report(copy) : NULL;
        if (memory != NULL)
            fprintf(out, "\n%s\n%s", nodes, memory);
        const bool complete = fclose(out) == 0 && memory != NULL;
        result = complete ? tdmi_strdup(text, "explanation") : NULL;
        tdmi_free(memory);
        tdmi_free(nodes);
        free(text);
    }
    tdmi_graph_destroy(copy);
    return result;
}
