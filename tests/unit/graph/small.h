/* small.h - a graph that has every forward op, small enough to follow by eye. Tests break a copy of it. */
#ifndef TESTS_GRAPH_SMALL_H
#define TESTS_GRAPH_SMALL_H

#include "graph/graph.h"

#include <stdio.h>

enum { SMALL_B = 2, SMALL_T = 4, SMALL_C = 8, SMALL_V = 11, SMALL_P = 6 };

static inline tdmi_id small_parameter(tdmi_graph *g, const char *name, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = {rows, columns};
    return columns > 0 ? tdmi_graph_parameter(g, name, 2, dims, true) : tdmi_graph_parameter(g, name, 1, dims, false);
}

static inline tdmi_id small_linear(tdmi_graph *g, const char *label, tdmi_id x, int64_t in, int64_t out, bool bias)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", label);
    const tdmi_id w = small_parameter(g, name, out, in);
    snprintf(name, sizeof name, "%s.bias", label);
    return tdmi_linear(g, label, x, w, bias ? small_parameter(g, name, out, 0) : -1);
}

/* Embedding, dropout, x + attention(layernorm(x)), x + mlp(x), tied head, loss. */
static inline tdmi_graph *small_graph(float dropout)
{
    tdmi_graph *g = tdmi_graph_create("small");
    const int64_t window[2] = {SMALL_B, SMALL_T};
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, window);
    const tdmi_id targets = tdmi_graph_input(g, "targets", TDM_I32, 2, window);
    const tdmi_id wte = small_parameter(g, "wte", SMALL_V, SMALL_C);
    const tdmi_id wpe = small_parameter(g, "wpe", SMALL_P, SMALL_C);
    tdmi_id x = tdmi_dropout(g, "drop", tdmi_embedding(g, "embedding", tokens, wte, wpe), dropout);

    const tdmi_id w = small_parameter(g, "ln.weight", SMALL_C, 0), b = small_parameter(g, "ln.bias", SMALL_C, 0);
    tdmi_id y = tdmi_layernorm(g, "ln", x, w, b, 1e-5f);
    y = tdmi_attention(g, "attention", small_linear(g, "qkv", y, SMALL_C, 3 * SMALL_C, true), 2);
    x = tdmi_residual(g, "first", x, y);

    y = tdmi_gelu(g, "gelu", small_linear(g, "up", x, SMALL_C, 2 * SMALL_C, true));
    y = small_linear(g, "down", y, 2 * SMALL_C, SMALL_C, false);
    x = tdmi_residual(g, "second", x, tdmi_dropout(g, "drop2", y, dropout));

    (void)tdmi_cross_entropy(g, "loss", tdmi_linear(g, "head", x, wte, -1), targets);
    return g;
}

#endif
