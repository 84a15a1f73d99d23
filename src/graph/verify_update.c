/* verify_update.c - buckets, and the order of a training step across ranks.
 *
 * The owner of a slice overwrites parameters that its peers on the node read. So: a bucket starts after the last gradient is
 * in it and after this rank's last reader of its parameters; it is updated after it is reduced (and after the verdict of all
 * ranks); and nobody reads its parameters again before all ranks see the new ones. */
#include "core/memory.h"
#include "graph/verify.h"

/* Where a bucket's nodes stand; -1: nowhere. */
typedef struct bucket_nodes {
    int first_write, last_write, first_read, last_read; /* of its gradients; of its parameters */
    int start, wait, update, ready;
} bucket_nodes;

typedef struct step_nodes {
    bucket_nodes *of;
    int verdict, end_of_step; /* end_of_step: the first BUCKET_WAIT, VERDICT, UPDATE or PARAMETERS_READY */
    int updates;
} step_nodes;

static bool has_backward(const tdmi_graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].phase == TDMI_PHASE_BACKWARD)
            return true;
    return false;
}

/* Elements from the start of bucket 0, as if all memory followed. */
static size_t flat(const tdmi_graph *g, tdmi_id t)
{
    size_t at = g->tensor[t].offset;
    for (int b = 0; b < g->tensor[t].bucket; b++)
        at += g->bucket[b].count;
    return at;
}

static tdm_status check_place(const tdmi_graph *g, tdmi_id t)
{
    const tdmi_tensor *p = &g->tensor[t];
    const size_t count = tdmi_shape_count(&p->shape), begin = flat(g, t);
    size_t room = g->bucket[p->bucket].count;
    if (p->offset > room)
        return tdmi_verify_fail(g, -1, "parameter %s ends behind bucket %d", p->name, p->bucket);
    for (int b = p->bucket + 1; p->offset + count > room && b < g->bucket_count && g->bucket[b].joined; b++)
        room += g->bucket[b].count;
    if (p->offset + count > room)
        return tdmi_verify_fail(g, -1, "parameter %s ends behind bucket %d", p->name, p->bucket);
    for (int u = 0; u < t; u++)
        if (g->tensor[u].role == TDMI_ROLE_PARAMETER && flat(g, u) < begin + count &&
            begin < flat(g, u) + tdmi_shape_count(&g->tensor[u].shape))
            return tdmi_verify_fail(g, -1, "parameters %s and %s lie on each other in bucket %d", g->tensor[u].name, p->name,
                                    p->bucket);
    return TDM_OK;
}

/* Each parameter lies in one bucket, or begins in it and fills it and others that are joined to it; at its gradient's place,
 * over nobody else. */
static tdm_status check_layout(const tdmi_graph *g)
{
    size_t used = 0;
    for (int b = 0; b < g->bucket_count; b++)
        used += g->bucket[b].used;
    if (used != tdmi_graph_parameter_count(g))
        return tdmi_verify_fail(g, -1, "the buckets hold %zu elements, the parameters have %zu", used,
                                tdmi_graph_parameter_count(g));
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_tensor *p = &g->tensor[t];
        if ((p->role == TDMI_ROLE_GRADIENT || p->role == TDMI_ROLE_COPY) &&
            (p->bucket != g->tensor[p->parameter].bucket || p->offset != g->tensor[p->parameter].offset))
            return tdmi_verify_fail(g, -1, "%s does not lie where its parameter does", p->name);
        if (p->role != TDMI_ROLE_PARAMETER)
            continue;
        if (p->bucket < 0 || p->bucket >= g->bucket_count)
            return tdmi_verify_fail(g, -1, "parameter %s is in no bucket", p->name);
        tdm_status st = check_place(g, t);
        if (st != TDM_OK)
            return st;
    }
    return TDM_OK;
}

/* Notes node i as the bucket's only one of its kind. */
static tdm_status note(const tdmi_graph *g, int i, int *where)
{
    if (*where >= 0)
        return tdmi_verify_fail(g, i, "the bucket has one already, node %d", *where);
    *where = i;
    return TDM_OK;
}

static tdm_status find_step_node(const tdmi_graph *g, int i, step_nodes *s)
{
    const tdmi_node *n = &g->node[i];
    if (n->op < TDMI_OP_BUCKET_START || n->op > TDMI_OP_PARAMETERS_READY)
        return TDM_OK;
    if (n->op != TDMI_OP_BUCKET_START && s->end_of_step < 0)
        s->end_of_step = i;
    if (n->op == TDMI_OP_VERDICT)
        return s->verdict < 0 ? (s->verdict = i, TDM_OK) : tdmi_verify_fail(g, i, "a step has one verdict, node %d", s->verdict);
    if (n->attr.bucket < 0 || n->attr.bucket >= g->bucket_count)
        return tdmi_verify_fail(g, i, "bucket %d of %d", n->attr.bucket, g->bucket_count);
    bucket_nodes *b = &s->of[n->attr.bucket];
    s->updates += n->op == TDMI_OP_UPDATE;
    return note(g, i, n->op == TDMI_OP_BUCKET_START  ? &b->start
                      : n->op == TDMI_OP_BUCKET_WAIT ? &b->wait
                      : n->op == TDMI_OP_UPDATE      ? &b->update
                                                     : &b->ready);
}

static void note_write(bucket_nodes *b, int i)
{
    b->first_write = b->first_write < 0 ? i : b->first_write;
    b->last_write = i;
}

static void note_read(bucket_nodes *b, int i)
{
    b->first_read = b->first_read < 0 ? i : b->first_read;
    b->last_read = i;
}

static tdm_status find_step_nodes(const tdmi_graph *g, step_nodes *s)
{
    for (int i = 0; i < g->node_count; i++) {
        tdm_status st = find_step_node(g, i, s);
        if (st != TDM_OK)
            return st;
        const tdmi_node *n = &g->node[i];
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0 && (g->tensor[n->in[k]].role == TDMI_ROLE_PARAMETER || g->tensor[n->in[k]].role == TDMI_ROLE_COPY))
                for (int b = g->tensor[n->in[k]].bucket; b <= tdmi_graph_last_bucket(g, n->in[k]); b++)
                    note_read(&s->of[b], i);
        for (int k = 0; k < n->out_count; k++)
            if (n->out[k] >= 0 && g->tensor[n->out[k]].role == TDMI_ROLE_GRADIENT)
                for (int b = g->tensor[n->out[k]].bucket; b <= tdmi_graph_last_bucket(g, n->out[k]); b++)
                    note_write(&s->of[b], i);
    }
    return TDM_OK;
}

static tdm_status check_start(const tdmi_graph *g, const step_nodes *s, int b)
{
    const bucket_nodes *at = &s->of[b];
    if (at->start < 0)
        return tdmi_verify_fail(g, -1, "bucket %d is never started", b);
    if (b > 0 && at->start < s->of[b - 1].start)
        return tdmi_verify_fail(g, at->start, "it starts before bucket %d", b - 1);
    if (at->start < at->last_write)
        return tdmi_verify_fail(g, at->start, "it starts before node %d (%s %s) has written a gradient of it", at->last_write,
                                tdmi_op_text(g->node[at->last_write].op), g->node[at->last_write].label);
    if (at->start < at->last_read)
        return tdmi_verify_fail(g, at->start, "it starts before node %d (%s %s) has read a parameter of it", at->last_read,
                                tdmi_op_text(g->node[at->last_read].op), g->node[at->last_read].label);
    return TDM_OK;
}

/* Without any UPDATE node the update is part of the reduction, so it happens between START and WAIT. */
static tdm_status check_update(const tdmi_graph *g, const step_nodes *s, int b)
{
    const bucket_nodes *at = &s->of[b];
    if (at->wait < 0 || at->ready < 0)
        return tdmi_verify_fail(g, -1, "bucket %d is never %s", b, at->wait < 0 ? "waited for" : "made ready for its readers");
    if (at->wait < at->start)
        return tdmi_verify_fail(g, at->wait, "it waits for a bucket that starts at node %d", at->start);
    if (s->verdict < 0 || s->verdict < at->wait)
        return tdmi_verify_fail(g, s->verdict, "the verdict must know bucket %d, reduced at node %d", b, at->wait);
    if (s->updates > 0 && at->update < 0)
        return tdmi_verify_fail(g, -1, "bucket %d is never updated", b);
    if (at->update >= 0 && at->update < s->verdict)
        return tdmi_verify_fail(g, at->update, "it updates before the verdict at node %d", s->verdict);
    if (at->ready < at->start && at->first_read >= 0) /* of the step before */
        return at->ready < at->first_read ? TDM_OK
                                          : tdmi_verify_fail(g, at->ready, "node %d (%s %s) reads a parameter of it before",
                                                             at->first_read, tdmi_op_text(g->node[at->first_read].op),
                                                             g->node[at->first_read].label);
    if (at->ready < at->update || at->ready < at->wait)
        return tdmi_verify_fail(g, at->ready, "its parameters are not new before node %d",
                                at->update > at->wait ? at->update : at->wait);
    return TDM_OK;
}

/* The node after which nobody needs the gradients of a bucket where they are. */
static int end_of_gradients(const tdmi_graph *g, const bucket_nodes *at)
{
    return at->update >= 0 && !g->slices_kept ? at->update : at->wait;
}

static size_t end_of(const tdmi_graph *g, const tdmi_bucket *b)
{
    return b->offset + b->count * tdm_dtype_size(g->gradient_type);
}

/* Buckets in one piece of memory follow each other. */
static tdm_status check_gradient_memory(const tdmi_graph *g, const step_nodes *s, int b)
{
    const tdmi_bucket *x = &g->bucket[b];
    if (end_of(g, x) > g->gradient_nbytes)
        return tdmi_verify_fail(g, -1, "bucket %d ends behind the gradients' slab of %zu bytes", b, g->gradient_nbytes);
    if (x->joined && x->offset != end_of(g, &x[-1]))
        return tdmi_verify_fail(g, -1, "bucket %d does not follow bucket %d, which holds the beginning of a parameter", b, b - 1);
    for (int c = 0; c < g->bucket_count; c++) {
        const tdmi_bucket *y = &g->bucket[c];
        if (c == b || x->offset >= end_of(g, y) || y->offset >= end_of(g, x))
            continue;
        const int begin = s->of[c].first_write, end = end_of_gradients(g, &s->of[b]);
        if (s->of[b].first_write <= begin && begin < end)
            return tdmi_verify_fail(g, begin, "it writes gradients of bucket %d over bucket %d, which is needed until node %d", c, b,
                                    end);
    }
    return TDM_OK;
}

static tdm_status check_order(const tdmi_graph *g, step_nodes *s)
{
    for (int b = 0; b < g->bucket_count; b++)
        s->of[b] = (bucket_nodes){-1, -1, -1, -1, -1, -1, -1, -1};
    tdm_status st = find_step_nodes(g, s);
    for (int b = 0; b < g->bucket_count && st == TDM_OK; b++) {
        st = check_start(g, s, b);
        if (st == TDM_OK && s->end_of_step >= 0)
            st = check_update(g, s, b);
        if (st == TDM_OK && s->end_of_step >= 0 && g->gradient_nbytes > 0)
            st = check_gradient_memory(g, s, b);
    }
    return st;
}

/* From the second micro-batch on every gradient is added to. */
static tdm_status check_micro_batches(const tdmi_graph *g)
{
    if (g->micro_batches < 1)
        return tdmi_verify_fail(g, -1, "a step has %d micro-batches", g->micro_batches);
    for (int i = 0; i < g->node_count && g->micro_batches > 1; i++)
        for (int k = 0; k < g->node[i].out_count; k++) {
            const tdmi_id t = g->node[i].out[k];
            if (t >= 0 && g->tensor[t].role == TDMI_ROLE_GRADIENT && (tdmi_op_info_of(g->node[i].op)->accumulates >> k & 1u) == 0)
                return tdmi_verify_fail(g, i, "it cannot add to %s, as a step of %d micro-batches must", g->tensor[t].name,
                                        g->micro_batches);
        }
    return TDM_OK;
}

tdm_status tdmi_verify_updates(const tdmi_graph *g)
{
    tdm_status st = check_micro_batches(g);
    if (st != TDM_OK)
        return st;
    for (int t = 0; t < g->tensor_count && has_backward(g); t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER && g->tensor[t].gradient < 0)
            return tdmi_verify_fail(g, -1, "parameter %s has no gradient", g->tensor[t].name);
    if (g->bucket_count == 0) {
        for (int i = 0; i < g->node_count; i++)
            if (g->node[i].op >= TDMI_OP_BUCKET_START)
                return tdmi_verify_fail(g, i, "there are no buckets");
        return TDM_OK;
    }
    st = check_layout(g);
    if (st != TDM_OK || !has_backward(g))
        return st;
    step_nodes s = {.verdict = -1, .end_of_step = -1};
    s.of = tdmi_calloc((size_t)g->bucket_count, sizeof *s.of, "verify");
    if (s.of == NULL)
        return TDM_ERR_NO_MEMORY;
    st = check_order(g, &s);
    tdmi_free(s.of);
    return st;
}
