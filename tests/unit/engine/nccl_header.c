/* nccl_header.c - holds src/engine/nccl/api.h against NCCL's own header. Compiled, never run, where `meson setup -Dnccl_include=DIR`
 * names the folder of a nccl.h, such as that in PyPI's nvidia-nccl-cu12. */
#include "engine/nccl/api.h"

#include <nccl.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_I8, ncclInt8);
SAME(NCCL_U8, ncclUint8);
SAME(NCCL_I32, ncclInt32);
SAME(NCCL_U32, ncclUint32);
SAME(NCCL_I64, ncclInt64);
SAME(NCCL_U64, ncclUint64);
SAME(NCCL_F16, ncclFloat16);
SAME(NCCL_F32, ncclFloat32);
SAME(NCCL_F64, ncclFloat64);
SAME(NCCL_BF16, ncclBfloat16);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_PROD, ncclProd);
SAME(NCCL_MAX, ncclMax);
SAME(NCCL_MIN, ncclMin);
SAME(NCCL_AVG, ncclAvg);
SAME(NCCL_SCALAR_DEVICE, ncclScalarDevice);
SAME(NCCL_SCALAR_HOST, ncclScalarHostImmediate);
_Static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId), "the id");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int) &&
                   sizeof(ncclScalarResidence_t) == sizeof(int), "enums are ints");

/* The same arguments in the same order, in NCCL's names for what api.h writes as int and void *. */
#define TYPE(name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), ncclResult_t (*) arguments), #name);
TYPE(ncclGetUniqueId, (ncclUniqueId *))
TYPE(ncclCommInitRank, (ncclComm_t *, int, ncclUniqueId, int))
TYPE(ncclCommDestroy, (ncclComm_t))
TYPE(ncclCommAbort, (ncclComm_t))
TYPE(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *))
TYPE(ncclAllReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))
TYPE(ncclReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))
TYPE(ncclReduceScatter, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))
TYPE(ncclAllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))
TYPE(ncclBroadcast, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))
TYPE(ncclSend, (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))
TYPE(ncclRecv, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))
TYPE(ncclGroupStart, (void))
TYPE(ncclGroupEnd, (void))
TYPE(ncclRedOpCreatePreMulSum, (ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t))
TYPE(ncclRedOpDestroy, (ncclRedOp_t, ncclComm_t))
