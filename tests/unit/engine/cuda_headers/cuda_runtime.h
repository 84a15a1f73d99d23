/* As much of CUDA's header as nccl.h needs in C. */
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
