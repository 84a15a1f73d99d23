/* reduce.c - allreduce, reduce, reduce_scatter. An MPI operation is taken where it means what Tandem means (docs/types.md), else
 * one of our own on elements that MPI sees as bytes. Halves are widened to float32 before and rounded after, averages of integers
 * widened to 64 or 128 bits, averages scaled after. The order of additions is MPI's.
 *
 * MPI calls an operation without a context: each built-in one has a function of its own, and callers' functions take turns with
 * a few more. */
#include "engine/mpi/internal.h"

#include "coll/reduce.h"
#include "core/dtype.h"

#include <string.h>

#define FUNCTIONS 8 /* of callers, at once in a process */
#define TYPES (TDMI_I128 + 1)

static MPI_Datatype bytes_of[TYPES]; /* an element as bytes, a type for each dtype, so that an operation knows it */
static MPI_Op own_op[TDM_OP_COUNT], function_op[FUNCTIONS];
static struct {
    tdm_op op;
    int users;
} function[FUNCTIONS]; /* guarded by the engine's lock */

static tdm_dtype dtype_of(MPI_Datatype type)
{
    int i = 0;
    while (i < TYPES - 1 && bytes_of[i] != type)
        i++;
    return (tdm_dtype)i;
}

/* MPI's operand from the lower ranks is the first. */
static void combine(tdm_op op, const void *in, void *inout, const int *count, const MPI_Datatype *type)
{
    tdmi_reduce_pair(dtype_of(*type), op, in, inout, inout, (size_t)*count);
}

#define OWN(NAME, name)                                                                                                \
    static void own_##NAME(void *in, void *inout, int *count, MPI_Datatype *type)                                      \
    {                                                                                                                  \
        combine(TDM_##NAME, in, inout, count, type);                                                                   \
    }
TDM_OP_MAP(OWN)
#undef OWN

#define SLOTS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define CALLERS(slot)                                                                                                  \
    static void callers_##slot(void *in, void *inout, int *count, MPI_Datatype *type)                                  \
    {                                                                                                                  \
        combine(function[slot].op, in, inout, count, type);                                                            \
    }
SLOTS(CALLERS)
#undef CALLERS

tdm_status mpi_reduce_init(void)
{
    static MPI_User_function *const own[] = {
#define ROW(NAME, name) own_##NAME,
        TDM_OP_MAP(ROW)
#undef ROW
    };
    static MPI_User_function *const callers[FUNCTIONS] = {
#define ROW(slot) callers_##slot,
        SLOTS(ROW)
#undef ROW
    };
    int code = MPI_SUCCESS;
    for (int i = 0; i < TYPES && code == MPI_SUCCESS; i++) {
        code = MPI_Type_contiguous((int)tdm_dtype_size((tdm_dtype)i), MPI_BYTE, &bytes_of[i]);
        if (code == MPI_SUCCESS)
            code = MPI_Type_commit(&bytes_of[i]);
    }
    for (int i = 0; i < TDM_OP_COUNT && code == MPI_SUCCESS; i++)
        code = MPI_Op_create(own[i], 1, &own_op[i]);
    for (int i = 0; i < FUNCTIONS && code == MPI_SUCCESS; i++)
        code = MPI_Op_create(callers[i], 0, &function_op[i]); /* 0: it need not commute */
    return mpi_check(code, "making its types and operations");
}

void mpi_reduce_end(void)
{
    for (int i = 0; i < TYPES; i++)
        MPI_Type_free(&bytes_of[i]);
    for (int i = 0; i < TDM_OP_COUNT; i++)
        MPI_Op_free(&own_op[i]);
    for (int i = 0; i < FUNCTIONS; i++)
        MPI_Op_free(&function_op[i]);
}

/* ---- which operation ---- */

/* What MPI is told: `factor` of `type` for each element. */
typedef struct how {
    tdm_dtype dtype; /* the one that is summed in */
    MPI_Datatype type;
    MPI_Op op;
    size_t factor;
} how;

static MPI_Datatype integer_of(tdm_dtype dtype, bool with_sign)
{
    switch (dtype) {
    case TDM_I8: return with_sign ? MPI_INT8_T : MPI_UINT8_T;
    case TDM_I32: return with_sign ? MPI_INT32_T : MPI_UINT32_T;
    case TDM_I64: return with_sign ? MPI_INT64_T : MPI_UINT64_T;
    case TDM_U8: return MPI_UINT8_T;
    case TDM_U32: return MPI_UINT32_T;
    case TDM_U64: return MPI_UINT64_T;
    default: return MPI_DATATYPE_NULL;
    }
}

/* Signed integers are added as unsigned ones, which wrap by definition; not those of a byte, which Open MPI 4.1 saturates where it
 * has AVX. A NaN among others, -0 against 0, bools and products of complex numbers MPI promises nothing about. */
static bool use_mpi_op(how *h, tdm_op op)
{
    static const struct {
        tdm_op op;
        bool floats, with_sign;
    } rows[] = {{TDM_SUM, true, false},   {TDM_AVG, true, false},  {TDM_PROD, true, false}, {TDM_MIN, false, true},
                {TDM_MAX, false, true},   {TDM_BAND, false, false}, {TDM_BOR, false, false}, {TDM_BXOR, false, false}};
    const MPI_Op ops[] = {MPI_SUM, MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].op != op || (tdm_dtype_size(h->dtype) == 1 && (op == TDM_SUM || op == TDM_PROD)))
            continue;
        h->op = ops[i];
        h->type = h->dtype == TDM_F32 || (h->dtype == TDM_C64 && op != TDM_PROD) ? MPI_FLOAT
                  : h->dtype == TDM_F64                                         ? MPI_DOUBLE
                                                                                : integer_of(h->dtype, rows[i].with_sign);
        h->factor = h->dtype == TDM_C64 ? 2 : 1;
        const bool is_float = h->type == MPI_FLOAT || h->type == MPI_DOUBLE;
        return h->type != MPI_DATATYPE_NULL && (!is_float || rows[i].floats);
    }
    return false;
}

/* A turn with one of the functions that MPI can call. */
static tdm_status use_function(mpi_call *call, how *h, tdm_op op)
{
    int slot = -1;
    for (int i = 0; i < FUNCTIONS; i++)
        if (function[i].users == 0 || function[i].op == op) {
            slot = i;
            if (function[i].users > 0)
                break;
        }
    if (slot < 0)
        return tdmi_op_refuse(call->request.call.dtype, op, tdmi_coll_name(call->request.call.coll), "mpi",
                              "MPI gives operations no context, so at most 8 functions can be in use at once");
    function[slot].op = op;
    function[slot].users++;
    call->function_slot = slot;
    h->op = function_op[slot];
    return TDM_OK;
}

static tdm_status choose(mpi_call *call, how *h)
{
    const tdm_op op = tdmi_op_base(call->request.call.op);
    h->dtype = tdmi_accumulate_dtype(call->request.call.dtype, op);
    if (use_mpi_op(h, op))
        return TDM_OK;
    h->type = bytes_of[h->dtype];
    h->factor = 1;
    if (tdmi_op_is_function(op))
        return use_function(call, h, op);
    h->op = own_op[op];
    return TDM_OK;
}

void mpi_reduce_release(mpi_call *call)
{
    if (call->function_slot >= 0)
        function[call->function_slot].users--;
    call->function_slot = -1;
}

/* ---- calls ---- */

/* Sends an MPI call for each stretch whose count is an int. root -1: allreduce. */
static tdm_status in_stretches(mpi_call *call, const how *h, const char *from, char *to, size_t count, int root)
{
    const size_t size = tdm_dtype_size(h->dtype), most = MPI_MOST / size;
    const bool is_root = root < 0 || root == call->engine->base.rank;
    tdm_status status = TDM_OK;
    for (size_t first = 0; first < count && status == TDM_OK; first += most) {
        const size_t left = count - first;
        const int n = (int)((left < most ? left : most) * h->factor);
        const void *source = from == to && is_root ? MPI_IN_PLACE : from + first * size;
        char *target = is_root ? to + first * size : NULL;
        MPI_Request *request = mpi_call_pending(call);
        if (request == NULL)
            return TDM_ERR_NO_MEMORY;
        status = root < 0
                     ? mpi_check(MPI_Iallreduce(source, target, n, h->type, h->op, call->engine->comm, request), "MPI_Iallreduce")
                     : mpi_check(MPI_Ireduce(source, target, n, h->type, h->op, root, call->engine->comm, request), "MPI_Ireduce");
    }
    return status;
}

static tdm_status scatter_equal(mpi_call *call, const how *h, const char *from, char *to)
{
    const size_t count = call->request.call.count;
    if (count * tdm_dtype_size(h->dtype) * (size_t)call->engine->base.size <= MPI_MOST) {
        MPI_Request *request = mpi_call_pending(call);
        return request == NULL ? TDM_ERR_NO_MEMORY
                               : mpi_check(MPI_Ireduce_scatter_block(from, to, (int)(count * h->factor), h->type, h->op,
                                                                     call->engine->comm, request), "MPI_Ireduce_scatter_block");
    }
    tdm_status status = TDM_OK;
    for (int r = 0; r < call->engine->base.size && status == TDM_OK; r++)
        status = in_stretches(call, h, from + (size_t)r * count * tdm_dtype_size(h->dtype), to, count, r);
    return status;
}

static tdm_status scatter_uneven(mpi_call *call, const how *h, const char *from, char *to)
{
    const int n = call->engine->base.size;
    const size_t *counts = call->request.call.in_counts;
    if (tdmi_call_in_count(&call->request.call, call->engine->base.rank, n) * tdm_dtype_size(h->dtype) > MPI_MOST) {
        tdm_status status = TDM_OK;
        size_t first = 0;
        for (int r = 0; r < n && status == TDM_OK; first += counts[r++])
            status = in_stretches(call, h, from + first * tdm_dtype_size(h->dtype), to, counts[r], r);
        return status;
    }
    int *ints = mpi_call_ints(call, n);
    MPI_Request *request = mpi_call_pending(call);
    if (ints == NULL || request == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < n; r++)
        ints[r] = (int)(counts[r] * h->factor);
    return mpi_check(MPI_Ireduce_scatter(from, to, ints, h->type, h->op, call->engine->comm, request), "MPI_Ireduce_scatter");
}

/* This rank's input in the type that is summed in: the caller's buffer, or a copy at `to` (room for both steps). */
static const void *widened(const mpi_call *call, const how *h, size_t count, char *to)
{
    const tdmi_call *c = &call->request.call;
    const void *from = call->request.in;
    if (tdmi_op_prepares(c->op)) {
        tdmi_op_prepare(c->dtype, c->op, from, to, count);
        from = to;
        to += (count * tdm_dtype_size(c->dtype) + 127) / 128 * 128;
    }
    if (h->dtype == c->dtype)
        return from;
    tdmi_reduce_widen(c->dtype, tdmi_op_base(c->op), from, to, count);
    return to;
}

tdm_status mpi_reduce(mpi_call *call)
{
    const tdmi_call *c = &call->request.call;
    const int rank = call->engine->base.rank, n = call->engine->base.size;
    const size_t in_count = tdmi_call_in_count(c, rank, n), out_count = tdmi_call_out_count(c, rank, n);
    const bool has_result = c->coll != TDMI_COLL_REDUCE || rank == c->root, scatters = c->coll == TDMI_COLL_REDUCE_SCATTER;
    how h = {0};
    tdm_status status = choose(call, &h);
    const size_t wide = tdm_dtype_size(h.dtype), narrow = tdm_dtype_size(c->dtype);
    const bool widens = h.dtype != c->dtype;
    /* prepared input, widened input, result; each starts a cache line */
    const size_t prepared = tdmi_op_prepares(c->op) ? (in_count * narrow + 127) / 128 * 128 : 0;
    const size_t input = prepared + (widens ? (in_count * wide + 127) / 128 * 128 : 0);
    const char *own_in = call->request.in;
    const bool overlaps = scatters && own_in < (char *)call->request.out + out_count * narrow &&
                          (char *)call->request.out < own_in + in_count * narrow;
    const bool apart = has_result && (widens || (overlaps && prepared == 0));
    if (status == TDM_OK)
        status = mpi_call_scratch(call, input + (apart ? out_count * wide : 0));
    if (status != TDM_OK)
        return status;
    const char *from = widened(call, &h, in_count, call->scratch);
    char *to = apart ? call->scratch + input : has_result ? call->request.out : NULL;
    if (has_result && (apart || tdmi_op_base(c->op) == TDM_AVG)) {
        call->result = to;
        call->result_count = out_count;
    }
    if (!scatters)
        return in_stretches(call, &h, from, to, in_count, c->coll == TDMI_COLL_REDUCE ? c->root : -1);
    return c->uneven ? scatter_uneven(call, &h, from, to) : scatter_equal(call, &h, from, to);
}

void mpi_reduce_finish(mpi_call *call)
{
    const tdmi_call *c = &call->request.call;
    const tdm_op op = tdmi_op_base(c->op);
    if (op == TDM_AVG || tdmi_accumulate_dtype(c->dtype, op) != c->dtype)
        tdmi_reduce_finish(c->dtype, op, call->engine->base.size, call->result, call->request.out, call->result_count);
    else
        memcpy(call->request.out, call->result, call->result_count * tdm_dtype_size(c->dtype));
}
