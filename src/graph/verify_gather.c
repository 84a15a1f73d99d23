/* verify_gather.c - walks the list and follows which buckets' parameters are on this node (sharding stage 3 over several).
 *
 *     away -> GATHER_START -> coming -> GATHER_WAIT -> here -> RELEASE -> left -> the next GATHER_WAIT -> away
 *
 * At a GATHER_WAIT the ranks of a node meet. Before it, what this rank has released may still be read by another. */
#include "core/memory.h"
#include "graph/verify.h"

typedef enum { AWAY, COMING, HERE, LEFT } where;

typedef struct gathered {
    where where;
    size_t place, copy_place;
    bool started; /* its reduction: from then on an owner may overwrite its part */
} gathered;

static size_t nbytes_of(const tdmi_graph *g, int bucket)
{
    return g->bucket[bucket].whole ? g->bucket[bucket].count * sizeof(float) : 0;
}

static size_t copy_nbytes_of(const tdmi_graph *g, int bucket)
{
    return g->bucket[bucket].copied ? g->bucket[bucket].count * sizeof(uint16_t) : 0;
}

static bool meet(size_t x, size_t x_nbytes, size_t y, size_t y_nbytes)
{
    return x < y + y_nbytes && y < x + x_nbytes;
}

/* Whether what bucket b has somewhere lies where this bucket would come to. */
static bool in_the_way(const tdmi_graph *g, const gathered *of, int b, const tdmi_attr *a)
{
    const size_t n = nbytes_of(g, a->bucket), m = copy_nbytes_of(g, a->bucket);
    return of[b].where != AWAY &&
           (meet(a->place, n, of[b].place, nbytes_of(g, b)) || meet(a->place, n, of[b].copy_place, copy_nbytes_of(g, b)) ||
            meet(a->copy_place, m, of[b].place, nbytes_of(g, b)) || meet(a->copy_place, m, of[b].copy_place, copy_nbytes_of(g, b)));
}

static tdm_status start(const tdmi_graph *g, gathered *of, int i)
{
    const tdmi_attr *a = &g->node[i].attr;
    gathered *own = &of[a->bucket];
    if (own->where != AWAY)
        return tdmi_verify_fail(g, i, "its parameters are there already, or were until now");
    if (own->started)
        return tdmi_verify_fail(g, i, "it gathers parameters that are being updated");
    if (a->place + nbytes_of(g, a->bucket) > g->parameter_nbytes || a->copy_place + copy_nbytes_of(g, a->bucket) > g->parameter_nbytes ||
        meet(a->place, nbytes_of(g, a->bucket), a->copy_place, copy_nbytes_of(g, a->bucket)))
        return tdmi_verify_fail(g, i, "it ends behind the parameters' slab of %zu bytes", g->parameter_nbytes);
    for (int b = 0; b < g->bucket_count; b++)
        if (in_the_way(g, of, b, a))
            return tdmi_verify_fail(g, i, "it gathers over bucket %d, which %s", b,
                                    of[b].where == LEFT ? "other ranks of the node may still read" : "is in use");
    *own = (gathered){.where = COMING, .place = a->place, .copy_place = a->copy_place};
    return TDM_OK;
}

static tdm_status arrive(const tdmi_graph *g, gathered *of, int i)
{
    gathered *own = &of[g->node[i].attr.bucket];
    if (own->where != COMING || own->place != g->node[i].attr.place || own->copy_place != g->node[i].attr.copy_place)
        return tdmi_verify_fail(g, i, "it waits for parameters that nobody gathers there");
    own->where = HERE;
    for (int b = 0; b < g->bucket_count; b++)
        if (of[b].where == LEFT)
            of[b].where = AWAY;
    return TDM_OK;
}

static tdm_status leave(const tdmi_graph *g, gathered *of, int i)
{
    gathered *own = &of[g->node[i].attr.bucket];
    if (own->where != HERE || own->place != g->node[i].attr.place)
        return tdmi_verify_fail(g, i, "it releases parameters that are not there");
    own->where = LEFT;
    return TDM_OK;
}

static bool is_read(tdmi_role role)
{
    return role == TDMI_ROLE_PARAMETER || role == TDMI_ROLE_COPY;
}

/* All buckets of a parameter, one behind the other. */
static tdm_status read(const tdmi_graph *g, const gathered *of, int i, tdmi_id t)
{
    const bool copy = g->tensor[t].role == TDMI_ROLE_COPY;
    for (int b = g->tensor[t].bucket; b <= tdmi_graph_last_bucket(g, t); b++) {
        if (of[b].where != HERE || !(copy ? g->bucket[b].copied : g->bucket[b].whole))
            return tdmi_verify_fail(g, i, "it reads %s while bucket %d is not gathered", g->tensor[t].name, b);
        if (b > g->tensor[t].bucket && (copy ? of[b].copy_place != of[b - 1].copy_place + copy_nbytes_of(g, b - 1)
                                             : of[b].place != of[b - 1].place + nbytes_of(g, b - 1)))
            return tdmi_verify_fail(g, i, "it reads %s, whose bucket %d does not lie behind bucket %d", g->tensor[t].name, b, b - 1);
    }
    return TDM_OK;
}

static tdm_status visit(const tdmi_graph *g, gathered *of, int i)
{
    const tdmi_node *n = &g->node[i];
    for (int k = 0; k < n->in_count; k++) {
        tdm_status st = n->in[k] >= 0 && is_read(g->tensor[n->in[k]].role) ? read(g, of, i, n->in[k]) : TDM_OK;
        if (st != TDM_OK)
            return st;
    }
    switch (n->op) {
    case TDMI_OP_GATHER_START: return start(g, of, i);
    case TDMI_OP_GATHER_WAIT: return arrive(g, of, i);
    case TDMI_OP_RELEASE: return leave(g, of, i);
    case TDMI_OP_BUCKET_START: of[n->attr.bucket].started = true; return TDM_OK;
    default: return TDM_OK;
    }
}

static bool is_gather(tdmi_op op)
{
    return op == TDMI_OP_GATHER_START || op == TDMI_OP_GATHER_WAIT || op == TDMI_OP_RELEASE;
}

tdm_status tdmi_verify_gathers(const tdmi_graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        const int bucket = g->node[i].attr.bucket;
        if (is_gather(g->node[i].op) && (g->parameter_nbytes == 0 || bucket < 0 || bucket >= g->bucket_count))
            return tdmi_verify_fail(g, i, "there is no bucket %d whose parameters are gathered", bucket);
    }
    if (g->parameter_nbytes == 0)
        return TDM_OK;
    gathered *of = tdmi_calloc((size_t)g->bucket_count, sizeof *of, "verify");
    if (of == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status st = TDM_OK;
    for (int i = 0; i < g->node_count && st == TDM_OK; i++)
        st = visit(g, of, i);
    for (int b = 0; b < g->bucket_count && st == TDM_OK; b++)
        if (of[b].where == COMING || of[b].where == HERE)
            st = tdmi_verify_fail(g, -1, "the gathered parameters of bucket %d are never released", b);
    tdmi_free(of);
    return st;
}
