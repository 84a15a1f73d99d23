/* verify.h - the parts of tdmi_graph_verify, one file each. */
#ifndef TDMI_GRAPH_VERIFY_H
#define TDMI_GRAPH_VERIFY_H

#include "graph/graph.h"

/* Tensors and nodes one by one: ids, shapes, producers, phases. The other parts rely on it. */
tdm_status tdmi_verify_structure(const tdmi_graph *g);
/* Walks the list as the executor will and follows whose value each piece of memory holds. */
tdm_status tdmi_verify_values(const tdmi_graph *g);
/* Buckets, and the edges across ranks: what must come before a slice is overwritten, and before it is read again. */
tdm_status tdmi_verify_updates(const tdmi_graph *g);

/* Parameters that are gathered: there before they are read, and nothing over them before all ranks of the node have read them. */
tdm_status tdmi_verify_gathers(const tdmi_graph *g);

/* TDM_ERR_INTERNAL "graph gpt2 breaks a rule at node 7 (linear h.0.attn.c_attn): ..."; node -1: of the whole graph. */
tdm_status tdmi_verify_fail(const tdmi_graph *g, int node, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
