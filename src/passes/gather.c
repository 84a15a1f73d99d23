/* gather.c - sharding stage 3 over several nodes: each node keeps a part of the parameters, and the whole of a unit (a block of
 * the model) is there only while nodes read it.
 *
 *     rounds         | embedding | h.0 | h.1 | head, loss and back | h.1 | h.0 |        prefetch 1
 *     rest           |###########|     |   ..|#####################|     |     |        .. gathered, # in use
 *     h.0            |         ..|#####|     |                     |   ..|#####|
 *     h.1            |           |   ..|#####|                   ..|#####|     |
 *
 * A round begins where a unit is read that is not there; then what comes `prefetch` rounds later starts to come. A unit stays
 * where it would be asked for again while it is here. The wait at the beginning of a round is where the ranks of a node meet:
 * behind it, memory of what they have released is free for the next.
 * Cost    parts of the parameters travel twice a step besides the gradients; a wait a round
 * Saves   parameters: 1 / nodes of them, and the units in flight, instead of all
 * Source  Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, arXiv 2304.11277 */
#include "core/memory.h"
#include "passes/fit.h"
#include "passes/passes.h"

#include <string.h>

/* A unit's parameters are here from before node `first` to behind node `last`. */
typedef struct stay {
    int unit, first, last;
    int begin; /* the node before which they start to come; -1: with the step */
    int round;
    size_t offset;
} stay;

typedef struct unit {
    int first, end; /* buckets */
    size_t nbytes;
    int stay;       /* its newest, or -1 */
    int round;      /* of its newest reader */
    bool here;
} unit;

typedef struct plan {
    tdmi_graph *g;
    int prefetch;
    unit *unit;
    stay *stay;
    int units, stays, rounds;
} plan;

static size_t whole_nbytes(const tdmi_graph *g, int b)
{
    return g->bucket[b].whole ? g->bucket[b].count * sizeof(float) : 0;
}

static size_t copy_nbytes(const tdmi_graph *g, int b)
{
    return g->bucket[b].copied ? g->bucket[b].count * sizeof(uint16_t) : 0;
}

/* What this graph's nodes read. */
static void mark_read(tdmi_graph *g)
{
    for (int b = 0; b < g->bucket_count; b++)
        g->bucket[b].whole = g->bucket[b].copied = false;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].in_count; k++) {
            const tdmi_id t = g->node[i].in[k];
            const tdmi_role role = t >= 0 ? g->tensor[t].role : TDMI_ROLE_INPUT;
            if (role != TDMI_ROLE_PARAMETER && role != TDMI_ROLE_COPY)
                continue;
            for (int b = g->tensor[t].bucket; b <= tdmi_graph_last_bucket(g, t); b++)
                *(role == TDMI_ROLE_COPY ? &g->bucket[b].copied : &g->bucket[b].whole) = true;
        }
}

static void list_units(plan *p)
{
    for (int b = 0; b < p->g->bucket_count; b++) {
        if (b == 0 || p->g->bucket[b].unit != p->g->bucket[b - 1].unit)
            p->unit[p->units++] = (unit){.first = b, .stay = -1, .round = -1};
        p->unit[p->units - 1].end = b + 1;
        p->unit[p->units - 1].nbytes += whole_nbytes(p->g, b) + copy_nbytes(p->g, b);
    }
}

static unit *unit_read(plan *p, const tdmi_node *n, int k)
{
    const tdmi_id t = n->in[k];
    if (t < 0 || (p->g->tensor[t].role != TDMI_ROLE_PARAMETER && p->g->tensor[t].role != TDMI_ROLE_COPY))
        return NULL;
    unit *u = p->unit;
    while (p->g->tensor[t].bucket >= u->end)
        u++;
    return u;
}

/* Whether node i reads a unit that has to be brought; what it does not read leaves then. */
static bool begins_round(plan *p, const tdmi_node *n)
{
    bool begins = false;
    for (int k = 0; k < n->in_count; k++) {
        const unit *u = unit_read(p, n, k);
        begins = begins || (u != NULL && !u->here && (u->stay < 0 || p->rounds - u->round > p->prefetch + 1));
    }
    return begins;
}

static void list_stays(plan *p)
{
    for (int i = 0; i < p->g->node_count; i++) {
        const tdmi_node *n = &p->g->node[i];
        if (begins_round(p, n)) {
            for (int u = 0; u < p->units; u++)
                p->unit[u].here = false;
            p->rounds++;
        }
        for (int k = 0; k < n->in_count; k++) {
            unit *u = unit_read(p, n, k);
            if (u == NULL)
                continue;
            if (!u->here && (u->stay < 0 || p->rounds - 1 - u->round > p->prefetch + 1)) {
                u->stay = p->stays++;
                p->stay[u->stay] = (stay){.unit = (int)(u - p->unit), .first = i, .begin = -1, .round = p->rounds - 1};
            }
            u->here = true;
            u->round = p->rounds - 1;
            p->stay[u->stay].last = i;
        }
    }
}

/* When each comes: where the round `prefetch` before its own begins. */
static void set_begins(plan *p)
{
    for (int s = 0; s < p->stays; s++)
        for (int e = 0; e < s; e++)
            if (p->stay[e].round == p->stay[s].round - p->prefetch)
                p->stay[s].begin = p->stay[e].first;
}

static tdm_status place(plan *p)
{
    tdmi_fit_block *blocks = tdmi_calloc((size_t)p->stays + 1, sizeof *blocks, "gather pass");
    if (blocks == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int s = 0; s < p->stays; s++)
        blocks[s] = (tdmi_fit_block){.id = s, .first = p->stay[s].begin, .last = p->stay[s].last, .residue = -1,
                                     .nbytes = p->unit[p->stay[s].unit].nbytes};
    tdm_status st = tdmi_fit(blocks, p->stays, &p->g->parameter_nbytes);
    for (int s = 0; s < p->stays; s++)
        p->stay[blocks[s].id].offset = blocks[s].offset;
    tdmi_free(blocks);
    return st;
}

/* A node for each bucket of the unit; its copies lie behind its parameters. Returns the new count. */
static int put(const plan *p, const stay *s, tdmi_op op, tdmi_node *nodes, int count)
{
    const unit *u = &p->unit[s->unit];
    size_t at = s->offset, copy_at = s->offset;
    for (int b = u->first; b < u->end; b++)
        copy_at += whole_nbytes(p->g, b);
    for (int b = u->first; b < u->end; b++) {
        nodes[count++] = (tdmi_node){.op = op, .phase = TDMI_PHASE_COMMUNICATION, .label = "bucket",
                                     .attr = {.bucket = b, .place = at, .copy_place = copy_at}};
        at += whole_nbytes(p->g, b);
        copy_at += copy_nbytes(p->g, b);
    }
    return count;
}

static int put_starts(const plan *p, int begin, tdmi_node *nodes, int count)
{
    for (int s = 0; s < p->stays; s++)
        if (p->stay[s].begin == begin)
            count = put(p, &p->stay[s], TDMI_OP_GATHER_START, nodes, count);
    return count;
}

static tdm_status insert(const plan *p)
{
    const size_t room = (size_t)p->g->node_count + 3 * (size_t)p->stays * (size_t)p->g->bucket_count;
    tdmi_node *nodes = tdmi_malloc(room * sizeof *nodes, "gather pass");
    if (nodes == NULL)
        return TDM_ERR_NO_MEMORY;
    int count = put_starts(p, -1, nodes, 0);
    for (int i = 0; i < p->g->node_count; i++) {
        for (int s = 0; s < p->stays; s++)
            if (p->stay[s].first == i)
                count = put(p, &p->stay[s], TDMI_OP_GATHER_WAIT, nodes, count);
        count = put_starts(p, i, nodes, count);
        nodes[count++] = p->g->node[i];
        for (int s = 0; s < p->stays; s++)
            if (p->stay[s].last == i)
                count = put(p, &p->stay[s], TDMI_OP_RELEASE, nodes, count);
    }
    tdm_status st = tdmi_graph_set_nodes(p->g, nodes, count);
    tdmi_free(nodes);
    return st;
}

/* A forward graph gathers the parameters of a training graph, from its buckets. */
static tdm_status take_buckets(tdmi_graph *g, const tdmi_graph *from)
{
    for (int t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        const tdmi_id same = tdmi_graph_find(from, g->tensor[t].name);
        if (same < 0 || !tdmi_shape_equal(&from->tensor[same].shape, &g->tensor[t].shape))
            return tdmi_fail(TDM_ERR_INTERNAL, "graph %s: parameter %s is not in graph %s", g->name, g->tensor[t].name, from->name);
        g->tensor[t].bucket = from->tensor[same].bucket;
        g->tensor[t].offset = from->tensor[same].offset;
    }
    for (int t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_COPY) {
            g->tensor[t].bucket = g->tensor[g->tensor[t].parameter].bucket;
            g->tensor[t].offset = g->tensor[g->tensor[t].parameter].offset;
        }
    g->bucket = tdmi_calloc((size_t)from->bucket_count, sizeof *g->bucket, "graph");
    if (g->bucket == NULL)
        return TDM_ERR_NO_MEMORY;
    memcpy(g->bucket, from->bucket, (size_t)from->bucket_count * sizeof *g->bucket);
    g->bucket_count = from->bucket_count;
    g->parts = from->parts;
    g->prefetch = from->prefetch;
    return TDM_OK;
}

static tdm_status run(plan *p)
{
    mark_read(p->g);
    list_units(p);
    list_stays(p);
    set_begins(p);
    tdm_status st = place(p);
    return st == TDM_OK ? insert(p) : st;
}

tdm_status tdmi_pass_gather(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    tdm_status st = TDM_OK;
    if (options->train && options->shard == 3) {
        g->parts = options->parts;
        g->prefetch = options->prefetch;
    } else if (!options->train && options->gather_as != NULL) {
        st = take_buckets(g, options->gather_as);
    }
    if (g->parts <= 1 || st != TDM_OK)
        return st;
    if (g->prefetch < 1)
        return tdmi_fail(TDM_ERR_INVALID, "prefetch %d: a unit of parameters comes at least 1 ahead of its use", g->prefetch);
    plan p = {.g = g, .prefetch = g->prefetch};
    p.unit = tdmi_calloc((size_t)g->bucket_count, sizeof *p.unit, "gather pass");
    p.stay = tdmi_calloc((size_t)g->node_count * TDMI_NODE_IN_MAX, sizeof *p.stay, "gather pass");
    st = p.unit == NULL || p.stay == NULL ? TDM_ERR_NO_MEMORY : run(&p);
    tdmi_free(p.stay);
    tdmi_free(p.unit);
    return st;
}
