/* allreduce_limit.c - what this machine's memory allows: N processes, buffers in one shared mapping, each reduces its slice of
 * everybody's buffer in place.  A measuring stick, not a library: build with -O3 -march=native -D_GNU_SOURCE.
 * Usage: allreduce_limit N BYTES...   prints a line `bytes median_us` for each size: float32, sum, in place. */
#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { _Alignas(128) atomic_uint round; } flag;
typedef float lanes __attribute__((vector_size(64), aligned(64)));

static void stream(lanes *out, lanes v)
{
#ifdef __AVX512F__
    _mm512_stream_ps((float *)out, (__m512)v);
#else
    *out = v;
#endif
}

static flag *flags;
static int ranks, rank;
static size_t largest = (size_t)2 << 20; /* bytes of a rank's buffer */
static unsigned meeting;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void meet(void)
{
    meeting++;
    atomic_store_explicit(&flags[rank].round, meeting, memory_order_release);
    for (int p = 0; p < ranks; p++)
        for (int spins = 0; (int)(atomic_load_explicit(&flags[p].round, memory_order_acquire) - meeting) < 0;)
            if (++spins > 200) { sched_yield(); spins = 0; } else _mm_pause();
}

static void allreduce(char *heap, size_t nbytes)
{
    meet();
    if (nbytes <= 1024) {                                   /* everyone sums everything: one meeting less to wait in a slice */
        float sum[256];
        size_t count = nbytes / 4;
        for (size_t i = 0; i < count; i++) {
            sum[i] = 0;
            for (int p = 0; p < ranks; p++) sum[i] += ((float *)(heap + (size_t)p * largest))[i];
        }
        meet();
        memcpy(heap + (size_t)rank * largest, sum, nbytes);
        return;
    }
    size_t blocks = nbytes / 64, first = blocks * (size_t)rank / (size_t)ranks, last = blocks * (size_t)(rank + 1) / (size_t)ranks;
    for (size_t i = first; i < last; i++) {
        lanes sum = ((lanes *)heap)[i];
        for (int p = 1; p < ranks; p++) sum += ((lanes *)(heap + (size_t)p * largest))[i];
        for (int p = 0; p < ranks; p++) {
            lanes *out = (lanes *)(heap + (size_t)p * largest) + i;
            if (nbytes > (size_t)8 << 20) stream(out, sum); else *out = sum;
        }
    }
    _mm_sfence();
    meet();
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: allreduce_limit N BYTES...\n");
        return 2;
    }
    ranks = atoi(argv[1]);
    for (int s = 2; s < argc; s++)
        while (largest < (size_t)atol(argv[s]))
            largest += (size_t)2 << 20;
    size_t total = (size_t)ranks * largest + ((size_t)1 << 20);
    char *heap = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    madvise(heap, total, MADV_HUGEPAGE);
    memset(heap, 0, total);
    flags = (flag *)(heap + (size_t)ranks * largest);
    for (int i = 1; i < ranks && rank == 0; i++)
        if (fork() == 0) rank = i;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)rank % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
    for (int s = 2; s < argc; s++) {
        size_t nbytes = (size_t)atol(argv[s]);
        int calls = nbytes <= 16384 ? 20000 : nbytes <= 1 << 20 ? 500 : nbytes <= 4 << 20 ? 60 : nbytes <= 100 << 20 ? 10 : 2;
        if (ranks > sysconf(_SC_NPROCESSORS_ONLN)) calls = calls / 10 + 2;
        double times[7];
        for (int w = 0; w < 7; w++) {
            meet();
            double start = now();
            for (int k = 0; k < calls; k++) allreduce(heap, nbytes);
            times[w] = (now() - start) / calls;
        }
        qsort(times, 7, sizeof *times, by_value);
        if (rank == 0) printf("%10zu %12.2f\n", nbytes, times[3] * 1e6);
    }
    if (rank != 0) _exit(0);
    while (wait(NULL) > 0) {}
    return 0;
}
