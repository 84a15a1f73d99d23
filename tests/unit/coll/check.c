/* check.c - inputs, expected outputs and the comparison. */
#include "check.h"

#include "coll/reduce.h"
#include "core/dtype.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALLS = 3 };

static void fill(tdm_dtype dtype, unsigned char *to, size_t count, uint32_t seed, bool exact)
{
    uint32_t random = seed * 747796405u + 2891336453u;
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        int whole = (int)(random >> 28) % 3 + (exact ? 1 : 0);
        double real = exact ? whole : ((double)(random >> 8) - 8388608.0) / ((random & 64) != 0 ? 8388608.0 : 4096.0);
        float f = (float)real;
        uint16_t half = dtype == TDM_BF16 ? tdmi_f32_to_bf16(f) : dtype == TDM_F16 ? tdmi_f32_to_f16(f) : 0;
        int64_t integer = exact ? whole : (int64_t)(random >> 7) - (1 << 24);
        unsigned char *element = to + i * tdm_dtype_size(dtype);
        float pair[2] = {f, exact ? 0.0f : -0.3f * f};
        switch (dtype) {
        case TDM_C64: memcpy(element, pair, 8); break;
        case TDM_F32: memcpy(element, &f, 4); break;
        case TDM_F64: memcpy(element, &real, 8); break;
        case TDM_BF16:
        case TDM_F16: memcpy(element, &half, 2); break;
        default: memcpy(element, &integer, tdm_dtype_size(dtype));
        }
    }
}

/* One call as each rank makes it, and the arrays of counts in it. */
typedef struct calls {
    int n;
    tdmi_call *of_rank;
    size_t *counts; /* uneven: [n][n], row i: what rank i gives to each; column i: what it gets */
    size_t *columns;
} calls;

static bool has_root(tdmi_coll coll)
{
    return coll == TDMI_COLL_BROADCAST || coll == TDMI_COLL_REDUCE || coll == TDMI_COLL_GATHER || coll == TDMI_COLL_SCATTER;
}

/* Uneven parts lie around `count`, every third of them empty. */
static size_t uneven_part(size_t count, int i)
{
    return i % 3 == 1 ? 0 : count + (size_t)(i * 7 % 5);
}

static calls make_calls(tdmi_coll coll, tdm_dtype dtype, tdm_op op, int n, size_t count, bool uneven, int root)
{
    const size_t ranks = (size_t)n;
    calls c = {.n = n, .of_rank = calloc(ranks, sizeof *c.of_rank), .counts = calloc(ranks * ranks, sizeof *c.counts),
               .columns = calloc(ranks * ranks, sizeof *c.columns)};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            c.columns[k * n + i] = c.counts[i * n + k] = uneven_part(count, coll == TDMI_COLL_ALLTOALL ? i + 2 * k : k);
    for (int r = 0; r < n; r++) {
        tdmi_call *call = &c.of_rank[r];
        *call = (tdmi_call){.coll = coll, .dtype = dtype, .op = op, .count = count, .root = has_root(coll) ? root : -1};
        if (!uneven)
            continue;
        call->uneven = true;
        call->count = coll == TDMI_COLL_ALLTOALL ? 0 : uneven_part(count, r);
        if (coll == TDMI_COLL_REDUCE_SCATTER || coll == TDMI_COLL_ALLTOALL || (coll == TDMI_COLL_SCATTER && r == call->root))
            call->in_counts = &c.counts[r * n];
        if (coll == TDMI_COLL_ALL_GATHER || (coll == TDMI_COLL_GATHER && r == call->root))
            call->out_counts = c.counts;
        if (coll == TDMI_COLL_ALLTOALL)
            call->out_counts = &c.columns[r * n];
    }
    return c;
}

static void free_calls(calls *c)
{
    free(c->of_rank);
    free(c->counts);
    free(c->columns);
}

/* Result of `rank` by definition: inputs[0..n-1] -> out. */
static void expect(const calls *c, int rank, unsigned char *const *inputs, unsigned char *out)
{
    const int n = c->n;
    const tdmi_call *call = &c->of_rank[rank];
    const size_t size = tdm_dtype_size(call->dtype);
    const void **from = calloc((size_t)n, sizeof *from);
    if (tdmi_coll_reduces(call->coll) && tdmi_call_out_count(call, rank, n) > 0) {
        for (int p = 0; p < n; p++)
            from[p] = inputs[p] + tdmi_call_in_part(&c->of_rank[p], rank).first * size;
        tdmi_reduce_tree(call->dtype, call->op, from, n, (void *const[]){out}, 1, tdmi_call_out_count(call, rank, n), false);
    }
    for (int p = 0; p < n && !tdmi_coll_reduces(call->coll) && tdmi_call_out_count(call, rank, n) > 0; p++) {
        if (call->coll == TDMI_COLL_BROADCAST ? p != call->root : call->coll == TDMI_COLL_SCATTER && p != call->root)
            continue;
        const tdmi_range src = tdmi_call_in_part(&c->of_rank[p], rank), dst = tdmi_call_out_part(call, p);
        memcpy(out + dst.first * size, inputs[p] + src.first * size, src.count * size);
    }
    free(from);
}

/* The buffers of one rank in one call: OUT alone, or sharing memory with IN as the operation allows. */
static replay_buffers make_buffers(const tdmi_call *call, int rank, int n, bool in_place)
{
    const size_t in_bytes = replay_in_bytes(call, rank, n), out_bytes = replay_out_bytes(call, rank, n);
    const size_t size = tdm_dtype_size(call->dtype);
    if (!in_place)
        return (replay_buffers){.in = malloc(in_bytes + 1), .out = malloc(out_bytes + 1)};
    unsigned char *block = malloc((in_bytes > out_bytes ? in_bytes : out_bytes) + 1);
    const size_t in_at = out_bytes > in_bytes ? tdmi_call_out_part(call, rank).first * size : 0;
    const size_t out_at = in_bytes > out_bytes && out_bytes > 0 ? tdmi_call_in_part(call, rank).first * size : 0;
    return (replay_buffers){.in = block + in_at, .out = block + out_at};
}

/* Whether a rank's buffers share memory. Not in an alltoall: its algorithms have tests of their own. */
static bool shares(const tdmi_call *call, bool in_place)
{
    return call->coll == TDMI_COLL_BROADCAST || (in_place && call->coll != TDMI_COLL_ALLTOALL);
}

static void free_buffers(const replay_buffers *b, bool shared)
{
    unsigned char *in = b->in, *out = b->out;
    if (!shared)
        free(in), free(out);
    else
        free(in < out ? in : out);
}

static void check_traffic(const tdmi_algorithm *algorithm, const calls *c, const tdmi_topology *common)
{
    const int n = c->n;
    tdmi_steps list = {0};
    for (int rank = 0; rank < n; rank++) {
        const tdmi_call *call = &c->of_rank[rank];
        tdmi_topology topology = *common;
        topology.rank = rank;
        tdmi_steps_clear(&list);
        algorithm->steps(&list, call, &topology);
        tdmi_traffic counted = tdmi_steps_traffic(&list), cost = algorithm->cost(call, &topology);
        if (counted.elements_sent != cost.elements_sent)
            fail_msg("%s %s count %zu: rank %d of %d sends %zu elements, its cost says %zu", algorithm->name,
                     tdmi_coll_name(call->coll), call->count, rank, n, counted.elements_sent, cost.elements_sent);
        /* chunks of no elements are not sent */
        if (call->count >= (size_t)n && !call->uneven ? counted.messages != cost.messages : counted.messages > cost.messages)
            fail_msg("%s %s count %zu: rank %d of %d sends %zu messages, its cost says %zu", algorithm->name,
                     tdmi_coll_name(call->coll), call->count, rank, n, counted.messages, cost.messages);
    }
    tdmi_steps_free(&list);
}

void check_collective(const tdmi_algorithm *algorithm, tdmi_coll coll, tdm_dtype dtype, tdm_op op, int n, size_t count,
                      check_options options)
{
    if (!algorithm->supports(coll, options.uneven))
        return;
    calls c = make_calls(coll, dtype, op, n, count, options.uneven, options.root > 0 ? options.root - 1 : n / 2);
    if (algorithm->max_bytes != 0 && tdmi_call_bytes(&c.of_rank[0], n) > algorithm->max_bytes) {
        free_calls(&c);
        return;
    }
    const bool shared = shares(&c.of_rank[0], options.in_place);
    const char *placed = shared ? " in place" : "", *kind = options.uneven ? "v" : "";
    replay_buffers *buffers = calloc((size_t)(CALLS * n), sizeof *buffers);
    unsigned char **inputs = calloc((size_t)(CALLS * n), sizeof *inputs);
    for (int i = 0; i < CALLS * n; i++) {
        const tdmi_call *call = &c.of_rank[i % n];
        const size_t in_bytes = replay_in_bytes(call, i % n, n);
        buffers[i] = make_buffers(call, i % n, n, shared);
        inputs[i] = malloc(in_bytes + 1);
        fill(dtype, inputs[i], in_bytes / tdm_dtype_size(dtype), (uint32_t)i + 1000 * options.seed, options.exact);
        memset(buffers[i].out, 0x5a, replay_out_bytes(call, i % n, n));
        memcpy(buffers[i].in, inputs[i], in_bytes);
    }
    tdmi_topology topology = {.n = n, .node = options.node, .domain = options.domain};
    for (int shape = 0; shape < TDMI_SHAPES; shape++) {
        topology.order[shape] = options.order;
        topology.node_order[shape] = options.node_order;
    }
    const char *failure = replay(algorithm, c.of_rank, &topology, CALLS, buffers, options.seed, options.races);
    if (failure != NULL)
        fail_msg("%s %s%s %s %s count %zu n %d%s: %s", algorithm->name, tdmi_coll_name(coll), kind, tdm_dtype_name(dtype),
                 tdm_op_name(op), count, n, placed, failure);
    for (int i = 0; i < CALLS * n; i++) {
        const tdmi_call *call = &c.of_rank[i % n];
        const size_t in_bytes = replay_in_bytes(call, i % n, n), out_bytes = replay_out_bytes(call, i % n, n);
        unsigned char *expected = malloc(out_bytes + 1);
        expect(&c, i % n, inputs + i / n * n, expected);
        if (memcmp(buffers[i].out, expected, out_bytes) != 0)
            fail_msg("%s %s%s %s %s count %zu n %d%s: wrong result on rank %d", algorithm->name, tdmi_coll_name(coll), kind,
                     tdm_dtype_name(dtype), tdm_op_name(op), count, n, placed, i % n);
        if (!shared && memcmp(buffers[i].in, inputs[i], in_bytes) != 0)
            fail_msg("%s %s%s count %zu n %d: the input of rank %d was changed", algorithm->name, tdmi_coll_name(coll), kind,
                     count, n, i % n);
        free(expected);
    }
    for (int i = 0; i < CALLS * n; i++) {
        free_buffers(&buffers[i], shared);
        free(inputs[i]);
    }
    check_traffic(algorithm, &c, &topology);
    free(buffers);
    free(inputs);
    free_calls(&c);
}

void check_sizes(const tdmi_algorithm *algorithm, tdmi_coll coll, int max_n, bool exact)
{
    for (int n = 1; n <= max_n; n++) {
        const size_t counts[] = {0, 1, (size_t)n - 1, (size_t)n, 2 * (size_t)n + 1, 61, 16 * (size_t)n};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int uneven = 0; uneven < 2; uneven++)
                if (algorithm->supports(coll, uneven != 0))
                    check_collective(algorithm, coll, TDM_F32, TDM_SUM, n, counts[i],
                                     (check_options){.in_place = (n + (int)i) % 2 == 0, .exact = exact, .uneven = uneven != 0,
                                                     .seed = (unsigned)i, .races = n <= 5});
    }
}

/* Products of 2x2 matrices modulo 256, packed in 32 bits: associative, not commutative. */
static void multiply_matrices(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    (void)context, (void)dtype;
    for (size_t i = 0; i < count; i++) {
        unsigned char x[4], y[4], z[4];
        memcpy(x, (const char *)a + 4 * i, 4);
        memcpy(y, (const char *)b + 4 * i, 4);
        for (int row = 0; row < 2; row++)
            for (int column = 0; column < 2; column++)
                z[2 * row + column] = (unsigned char)(x[2 * row] * y[column] + x[2 * row + 1] * y[2 + column]);
        memcpy((char *)out + 4 * i, z, 4);
    }
}

/* What keeps the order of ranks shows in products of matrices. */
static void check_function(const tdmi_algorithm *algorithm, tdmi_coll coll)
{
    tdm_op op;
    assert_int_equal(tdm_op_create(multiply_matrices, NULL, "matrix product", &op), TDM_OK);
    for (int n = 1; n <= 9; n++)
        check_collective(algorithm, coll, TDM_U32, op, n, 45, (check_options){.in_place = n % 2 == 0, .seed = 3});
    assert_int_equal(tdm_op_free(op), TDM_OK);
}

void check_types(const tdmi_algorithm *algorithm, tdmi_coll coll, bool exact)
{
    static const int ns[] = {2, 3, 4, 6, 7};
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TDM_OP_COUNT; op++)
            for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
                for (int in_place = 0; in_place < 2; in_place++)
                    if (tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") == TDM_OK)
                        check_collective(algorithm, coll, (tdm_dtype)dtype, (tdm_op)op, ns[i], 45,
                                         (check_options){.in_place = in_place != 0, .exact = exact, .seed = 1});
    if (!algorithm->reorders && tdmi_coll_reduces(coll))
        check_function(algorithm, coll);
}
