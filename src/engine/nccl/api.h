/* api.h - the part of NCCL's and CUDA's binary interfaces that the engine uses, so that building needs neither. Held against
 * NCCL's own header by tests/unit/engine/nccl_header.c. */
#ifndef TDMI_ENGINE_NCCL_API_H
#define TDMI_ENGINE_NCCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct nccl_comm nccl_comm; /* opaque */
typedef struct { char internal[128]; } nccl_id;

/* ncclResult_t */
enum { NCCL_OK, NCCL_CUDA_ERROR, NCCL_SYSTEM_ERROR, NCCL_INTERNAL_ERROR, NCCL_INVALID_ARGUMENT, NCCL_INVALID_USAGE, NCCL_REMOTE_ERROR,
       NCCL_IN_PROGRESS, NCCL_TIMEOUT };
/* ncclDataType_t */
enum { NCCL_I8, NCCL_U8, NCCL_I32, NCCL_U32, NCCL_I64, NCCL_U64, NCCL_F16, NCCL_F32, NCCL_F64, NCCL_BF16 };
/* ncclRedOp_t */
enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG };
/* ncclScalarResidence_t */
enum { NCCL_SCALAR_DEVICE, NCCL_SCALAR_HOST };

/* X(name, arguments): returns an int, ncclResult_t. stream: a cudaStream_t */
#define NCCL_FUNCTIONS(X)                                                                                              \
    X(ncclGetUniqueId, (nccl_id *))                                                                                    \
    X(ncclCommInitRank, (nccl_comm **, int, nccl_id, int))                                                             \
    X(ncclCommDestroy, (nccl_comm *))                                                                                  \
    X(ncclCommAbort, (nccl_comm *))                                                                                    \
    X(ncclCommGetAsyncError, (nccl_comm *, int *))                                                                     \
    X(ncclAllReduce, (const void *, void *, size_t, int, int, nccl_comm *, void *))                                    \
    X(ncclReduce, (const void *, void *, size_t, int, int, int, nccl_comm *, void *))                                  \
    X(ncclReduceScatter, (const void *, void *, size_t, int, int, nccl_comm *, void *))                                \
    X(ncclAllGather, (const void *, void *, size_t, int, nccl_comm *, void *))                                         \
    X(ncclBroadcast, (const void *, void *, size_t, int, int, nccl_comm *, void *))                                    \
    X(ncclSend, (const void *, size_t, int, int, nccl_comm *, void *))                                                 \
    X(ncclRecv, (void *, size_t, int, int, nccl_comm *, void *))                                                       \
    X(ncclGroupStart, (void))                                                                                          \
    X(ncclGroupEnd, (void))                                                                                            \
    X(ncclRedOpCreatePreMulSum, (int *, void *, int, int, nccl_comm *))                                                \
    X(ncclRedOpDestroy, (int, nccl_comm *))

/* The driver's interface: returns an int, CUresult. Events are CUevent. */
#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuEventQuery, (void *))                                                                                          \
    X(cuEventDestroy_v2, (void *))                                                                                     \
    X(cuPointerGetAttribute, (void *, int, uint64_t))                                                                  \
    X(cuGetErrorString, (int, const char **))

#define CUDA_NOT_READY 600
#define CUDA_EVENT_WITHOUT_TIMING 2u
#define CUDA_POINTER_MEMORY_TYPE 2
#define CUDA_MEMORY_HOST 1u
#define CUDA_MEMORY_DEVICE 2u

#endif
