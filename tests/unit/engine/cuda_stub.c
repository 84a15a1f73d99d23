/* cuda_stub.c - stands in for libcuda.so.1: one block is "device" memory, and an event is over when it is asked for the third time. */
#include <stdint.h>
#include <stdlib.h>

char cuda_stub_memory[1 << 16];

int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuEventDestroy_v2(void *event);
int cuPointerGetAttribute(void *data, int attribute, uint64_t pointer);
int cuGetErrorString(int error, const char **text);

int cuEventCreate(void **event, unsigned flags)
{
    *event = calloc(1, sizeof(int));
    return flags == 2 && *event != NULL ? 0 : 1;
}

int cuEventRecord(void *event, void *stream)
{
    *(int *)event = 0;
    return stream == NULL ? 0 : 1;
}

int cuEventQuery(void *event)
{
    return ++*(int *)event < 3 ? 600 : 0; /* CUDA_ERROR_NOT_READY */
}

int cuEventDestroy_v2(void *event)
{
    free(event);
    return 0;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t pointer)
{
    const uint64_t first = (uint64_t)(uintptr_t)cuda_stub_memory;
    if (attribute != 2 || pointer < first || pointer >= first + sizeof cuda_stub_memory)
        return 1; /* as for host memory that CUDA does not know */
    *(unsigned *)data = 2;
    return 0;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == 1 ? "invalid argument" : "another error";
    return 0;
}
