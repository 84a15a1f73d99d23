/* interpret.c - a graph on plain kernels, and the odd graph. */
#include "interpret.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "kernels/kernel.h"
#include "kernels/plain/element.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A number in [0, 1) that depends on the name and the index. */
static double hashed(const char *name, size_t i)
{
    uint64_t h = 1469598103934665603ull ^ i * 0x9e3779b97f4a7c15ull;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211ull;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull;
    return (double)(h >> 11) * 0x1p-53;
}

/* Bytes in front of a bucket. */
static size_t gradient_at(const tdmi_graph *g, int bucket)
{
    size_t count = 0;
    for (int b = 0; b < bucket; b++)
        count += g->bucket[b].count;
    return count * tdm_dtype_size(g->gradient_type);
}

machine machine_create(tdmi_graph *g)
{
    machine m = {.g = g};
    m.slab = tdmi_aligned_alloc(4096, g->slab_nbytes + 64, "test");
    m.parameters = tdmi_calloc((size_t)g->tensor_count, sizeof *m.parameters, "test");
    m.copies = tdmi_calloc((size_t)g->tensor_count, sizeof *m.copies, "test");
    m.gradients = tdmi_aligned_alloc(64, gradient_at(g, g->bucket_count) + 64, "test");
    for (int t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        const size_t count = tdmi_shape_count(&g->tensor[t].shape);
        m.parameters[t] = tdmi_malloc(count * sizeof(float), "test");
        for (size_t i = 0; i < count; i++)
            m.parameters[t][i] = (float)(hashed(g->tensor[t].name, i) - 0.5);
    }
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *x = &g->tensor[t];
        if (x->role != TDMI_ROLE_COPY)
            continue;
        m.copies[t] = tdmi_malloc(tdmi_shape_nbytes(&x->shape), "test");
        for (size_t i = 0; i < tdmi_shape_count(&x->shape); i++)
            tdmi_set_element(x->shape.dtype, m.copies[t], (int64_t)i, m.parameters[x->parameter][i]);
    }
    return m;
}

void machine_destroy(machine *m)
{
    for (int t = 0; t < m->g->tensor_count; t++) {
        tdmi_free(m->parameters[t]);
        tdmi_free(m->copies[t]);
    }
    tdmi_free(m->parameters);
    tdmi_free(m->copies);
    tdmi_free(m->gradients);
    tdmi_free(m->slab);
}

static void *memory_of(machine *m, tdmi_id t)
{
    const tdmi_tensor *x = &m->g->tensor[t];
    if (x->role == TDMI_ROLE_PARAMETER)
        return m->parameters[t];
    if (x->role == TDMI_ROLE_COPY)
        return m->copies[t];
    return x->role == TDMI_ROLE_GRADIENT
               ? m->gradients + gradient_at(m->g, x->bucket) + x->offset * tdm_dtype_size(m->g->gradient_type)
               : m->slab + x->offset;
}

float *machine_tensor(machine *m, const char *name)
{
    return memory_of(m, tdmi_graph_find(m->g, name));
}

float *machine_gradient(machine *m, tdmi_id parameter)
{
    return memory_of(m, m->g->tensor[parameter].gradient);
}

double machine_gradient_element(machine *m, tdmi_id parameter, size_t i)
{
    return (double)tdmi_element(m->g->gradient_type, memory_of(m, m->g->tensor[parameter].gradient), (int64_t)i);
}

/* Tokens and targets below 5, so that they fit every vocabulary of the tests. */
static void fill_inputs(machine *m)
{
    for (int t = 0; t < m->g->tensor_count; t++)
        for (size_t i = 0; m->g->tensor[t].role == TDMI_ROLE_INPUT && i < tdmi_shape_count(&m->g->tensor[t].shape); i++) {
            if (m->g->tensor[t].shape.dtype == TDM_F32)
                ((float *)memory_of(m, t))[i] = (float)MACHINE_LOSS_SCALE;
            else
                ((int32_t *)memory_of(m, t))[i] = (int32_t)(5 * hashed(m->g->tensor[t].name, i));
        }
}

static void run_node(machine *m, const tdmi_node *n)
{
    const void *in[TDMI_NODE_IN_MAX] = {NULL};
    void *out[TDMI_NODE_OUT_MAX] = {NULL};
    tdmi_kernel_io io = {.op = n->op, .attr = n->attr, .in_count = n->in_count, .out_count = n->out_count};
    for (int k = 0; k < n->in_count; k++) {
        in[k] = n->in[k] >= 0 ? memory_of(m, n->in[k]) : NULL;
        io.in[k] = n->in[k] >= 0 ? m->g->tensor[n->in[k]].shape : (tdmi_shape){.ndim = -1};
    }
    for (int k = 0; k < n->out_count; k++) {
        out[k] = n->out[k] >= 0 ? memory_of(m, n->out[k]) : NULL;
        io.out[k] = n->out[k] >= 0 ? m->g->tensor[n->out[k]].shape : (tdmi_shape){.ndim = -1};
    }
    if (n->op == TDMI_OP_DRAW_MASK) {
        for (size_t i = 0; i < tdmi_shape_count(&io.out[0]); i++)
            ((uint8_t *)out[0])[i] = hashed(n->label, i) >= (double)n->attr.p;
        return;
    }
    tdmi_bound_kernel bound;
    assert_int_equal(tdmi_kernel_bind(&io, TDMI_ISA_PLAIN, &bound), TDM_OK);
    void *workspace = tdmi_aligned_alloc(64, bound.workspace_nbytes + 64, "test");
    tdmi_kernel_run(&bound, in, out, workspace);
    tdmi_free(workspace);
    tdmi_kernel_unbind(&bound);
}

double machine_run(machine *m)
{
    for (size_t i = 0; i < m->g->slab_nbytes / sizeof(float); i++)
        ((float *)(void *)m->slab)[i] = NAN;
    memset(m->gradients, 0xff, gradient_at(m->g, m->g->bucket_count)); /* NaN in every type */
    fill_inputs(m);
    for (int i = 0; i < m->g->node_count; i++)
        if (m->g->node[i].op < TDMI_OP_BUCKET_START)
            run_node(m, &m->g->node[i]);
    return (double)*(float *)memory_of(m, m->g->loss);
}

static tdmi_id parameter(tdmi_graph *g, const char *name, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = {rows, columns};
    return tdmi_graph_parameter(g, name, columns > 0 ? 2 : 1, dims, columns > 0);
}

tdmi_graph *odd_graph(void)
{
    tdmi_graph *g = tdmi_graph_create("odd");
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, (const int64_t[]){2, 3});
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 1, (const int64_t[]){2});
    tdmi_id x = tdmi_embedding(g, "embedding", tokens, parameter(g, "wte", 7, 4), -1);
    x = tdmi_residual(g, "twice", x, x);
    const tdmi_id w = parameter(g, "w", 4, 4), b = parameter(g, "b", 4, 0);
    x = tdmi_residual(g, "around linear", x, tdmi_linear(g, "linear", x, w, b));
    x = tdmi_residual(g, "around gelu", x, tdmi_gelu(g, "gelu", x));
    const tdmi_id left = tdmi_linear(g, "left", x, w, -1), right = tdmi_linear(g, "right", x, w, b);
    const tdmi_id side = tdmi_gelu(g, "side gelu", tdmi_linear(g, "side", left, w, -1));
    x = tdmi_residual(g, "three", tdmi_residual(g, "two", left, right), side);
    const tdmi_id scale = parameter(g, "scale", 4, 0), shift = parameter(g, "shift", 4, 0);
    x = tdmi_residual(g, "around norm", tdmi_layernorm(g, "norm", x, scale, shift, 1e-5f), x);
    x = tdmi_reshape(g, x, 2, (const int64_t[]){2, 12});
    const tdmi_id head = parameter(g, "head", 5, 12);
    const tdmi_id first = tdmi_linear(g, "first", x, head, -1), second = tdmi_linear(g, "second", tdmi_gelu(g, "gelu2", x), head, -1);
    (void)tdmi_cross_entropy(g, "loss", tdmi_residual(g, "logits", first, second), targets);
    return g;
}
