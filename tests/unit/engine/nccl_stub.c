/* nccl_stub.c - stands in for libnccl.so.2: writes down every call, one line each, for each rank; computes nothing. Its
 * prototypes are NCCL's, written from its documentation. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 8
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

typedef struct comm {
    int rank, n;
    char id[128];
} comm;
typedef struct { char bytes[128]; } id;

char nccl_stub_log[RANKS][8192];
char nccl_stub_id[RANKS][128];
int nccl_stub_fail; /* what the next call of rank 0 returns */
static _Thread_local int own_rank;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* ranks of sub-groups share logs */

__attribute__((format(printf, 2, 3))) static int note(const comm *c, const char *format, ...)
{
    va_list args;
    own_rank = c != NULL ? c->rank : own_rank;
    pthread_mutex_lock(&lock);
    char *log = nccl_stub_log[own_rank];
    const size_t used = strlen(log);
    va_start(args, format);
    vsnprintf(log + used, sizeof *nccl_stub_log - used, format, args);
    va_end(args);
    const int result = own_rank == 0 ? nccl_stub_fail : 0;
    if (own_rank == 0)
        nccl_stub_fail = 0;
    pthread_mutex_unlock(&lock);
    return result;
}

int ncclGetUniqueId(id *out)
{
    for (int i = 0; i < 128; i++)
        out->bytes[i] = (char)(i * 3 + 1);
    return 0;
}

int ncclCommInitRank(comm **out, int n, id who, int rank)
{
    comm *c = calloc(1, sizeof *c);
    c->rank = own_rank = rank;
    c->n = n;
    memcpy(nccl_stub_id[rank], who.bytes, 128);
    *out = c;
    return note(c, "init %d of %d\n", rank, n);
}

int ncclCommDestroy(comm *c)
{
    note(c, "destroy\n");
    free(c);
    return 0;
}

int ncclCommAbort(comm *c)
{
    note(c, "abort\n");
    free(c);
    return 0;
}

int ncclCommGetAsyncError(comm *c, int *out)
{
    (void)c;
    *out = 0;
    return 0;
}

const char *ncclGetErrorString(int result)
{
    return result == 6 ? "remote process exited" : result == 4 ? "invalid argument" : "some error";
}

const char *ncclGetLastError(comm *c)
{
    (void)c;
    return "the last error";
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, comm *c, void *stream)
{
    return note(c, "allreduce %zu type %d op %d%s\n", count, type, op, in == out ? " in place" : stream != NULL ? " stream" : "");
}

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, comm *c, void *stream)
{
    (void)in, (void)out, (void)stream;
    return note(c, "reduce %zu type %d op %d to %d\n", count, type, op, root);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, comm *c, void *stream)
{
    (void)in, (void)out, (void)stream;
    return note(c, "reduce_scatter %zu type %d op %d\n", count, type, op);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, comm *c, void *stream)
{
    (void)in, (void)out, (void)stream;
    return note(c, "all_gather %zu type %d\n", count, type);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, comm *c, void *stream)
{
    (void)in, (void)out, (void)stream;
    return note(c, "broadcast %zu type %d from %d\n", count, type, root);
}

int ncclSend(const void *data, size_t count, int type, int peer, comm *c, void *stream)
{
    (void)data, (void)stream;
    return note(c, "send %zu type %d to %d\n", count, type, peer);
}

int ncclRecv(void *data, size_t count, int type, int peer, comm *c, void *stream)
{
    (void)data, (void)stream;
    return note(c, "receive %zu type %d from %d\n", count, type, peer);
}

int ncclGroupStart(void)
{
    return note(NULL, "begin\n");
}

int ncclGroupEnd(void)
{
    return note(NULL, "end\n");
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, comm *c)
{
    unsigned bits = 0;
    memcpy(&bits, scalar, type == 6 || type == 9 ? 2 : 4);
    *op = 77;
    return note(c, "premul %x type %d residence %d\n", bits, type, residence);
}

int ncclRedOpDestroy(int op, comm *c)
{
    return note(c, "forget %d\n", op);
}
