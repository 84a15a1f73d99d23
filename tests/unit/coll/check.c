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
        uint16_t half = dtype == TDM_BF16 ? tdmi_f32_to_bf16(f) : tdmi_f32_to_f16(f);
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

/* Result of `rank` by definition: inputs[0..n-1] -> out. */
static void expect(const tdmi_call *call, int rank, int n, unsigned char *const *inputs, unsigned char *out)
{
    const size_t size = tdm_dtype_size(call->dtype), part = call->count * size;
    const void **from = calloc((size_t)n, sizeof *from);
    for (int p = 0; p < n; p++)
        from[p] = inputs[p] + (call->coll == TDMI_COLL_REDUCE_SCATTER ? (size_t)rank * part : 0);
    switch (call->coll) {
    case TDMI_COLL_ALLREDUCE:
    case TDMI_COLL_REDUCE_SCATTER:
        tdmi_reduce_tree(call->dtype, call->op, from, n, (void *const[]){out}, 1, call->count, false);
        break;
    case TDMI_COLL_ALL_GATHER:
        for (int p = 0; p < n; p++)
            memcpy(out + (size_t)p * part, inputs[p], part);
        break;
    case TDMI_COLL_BROADCAST: memcpy(out, inputs[call->root], part); break;
    default: break;
    }
    free(from);
}

/* The buffers of one rank in one call: OUT alone, or sharing memory with IN as the operation allows. */
static replay_buffers make_buffers(const tdmi_call *call, int rank, int n, bool in_place)
{
    const size_t in_bytes = replay_in_bytes(call, n), out_bytes = replay_out_bytes(call, n);
    const size_t part = (size_t)rank * call->count * tdm_dtype_size(call->dtype);
    if (call->coll == TDMI_COLL_BROADCAST)
        in_place = true;
    if (!in_place)
        return (replay_buffers){.in = malloc(in_bytes + 1), .out = malloc(out_bytes + 1)};
    unsigned char *block = malloc((in_bytes > out_bytes ? in_bytes : out_bytes) + 1);
    return (replay_buffers){.in = block + (call->coll == TDMI_COLL_ALL_GATHER ? part : 0),
                            .out = block + (call->coll == TDMI_COLL_REDUCE_SCATTER ? part : 0)};
}

static void free_buffers(const replay_buffers *b, bool shared)
{
    unsigned char *in = b->in, *out = b->out;
    if (!shared)
        free(in), free(out);
    else
        free(in < out ? in : out);
}

static void check_traffic(const tdmi_algorithm *algorithm, const tdmi_call *call, int n)
{
    tdmi_steps list = {0};
    for (int rank = 0; rank < n; rank++) {
        tdmi_steps_clear(&list);
        algorithm->steps(&list, call, rank, n);
        tdmi_traffic counted = tdmi_steps_traffic(&list), cost = algorithm->cost(call, rank, n);
        if (counted.elements_sent != cost.elements_sent)
            fail_msg("%s %s count %zu: rank %d of %d sends %zu elements, its cost says %zu", algorithm->name,
                     tdmi_coll_name(call->coll), call->count, rank, n, counted.elements_sent, cost.elements_sent);
        /* chunks of no elements are not sent */
        if (call->count >= (size_t)n ? counted.messages != cost.messages : counted.messages > cost.messages)
            fail_msg("%s %s count %zu: rank %d of %d sends %zu messages, its cost says %zu", algorithm->name,
                     tdmi_coll_name(call->coll), call->count, rank, n, counted.messages, cost.messages);
    }
    tdmi_steps_free(&list);
}

void check_collective(const tdmi_algorithm *algorithm, tdmi_coll coll, tdm_dtype dtype, tdm_op op, int n, size_t count,
                      check_options options)
{
    const tdmi_call call = {.coll = coll, .dtype = dtype, .op = op, .count = count,
                            .root = coll == TDMI_COLL_BROADCAST ? n / 2 : -1};
    const size_t in_bytes = replay_in_bytes(&call, n), out_bytes = replay_out_bytes(&call, n);
    const bool shared = options.in_place || coll == TDMI_COLL_BROADCAST;
    replay_buffers *buffers = calloc((size_t)(CALLS * n), sizeof *buffers);
    unsigned char **inputs = calloc((size_t)(CALLS * n), sizeof *inputs), *expected = malloc(out_bytes + 1);
    for (int i = 0; i < CALLS * n; i++) {
        buffers[i] = make_buffers(&call, i % n, n, options.in_place);
        inputs[i] = malloc(in_bytes + 1);
        fill(dtype, inputs[i], in_bytes / tdm_dtype_size(dtype), (uint32_t)i + 1000 * options.seed, options.exact);
        memset(buffers[i].out, 0x5a, out_bytes);
        memcpy(buffers[i].in, inputs[i], in_bytes);
    }
    const char *failure = replay(algorithm, &call, n, CALLS, buffers, options.seed, options.races);
    if (failure != NULL)
        fail_msg("%s %s %s %s count %zu n %d%s: %s", algorithm->name, tdmi_coll_name(coll), tdm_dtype_name(dtype),
                 tdm_op_name(op), count, n, options.in_place ? " in place" : "", failure);
    for (int i = 0; i < CALLS * n; i++) {
        expect(&call, i % n, n, inputs + i / n * n, expected);
        if (memcmp(buffers[i].out, expected, out_bytes) != 0)
            fail_msg("%s %s %s %s count %zu n %d%s: wrong result on rank %d", algorithm->name, tdmi_coll_name(coll),
                     tdm_dtype_name(dtype), tdm_op_name(op), count, n, options.in_place ? " in place" : "", i % n);
        if (!shared && memcmp(buffers[i].in, inputs[i], in_bytes) != 0)
            fail_msg("%s %s count %zu n %d: the input of rank %d was changed", algorithm->name, tdmi_coll_name(coll), count, n,
                     i % n);
    }
    for (int i = 0; i < CALLS * n; i++) {
        free_buffers(&buffers[i], shared);
        free(inputs[i]);
    }
    check_traffic(algorithm, &call, n);
    free(buffers);
    free(inputs);
    free(expected);
}

void check_sizes(const tdmi_algorithm *algorithm, tdmi_coll coll, int max_n, bool exact)
{
    for (int n = 1; n <= max_n; n++) {
        const size_t counts[] = {0, 1, (size_t)n - 1, (size_t)n, 2 * (size_t)n + 1, 61, 16 * (size_t)n};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            check_collective(algorithm, coll, TDM_F32, TDM_SUM, n, counts[i],
                             (check_options){.in_place = (n + (int)i) % 2 == 0, .exact = exact, .seed = (unsigned)i,
                                             .races = n <= 5});
    }
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
}
