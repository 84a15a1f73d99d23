/* copy_limit.c - what this machine's memory allows N processes that all copy at once what a collective must move: meet, copy out of
 * the others' buffers in one shared mapping into one's own, meet. No checks, nothing but memcpy or stores that pass the cache by,
 * the faster of the two: a measuring stick. Build with -O3 -march=native -D_GNU_SOURCE.
 * Usage: copy_limit N OP BYTES...   prints a line `bytes median_us` for each size of the larger buffer.
 * OP     all_gather, reduce_scatter  (n-1)/n of the bytes a rank, a part from each other rank
 *        alltoall                    all of them, a part from each rank
 *        broadcast                   all of them, from rank 0, which copies nothing */
#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WINDOWS 7
#define WINDOW_S 2e-3
#define STAGGER 4160 /* buffers whose addresses agree modulo 4096 are slow */
typedef struct { _Alignas(128) atomic_uint round; } flag;
typedef long long lanes __attribute__((vector_size(32), aligned(1)));

static flag *flags;
static int ranks, rank, cores;
static unsigned meeting;
static char *heap;
static size_t room; /* bytes of one buffer; rank r has buffers 2 r (its input) and 2 r + 1 */

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
        for (int spins = 0; (int)(atomic_load_explicit(&flags[p].round, memory_order_acquire) - meeting) < 0;) {
            if (ranks > cores || ++spins > 200) {
                sched_yield();
                spins = 0;
            } else {
                _mm_pause();
            }
        }
}

static void copy(char *to, const char *from, size_t nbytes, int streams)
{
    if (!streams) {
        memcpy(to, from, nbytes);
        return;
    }
    size_t i = -(size_t)(uintptr_t)to % 32;
    i = i < nbytes ? i : nbytes;
    memcpy(to, from, i);
    for (; i + 32 <= nbytes; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(to + i), (__m256i) * (const lanes *)(const void *)(from + i));
    memcpy(to + i, from + i, nbytes - i);
}

static void collective(const char *op, size_t nbytes, int streams)
{
    const size_t part = nbytes / (size_t)ranks;
    char *own = heap + (size_t)(2 * rank + 1) * room;
    meet();
    if (strcmp(op, "broadcast") == 0) {
        if (rank != 0)
            copy(own, heap, nbytes, streams);
    } else {
        for (int k = strcmp(op, "alltoall") == 0 ? 0 : 1; k < ranks; k++) {
            const int peer = (rank + k) % ranks;
            copy(own + (size_t)peer * part, heap + (size_t)(2 * peer) * room + (size_t)rank * part, part, streams);
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

/* Seconds of one call, median of the windows; *calls of a window are what rank 0 finds and says in shared memory. */
static double measure(const char *op, size_t nbytes, int streams, int *calls)
{
    double times[WINDOWS];
    meet();
    double start = now();
    for (int k = 0; k < 3; k++)
        collective(op, nbytes, streams);
    if (rank == 0) {
        const double most = WINDOW_S * 3 / (now() - start);
        *calls = most > 1e5 ? 100000 : most > 1 ? (int)most : 1;
    }
    for (int w = 0; w < WINDOWS; w++) {
        meet();
        start = now();
        const int n = *calls;
        for (int k = 0; k < n; k++)
            collective(op, nbytes, streams);
        times[w] = (now() - start) / n;
    }
    qsort(times, WINDOWS, sizeof *times, by_value);
    return times[WINDOWS / 2];
}

int main(int argc, char **argv)
{
    size_t largest = 4096;
    for (int s = 3; s < argc; s++)
        largest = (size_t)atoll(argv[s]) > largest ? (size_t)atoll(argv[s]) : largest;
    if (argc < 4 || (ranks = atoi(argv[1])) < 1) {
        fprintf(stderr, "usage: copy_limit N all_gather|reduce_scatter|alltoall|broadcast BYTES...\n");
        return 2;
    }
    cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    room = (largest + 4095) / 4096 * 4096 + STAGGER;
    const size_t total = 2 * (size_t)ranks * room + ((size_t)1 << 20);
    heap = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) {
        perror("copy_limit: memory");
        return 1;
    }
    madvise(heap, total, MADV_HUGEPAGE);
    flags = (flag *)(((uintptr_t)heap + 2 * (size_t)ranks * room + 127) / 128 * 128);
    memset(heap, 1, 2 * (size_t)ranks * room);
    int *calls = (int *)(void *)(flags + ranks);
    for (int i = 1; i < ranks && rank == 0; i++)
        if (fork() == 0)
            rank = i;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(rank % cores), &set);
    sched_setaffinity(0, sizeof set, &set);
    for (int s = 3; s < argc; s++) {
        const size_t nbytes = (size_t)atoll(argv[s]);
        const double plain = measure(argv[2], nbytes, 0, calls), streamed = measure(argv[2], nbytes, 1, calls);
        if (rank == 0)
            printf("%zu %.3f\n", nbytes, (plain < streamed ? plain : streamed) * 1e6);
    }
    if (rank != 0)
        _exit(0);
    while (wait(NULL) > 0) {
    }
    return 0;
}
