/* print.c - a graph as text: a head, then one line a node. */
#include "core/memory.h"
#include "graph/graph.h"
#include "graph/text.h"

#include <stdio.h>
#include <stdlib.h>

const char *tdmi_shape_text(const tdmi_shape *shape, char *text)
{
    const int ndim = shape->ndim < 0 ? 0 : shape->ndim > TDMI_DIMS_MAX ? TDMI_DIMS_MAX : shape->ndim;
    size_t used = (size_t)snprintf(text, TDMI_SHAPE_TEXT_MAX, "%s[", tdm_dtype_name(shape->dtype));
    for (int i = 0; i < ndim; i++)
        used += (size_t)snprintf(text + used, TDMI_SHAPE_TEXT_MAX - used, "%s%lld", i > 0 ? "," : "",
                                 (long long)shape->dims[i]);
    snprintf(text + used, TDMI_SHAPE_TEXT_MAX - used, "]");
    return text;
}

const char *tdmi_role_text(tdmi_role role)
{
    static const char *const names[] = {"input", "parameter", "copy", "activation", "gradient", "output"};
    return (unsigned)role < sizeof names / sizeof names[0] ? names[role] : "unknown";
}

const char *tdmi_phase_text(tdmi_phase phase)
{
    static const char *const names[] = {"forward", "backward", "communication", "optimizer"};
    return (unsigned)phase < sizeof names / sizeof names[0] ? names[phase] : "unknown";
}

/* " dy=d.h.0.mlp float32[4,64,768]@4096": operand, tensor, shape, and where it lies; "~" marks memory shared with an
 * earlier tensor, "+" an output that is added to. */
static void print_operand(FILE *out, const tdmi_graph *g, const char *operand, tdmi_id id, bool added)
{
    char shape[TDMI_SHAPE_TEXT_MAX];
    const tdmi_tensor *t = &g->tensor[id];
    fprintf(out, " %s%s=%s%s %s", operand, added ? "+" : "", t->alias >= 0 ? "~" : "", t->name,
            tdmi_shape_text(&t->shape, shape));
    if (t->bucket >= 0)
        fprintf(out, "@b%d+%zu", t->bucket, t->offset);
    else if (g->slab_nbytes > 0 && t->role != TDMI_ROLE_PARAMETER && t->role != TDMI_ROLE_COPY && t->role != TDMI_ROLE_GRADIENT)
        fprintf(out, "@%zu", t->offset);
}

static void print_node(FILE *out, const tdmi_graph *g, int i)
{
    const tdmi_node *n = &g->node[i];
    fprintf(out, "%4d %-13s %-22s %s", i, tdmi_phase_text(n->phase), tdmi_op_text(n->op), n->label);
    if (n->attr.bucket >= 0)
        fprintf(out, " bucket %d", n->attr.bucket);
    if (n->attr.again)
        fprintf(out, " again");
    if (n->op == TDMI_OP_DRAW_MASK)
        fprintf(out, " p %g draw %llu", (double)n->attr.p, (unsigned long long)n->attr.counter);
    for (int k = 0; k < n->in_count; k++)
        if (n->in[k] >= 0)
            print_operand(out, g, tdmi_op_in_name(n->op, k), n->in[k], false);
    if (n->out_count > 0)
        fprintf(out, " ->");
    for (int k = 0; k < n->out_count; k++)
        if (n->out[k] >= 0)
            print_operand(out, g, tdmi_op_out_name(n->op, k), n->out[k], (n->attr.accumulate >> k & 1u) != 0);
    fputc('\n', out);
}

static void print_bucket(FILE *out, const tdmi_bucket *b, int number)
{
    fprintf(out, "bucket %d: %d parameters, %zu elements, padded to %zu%s", number, b->parameters, b->used, b->count,
            b->joined ? ", goes on in the last parameter of the one before" : "");
    if (b->compress.codec != TDM_CODEC_NONE)
        fprintf(out, ", %s: a rank sends %zu bytes", tdm_codec_name(b->compress.codec), b->sends);
    fputc('\n', out);
}

char *tdmi_graph_print(const tdmi_graph *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        (void)tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the text of graph %s", g->name);
        return NULL;
    }
    fprintf(out, "graph %s: %d nodes, %zu parameters, %d buckets, slab %zu bytes\n", g->name, g->node_count,
            tdmi_graph_parameter_count(g), g->bucket_count, g->slab_nbytes);
    if (g->micro_batches > 1)
        fprintf(out, "%d micro-batches a step: nodes up to the last backward one run once in each\n", g->micro_batches);
    for (int b = 0; b < g->bucket_count; b++)
        print_bucket(out, &g->bucket[b], b);
    for (int i = 0; i < g->node_count; i++)
        print_node(out, g, i);
    const bool complete = fclose(out) == 0;
    char *copy = complete ? tdmi_strdup(text, "graph text") : NULL;
    free(text);
    return copy;
}
