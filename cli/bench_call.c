/* bench_call.c - the operations that are measured: what they count and move, one call on this rank, its inputs and results. */
#include "bench.h"

#include "measure/pattern.h"

#include <string.h>

#define POISON 0x5a

const bench_op_facts bench_ops[BENCH_OP_COUNT] = {
    /*                           name                traffic                   reduces parts  root   out of, in place  algorithm */
    [BENCH_ALLREDUCE]        = {"allreduce",        BENCH_MOVES_OTHERS_TWICE, true,  false, false, true,  true,  NULL},
    [BENCH_REDUCE_SCATTER]   = {"reduce_scatter",   BENCH_MOVES_OTHERS,       true,  true,  false, true,  true,  NULL},
    [BENCH_ALL_GATHER]       = {"all_gather",       BENCH_MOVES_OTHERS,       false, true,  false, true,  true,  NULL},
    [BENCH_BROADCAST]        = {"broadcast",        BENCH_MOVES_ALL,          false, false, true,  false, true,  NULL},
    [BENCH_REDUCE]           = {"reduce",           BENCH_MOVES_ALL,          true,  false, true,  true,  true,  NULL},
    [BENCH_GATHER]           = {"gather",           BENCH_MOVES_OTHERS,       false, true,  true,  true,  true,  NULL},
    [BENCH_SCATTER]          = {"scatter",          BENCH_MOVES_OTHERS,       false, true,  true,  true,  true,  NULL},
    [BENCH_ALLTOALL]         = {"alltoall",         BENCH_MOVES_OTHERS,       false, true,  false, true,  true,  NULL},
    [BENCH_SENDRECV]         = {"sendrecv",         BENCH_MOVES_ALL,          false, false, false, true,  false, "messages"},
    [BENCH_BARRIER]          = {"barrier",          BENCH_MOVES_NOTHING,      false, false, false, true,  false, NULL},
    [BENCH_PARAMETER_SERVER] = {"parameter_server", BENCH_MOVES_OTHERS_TWICE, true,  false, false, true,  true,  "parameter_server"},
    [BENCH_DATA_PARALLEL]    = {"data_parallel",    BENCH_MOVES_OTHERS_TWICE, true,  false, false, true,  true,  "gather_to_one"},
};

/* ---- sizes and rates ---- */

static size_t parts(bench_op op, int ranks)
{
    return bench_ops[op].has_parts ? (size_t)ranks : 1;
}

size_t bench_count(const bench_plan *plan, int ranks, size_t nbytes)
{
    if (plan->op == BENCH_BARRIER)
        return 0;
    size_t count = nbytes / tdm_dtype_size(plan->dtype) / parts(plan->op, ranks);
    return count > 0 ? count : 1;
}

size_t bench_bytes(const bench_plan *plan, int ranks, size_t count)
{
    return count * tdm_dtype_size(plan->dtype) * parts(plan->op, ranks);
}

void bench_bandwidths(bench_line *line)
{
    const double n = line->ranks, others = (n - 1) / n;
    const double factors[] = {[BENCH_MOVES_NOTHING] = 0,
                              [BENCH_MOVES_ALL] = n > 1 ? 1 : 0,
                              [BENCH_MOVES_OTHERS] = others,
                              [BENCH_MOVES_OTHERS_TWICE] = 2 * others};
    line->algbw_gbps = line->time_us > 0 ? (double)line->bytes / line->time_us * 1e-3 : 0;
    line->busbw_gbps = line->algbw_gbps * factors[bench_ops[line->plan->op].traffic];
}

/* ---- one call ---- */

static size_t part_bytes(const bench_call *c)
{
    return c->count * tdm_dtype_size(c->plan->dtype);
}

static bool is_root(const bench_call *c)
{
    return c->rank == c->plan->root;
}

void bench_call_place(bench_call *c, unsigned char *const blocks[2], bool in_place)
{
    const bench_op op = c->plan->op;
    const size_t own = (size_t)c->rank * part_bytes(c);
    c->in = blocks[0];
    c->out = blocks[in_place ? 0 : 1];
    if (in_place && (op == BENCH_REDUCE_SCATTER || op == BENCH_SCATTER))
        c->out += own;
    if (in_place && (op == BENCH_ALL_GATHER || op == BENCH_GATHER))
        c->in += own;
}

tdm_status bench_call_start(bench_call *c, tdm_work **work)
{
    const bench_plan *p = c->plan;
    switch (p->op) {
    case BENCH_REDUCE_SCATTER: return tdm_reduce_scatter(c->group, c->in, c->out, c->count, p->dtype, p->redop, work);
    case BENCH_ALL_GATHER: return tdm_all_gather(c->group, c->in, c->out, c->count, p->dtype, work);
    case BENCH_BROADCAST: return tdm_broadcast(c->group, c->out, c->count, p->dtype, p->root, work);
    case BENCH_REDUCE: return tdm_reduce(c->group, c->in, c->out, c->count, p->dtype, p->redop, p->root, work);
    case BENCH_GATHER: return tdm_gather(c->group, c->in, c->out, c->count, p->dtype, p->root, work);
    case BENCH_SCATTER: return tdm_scatter(c->group, c->in, c->out, c->count, p->dtype, p->root, work);
    case BENCH_ALLTOALL: return tdm_alltoall(c->group, c->in, c->out, c->count, p->dtype, work);
    case BENCH_BARRIER: return tdm_barrier(c->group, work);
    default: return tdm_allreduce(c->group, c->in, c->out, c->count, p->dtype, p->redop, work);
    }
}

static int left(const bench_call *c)
{
    return (c->rank + c->ranks - 1) % c->ranks;
}

static tdm_status pass_on(bench_call *c)
{
    tdm_work *receives;
    tdm_status st = tdm_recv(c->group, c->out, c->count, c->plan->dtype, left(c), 0, NULL, &receives);
    if (st != TDM_OK)
        return st;
    st = tdm_send(c->group, c->in, c->count, c->plan->dtype, (c->rank + 1) % c->ranks, 0, NULL);
    tdm_status received = tdm_work_wait(receives);
    return st != TDM_OK ? st : received;
}

tdm_status bench_call_run(void *arg)
{
    bench_call *c = arg;
    return c->plan->op == BENCH_SENDRECV ? pass_on(c) : bench_call_start(c, NULL);
}

/* ---- data ---- */

/* Parts of this rank's input and output; 0 where the call has none or its root alone has one. */
static size_t parts_in(const bench_call *c)
{
    switch (c->plan->op) {
    case BENCH_BARRIER: return 0;
    case BENCH_BROADCAST: return is_root(c) ? 1 : 0;
    case BENCH_SCATTER: return is_root(c) ? (size_t)c->ranks : 0;
    case BENCH_REDUCE_SCATTER:
    case BENCH_ALLTOALL: return (size_t)c->ranks;
    default: return 1;
    }
}

static size_t parts_out(const bench_call *c)
{
    switch (c->plan->op) {
    case BENCH_BARRIER: return 0;
    case BENCH_REDUCE: return is_root(c) ? 1 : 0;
    case BENCH_GATHER: return is_root(c) ? (size_t)c->ranks : 0;
    case BENCH_ALL_GATHER:
    case BENCH_ALLTOALL: return (size_t)c->ranks;
    default: return 1;
    }
}

void bench_call_fill(bench_call *c)
{
    memset(c->out, POISON, parts_out(c) * part_bytes(c));
    tdmi_pattern_fill(c->plan->dtype, c->plan->redop, c->rank, 0, c->in, parts_in(c) * c->count);
}

size_t bench_call_wrong(const bench_call *c)
{
    const bench_plan *p = c->plan;
    const size_t own = (size_t)c->rank * c->count;
    size_t wrong = 0;
    switch (p->op) {
    case BENCH_BARRIER: return 0;
    case BENCH_REDUCE_SCATTER: return tdmi_pattern_wrong_result(p->dtype, p->redop, c->ranks, own, c->out, c->count);
    case BENCH_BROADCAST: return tdmi_pattern_wrong_copy(p->dtype, p->redop, p->root, 0, c->out, c->count);
    case BENCH_SCATTER: return tdmi_pattern_wrong_copy(p->dtype, p->redop, p->root, own, c->out, c->count);
    case BENCH_SENDRECV: return tdmi_pattern_wrong_copy(p->dtype, p->redop, left(c), 0, c->out, c->count);
    case BENCH_ALL_GATHER:
    case BENCH_GATHER:
    case BENCH_ALLTOALL:
        for (size_t r = 0; r < parts_out(c); r++)
            wrong += tdmi_pattern_wrong_copy(p->dtype, p->redop, (int)r, p->op == BENCH_ALLTOALL ? own : 0,
                                             c->out + r * part_bytes(c), c->count);
        return wrong;
    default: return tdmi_pattern_wrong_result(p->dtype, p->redop, c->ranks, 0, c->out, parts_out(c) * c->count);
    }
}
