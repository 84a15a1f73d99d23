/* nccl.c - NCCL for buffers in the memory of NVIDIA devices; everything else in the same group goes by step lists. Whether a call
 * is NCCL's is read from its pointers, so it must be device memory on all ranks or on none.
 *
 * Work goes to the device's default stream: behind what the caller put there, and in front of what the caller will. An event
 * behind it says when a call is over. Nothing is copied between host and device. The device is the one that the calling thread
 * has chosen when it makes the group. */
#include "engine/engine.h"

#include "core/dtype.h"
#include "core/memory.h"
#include "engine/nccl/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct {
#define POINTER(name, arguments) int (*name) arguments;
    NCCL_FUNCTIONS(POINTER)
    CUDA_FUNCTIONS(POINTER)
#undef POINTER
    const char *(*ncclGetErrorString)(int);
    const char *(*ncclGetLastError)(nccl_comm *);
} api;
static tdm_status loaded = TDM_ERR_UNSUPPORTED;
static char why[512];

typedef struct nccl_call nccl_call;

typedef struct how {
    int dtype, op;
    size_t factor; /* NCCL elements for one of ours */
} how;

typedef struct nccl_engine {
    tdmi_engine base;
    nccl_comm *comm;
    nccl_call *idle;
    bool gathers;
    nccl_call *gathered; /* whose work is not enqueued before all of it is */
} nccl_engine;

struct nccl_call {
    tdmi_engine_call base;
    nccl_engine *engine;
    nccl_call *next;
    tdmi_request request;
    how h;
    void *event;
    bool is_gathered; /* nothing is recorded yet */
    int made_op;      /* of a premultiplied sum; -1 */
};

/* ---- libraries ---- */

static bool find(void *library, const char *file, const char *name, void *pointer)
{
    *(void **)pointer = dlsym(library, name);
    if (*(void **)pointer == NULL)
        snprintf(why, sizeof why, "engine nccl: %s has no function %s", file, name);
    return *(void **)pointer != NULL;
}

static void load(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *nccl = cuda != NULL ? dlopen("libnccl.so.2", RTLD_NOW) : NULL;
    if (nccl == NULL) {
        snprintf(why, sizeof why, "engine nccl needs NVIDIA's driver (libcuda.so.1) and NCCL (libnccl.so.2): %s", dlerror());
        return;
    }
#define NCCL(name, arguments) find(nccl, "libnccl.so.2", #name, &api.name) &&
#define CUDA(name, arguments) find(cuda, "libcuda.so.1", #name, &api.name) &&
    if (NCCL_FUNCTIONS(NCCL) CUDA_FUNCTIONS(CUDA) NCCL(ncclGetErrorString, ()) NCCL(ncclGetLastError, ()) true)
        loaded = TDM_OK;
#undef NCCL
#undef CUDA
}

/* ---- errors ---- */

static tdm_status check(const nccl_engine *engine, int result, const char *what)
{
    if (result == NCCL_OK || result == NCCL_IN_PROGRESS)
        return TDM_OK;
    const tdm_status status = result == NCCL_REMOTE_ERROR ? TDM_ERR_PEER_LOST
                              : result == NCCL_TIMEOUT    ? TDM_ERR_TIMEOUT
                              : result == NCCL_INVALID_ARGUMENT || result == NCCL_INVALID_USAGE ? TDM_ERR_INVALID
                                                                                                : TDM_ERR_SYSTEM;
    const char *last = api.ncclGetLastError(engine->comm);
    return tdmi_fail(status, "engine nccl: %s on rank %d: %s%s%s", what, engine->base.rank, api.ncclGetErrorString(result),
                     last != NULL && last[0] != '\0' ? "; " : "", last != NULL ? last : "");
}

static tdm_status check_cuda(int result, const char *what)
{
    const char *text = NULL;
    if (result == 0)
        return TDM_OK;
    api.cuGetErrorString(result, &text);
    return tdmi_fail(TDM_ERR_SYSTEM, "engine nccl: %s: %s", what, text != NULL ? text : "unknown error");
}

/* ---- groups ---- */

static void close_engine(tdmi_engine *base, bool clean)
{
    nccl_engine *engine = (nccl_engine *)base;
    if (engine->comm != NULL)
        (void)(clean ? api.ncclCommDestroy(engine->comm) : api.ncclCommAbort(engine->comm));
    while (engine->idle != NULL) {
        nccl_call *call = engine->idle;
        engine->idle = call->next;
        api.cuEventDestroy_v2(call->event);
        tdmi_free(call);
    }
    tdmi_free(engine);
}

static tdm_status open_engine(const tdmi_engine_start *start, tdmi_engine **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nccl_id id = {{0}};
    pthread_once(&once, load);
    if (loaded != TDM_OK)
        return tdmi_fail(loaded, "%s", why);
    nccl_engine *engine = tdmi_calloc(1, sizeof *engine, "engine nccl");
    if (engine == NULL)
        return TDM_ERR_NO_MEMORY;
    engine->base = (tdmi_engine){&tdmi_engine_nccl, start->rank, start->size};
    tdm_status status = start->rank == 0 ? check(engine, api.ncclGetUniqueId(&id), "ncclGetUniqueId") : TDM_OK;
    if (status == TDM_OK)
        status = start->share(start->arg, &id, sizeof id);
    if (status == TDM_OK)
        status = check(engine, api.ncclCommInitRank(&engine->comm, start->size, id, start->rank), "ncclCommInitRank");
    if (status != TDM_OK) {
        close_engine(&engine->base, false);
        return status;
    }
    *out = &engine->base;
    return TDM_OK;
}

static bool is_on_device(const void *pointer)
{
    unsigned type = CUDA_MEMORY_HOST;
    return pointer != NULL && api.cuPointerGetAttribute(&type, CUDA_POINTER_MEMORY_TYPE, (uint64_t)(uintptr_t)pointer) == 0 &&
           type == CUDA_MEMORY_DEVICE;
}

static bool takes(tdmi_engine *engine, const tdmi_request *request)
{
    (void)engine;
    return is_on_device(request->in) || is_on_device(request->out);
}

/* ---- types and operations ---- */

static int dtype_of(tdm_dtype dtype)
{
    static const int types[TDM_DTYPE_COUNT] = {[TDM_F32] = NCCL_F32, [TDM_F64] = NCCL_F64, [TDM_BF16] = NCCL_BF16, [TDM_F16] = NCCL_F16,
                                               [TDM_I32] = NCCL_I32, [TDM_I64] = NCCL_I64, [TDM_I8] = NCCL_I8,     [TDM_U8] = NCCL_U8,
                                               [TDM_U32] = NCCL_U32, [TDM_U64] = NCCL_U64, [TDM_BOOL] = NCCL_U8,   [TDM_C64] = NCCL_F32};
    return types[dtype];
}

static bool is_float(tdm_dtype dtype)
{
    return dtype == TDM_F32 || dtype == TDM_F64 || dtype == TDM_F16 || dtype == TDM_BF16 || dtype == TDM_C64;
}

/* Why NCCL cannot do this, or NULL. */
static const char *lack(tdm_dtype dtype, tdm_op op)
{
    if (tdmi_op_is_function(op))
        return "NCCL calls no functions";
    if (op == TDM_BAND || op == TDM_BOR || op == TDM_BXOR)
        return "NCCL knows sum, prod, min, max and avg";
    if (dtype == TDM_BOOL)
        return "NCCL has no bool";
    if (dtype == TDM_C64 && op != TDM_SUM && op != TDM_AVG)
        return "NCCL sees complex numbers as pairs of float32";
    if (op == TDM_AVG && !is_float(dtype))
        return "NCCL sums integers in their own type, which may wrap before it divides";
    return NULL;
}

/* The scalar is kept in the type of sums; NCCL wants one of the dtype. */
static int make_premul(nccl_engine *engine, tdm_dtype dtype, tdm_op op, int *out)
{
    uint64_t scalar = 0;
    if (dtype == TDM_F16 || dtype == TDM_BF16) {
        float value;
        memcpy(&value, tdmi_op_scalar(op), sizeof value);
        const uint16_t half = dtype == TDM_F16 ? tdmi_f32_to_f16(value) : tdmi_f32_to_bf16(value);
        memcpy(&scalar, &half, sizeof half);
    } else {
        memcpy(&scalar, tdmi_op_scalar(op), tdm_dtype_size(dtype));
    }
    return api.ncclRedOpCreatePreMulSum(out, &scalar, dtype_of(dtype), NCCL_SCALAR_HOST, engine->comm);
}

static tdm_status choose(nccl_call *call, const tdmi_call *c, how *h)
{
    static const int ops[] = {[TDM_SUM] = NCCL_SUM, [TDM_AVG] = NCCL_AVG, [TDM_MIN] = NCCL_MIN, [TDM_MAX] = NCCL_MAX, [TDM_PROD] = NCCL_PROD};
    const char *reason = lack(c->dtype, c->op);
    *h = (how){.dtype = dtype_of(c->dtype), .factor = c->dtype == TDM_C64 ? 2 : 1};
    if (reason != NULL)
        return tdmi_op_refuse(c->dtype, c->op, tdmi_coll_name(c->coll), "nccl", reason);
    if (!tdmi_op_prepares(c->op)) {
        h->op = ops[c->op];
        return TDM_OK;
    }
    tdm_status status = check(call->engine, make_premul(call->engine, c->dtype, c->op, &call->made_op), "ncclRedOpCreatePreMulSum");
    h->op = call->made_op;
    return status;
}

/* ---- calls ---- */

static const char *at(const void *buffer, size_t elements, tdm_dtype dtype)
{
    return (const char *)buffer + elements * tdm_dtype_size(dtype);
}

/* Everyone's part to everyone it is for, in bytes. A rank's own part goes the same way. */
static int pairwise(nccl_engine *engine, const tdmi_request *request)
{
    const tdmi_call *c = &request->call;
    const int rank = engine->base.rank, n = engine->base.size;
    const size_t size = tdm_dtype_size(c->dtype);
    const bool all = c->coll == TDMI_COLL_ALLTOALL, gathers = c->coll == TDMI_COLL_GATHER;
    int result = NCCL_OK;
    for (int peer = 0; peer < n && result == NCCL_OK; peer++) {
        const bool gives = all || (gathers ? peer : rank) == c->root, takes_part = all || (gathers ? rank : peer) == c->root;
        const tdmi_range from = gives ? tdmi_call_in_part(c, peer) : (tdmi_range){TDMI_BUFFER_IN, 0, 0};
        const tdmi_range to = takes_part ? tdmi_call_out_part(c, peer) : (tdmi_range){TDMI_BUFFER_OUT, 0, 0};
        if (gives)
            result = api.ncclSend(at(request->in, from.first, c->dtype), from.count * size, NCCL_U8, peer, engine->comm, NULL);
        if (result == NCCL_OK && takes_part)
            result = api.ncclRecv((void *)(uintptr_t)at(request->out, to.first, c->dtype), to.count * size, NCCL_U8, peer, engine->comm, NULL);
    }
    return result;
}

/* A part for or from each rank, of different sizes, as so many broadcasts or reductions. */
static int by_roots(nccl_engine *engine, const tdmi_request *request, const how *h)
{
    const tdmi_call *c = &request->call;
    const bool gathers = c->coll == TDMI_COLL_ALL_GATHER;
    const size_t *counts = gathers ? c->out_counts : c->in_counts;
    size_t first = 0;
    int result = NCCL_OK;
    for (int r = 0; r < engine->base.size && result == NCCL_OK; first += counts[r++])
        result = gathers ? api.ncclBroadcast(request->in, (void *)(uintptr_t)at(request->out, first, c->dtype),
                                             counts[r] * tdm_dtype_size(c->dtype), NCCL_U8, r, engine->comm, NULL)
                         : api.ncclReduce(at(request->in, first, c->dtype), request->out, counts[r] * h->factor, h->dtype, h->op, r,
                                          engine->comm, NULL);
    return result;
}

static int enqueue(nccl_engine *engine, const tdmi_request *request, const how *h)
{
    const tdmi_call *c = &request->call;
    const size_t count = c->count * h->factor, nbytes = c->count * tdm_dtype_size(c->dtype);
    const void *in = request->in;
    void *out = request->out;
    if (c->coll == TDMI_COLL_GATHER || c->coll == TDMI_COLL_SCATTER || c->coll == TDMI_COLL_ALLTOALL || c->uneven) {
        int result = api.ncclGroupStart();
        if (result != NCCL_OK)
            return result;
        result = c->coll == TDMI_COLL_ALL_GATHER || c->coll == TDMI_COLL_REDUCE_SCATTER ? by_roots(engine, request, h)
                                                                                       : pairwise(engine, request);
        const int ended = api.ncclGroupEnd();
        return result != NCCL_OK ? result : ended;
    }
    switch (c->coll) {
    case TDMI_COLL_ALLREDUCE: return api.ncclAllReduce(in, out, count, h->dtype, h->op, engine->comm, NULL);
    case TDMI_COLL_REDUCE: return api.ncclReduce(in, out, count, h->dtype, h->op, c->root, engine->comm, NULL);
    case TDMI_COLL_REDUCE_SCATTER: return api.ncclReduceScatter(in, out, count, h->dtype, h->op, engine->comm, NULL);
    case TDMI_COLL_ALL_GATHER: return api.ncclAllGather(in, out, nbytes, NCCL_U8, engine->comm, NULL);
    default: return api.ncclBroadcast(in, out, nbytes, NCCL_U8, c->root, engine->comm, NULL);
    }
}

static void end(tdmi_engine_call *base)
{
    nccl_call *call = (nccl_call *)base;
    if (call->made_op >= 0)
        api.ncclRedOpDestroy(call->made_op, call->engine->comm);
    call->next = call->engine->idle;
    call->engine->idle = call;
}

static tdm_status take_call(nccl_engine *engine, nccl_call **out)
{
    nccl_call *call = engine->idle;
    if (call != NULL) {
        engine->idle = call->next;
    } else {
        call = tdmi_calloc(1, sizeof *call, "engine nccl");
        if (call == NULL)
            return TDM_ERR_NO_MEMORY;
        tdm_status status = check_cuda(api.cuEventCreate(&call->event, CUDA_EVENT_WITHOUT_TIMING), "cuEventCreate");
        if (status != TDM_OK) {
            tdmi_free(call);
            return status;
        }
    }
    call->base.ops = &tdmi_engine_nccl;
    call->engine = engine;
    call->made_op = -1;
    call->is_gathered = false;
    *out = call;
    return TDM_OK;
}

static tdm_status again(tdmi_engine_call *base)
{
    nccl_call *call = (nccl_call *)base;
    nccl_engine *engine = call->engine;
    tdm_status status = check(engine, enqueue(engine, &call->request, &call->h), tdmi_coll_name(call->request.call.coll));
    call->is_gathered = status == TDM_OK && engine->gathers;
    if (!call->is_gathered)
        return status == TDM_OK ? check_cuda(api.cuEventRecord(call->event, NULL), "cuEventRecord") : status;
    call->next = engine->gathered;
    engine->gathered = call;
    return TDM_OK;
}

static tdm_status start(tdmi_engine *base, const tdmi_request *request, tdmi_engine_call **out)
{
    const tdmi_call *c = &request->call;
    nccl_call *call;
    if (c->coll == TDMI_COLL_ALLTOALL && request->in == request->out)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "alltoall: in place does not exist on engine nccl; give it two buffers");
    tdm_status status = take_call((nccl_engine *)base, &call);
    if (status != TDM_OK)
        return status;
    call->request = *request;
    call->h = (how){.factor = 1};
    if (tdmi_coll_reduces(c->coll))
        status = choose(call, c, &call->h);
    if (status == TDM_OK)
        status = again(&call->base);
    if (status != TDM_OK) {
        end(&call->base);
        return status;
    }
    *out = &call->base;
    return TDM_OK;
}

static tdm_status gather(tdmi_engine *base, bool begins)
{
    nccl_engine *engine = (nccl_engine *)base;
    engine->gathers = begins;
    if (begins)
        return check(engine, api.ncclGroupStart(), "ncclGroupStart");
    tdm_status status = check(engine, api.ncclGroupEnd(), "ncclGroupEnd");
    for (nccl_call *call = engine->gathered; call != NULL && status == TDM_OK; call = call->next) {
        call->is_gathered = false;
        status = check_cuda(api.cuEventRecord(call->event, NULL), "cuEventRecord");
    }
    engine->gathered = NULL;
    return status;
}

static tdm_status test(tdmi_engine_call *base, bool *done)
{
    nccl_call *call = (nccl_call *)base;
    int async = NCCL_OK;
    *done = false;
    if (call->is_gathered)
        return TDM_OK;
    const int result = api.cuEventQuery(call->event);
    *done = result == 0;
    if (result == 0)
        return TDM_OK;
    if (result != CUDA_NOT_READY)
        return check_cuda(result, "a call on the device");
    tdm_status status = check(call->engine, api.ncclCommGetAsyncError(call->engine->comm, &async), "ncclCommGetAsyncError");
    return status == TDM_OK ? check(call->engine, async, "a call on the device") : status;
}

const tdmi_engine_ops tdmi_engine_nccl = {.version = TDMI_ENGINE_VERSION,
                                          .name = "nccl",
                                          .open = open_engine,
                                          .close = close_engine,
                                          .takes = takes,
                                          .start = start,
                                          .again = again,
                                          .gather = gather,
                                          .test = test,
                                          .end = end};
