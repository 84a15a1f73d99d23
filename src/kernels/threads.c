/* threads.c - the number of threads kernels use, and tiles shared among them by OpenMP.
 *
 * Threads: a kernel is called by one thread, the executor's. With more than one thread, OpenMP's pool of that thread takes
 * tiles as they come; every tile writes memory of its own, and the call returns when all are done. */
#include "kernels/threads.h"

#include "core/clock.h"
#include "core/denormals.h"
#include "kernels/kernel.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#else
/* Built without OpenMP, kernels use one thread, but a library that they call may still have brought its runtime along. */
int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int count) __attribute__((weak));
#endif

static atomic_int threads; /* relaxed; 0: not known yet */

void tdmi_kernels_set_threads(int count)
{
    atomic_store_explicit(&threads, count < 1 ? 1 : count, memory_order_relaxed);
}

int tdmi_kernels_threads(void)
{
    int count = atomic_load_explicit(&threads, memory_order_relaxed);
    if (count == 0) {
        const char *text = getenv("OMP_NUM_THREADS");
        tdmi_kernels_set_threads(text != NULL ? atoi(text) : 1);
        count = atomic_load_explicit(&threads, memory_order_relaxed);
    }
    return count;
}

#define PAUSE_NS (TDMI_NS_PER_MS / 4) /* between two pauses */

static _Thread_local struct {
    void (*call)(void *arg);
    void *arg;
    int64_t last_ns;
} pause_of_thread;

void tdmi_kernels_set_pause(void (*pause)(void *arg), void *arg)
{
    pause_of_thread.call = pause;
    pause_of_thread.arg = arg;
    if (pause != NULL)
        pause_of_thread.last_ns = tdmi_now_ns();
}

static void between_tiles(int64_t tile)
{
    if (tile == 0 || pause_of_thread.call == NULL || tdmi_now_ns() - pause_of_thread.last_ns < PAUSE_NS)
        return;
    pause_of_thread.call(pause_of_thread.arg);
    pause_of_thread.last_ns = tdmi_now_ns();
}

static void run_tile(void (*body)(void *arg, int64_t tile, int worker), void *arg, int64_t tile, int worker)
{
    const uint64_t before = tdmi_denormals_flush();
    body(arg, tile, worker);
    tdmi_denormals_restore(before);
}

void tdmi_kernels_tiles(int64_t tiles, void (*body)(void *arg, int64_t tile, int worker), void *arg)
{
#ifdef _OPENMP
    const int count = tdmi_kernels_threads();
    if (count > 1 && tiles > 1) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(count)
        for (int64_t tile = 0; tile < tiles; tile++) {
            between_tiles(tile); /* only the thread that called has a pause */
            run_tile(body, arg, tile, omp_get_thread_num());
        }
        return;
    }
#endif
    for (int64_t tile = 0; tile < tiles; tile++) {
        between_tiles(tile);
        run_tile(body, arg, tile, 0);
    }
}

void tdmi_kernels_on_one_thread(void (*body)(void *arg), void *arg)
{
#ifndef _OPENMP
    if (omp_get_max_threads == NULL || omp_set_num_threads == NULL) {
        body(arg);
        return;
    }
#endif
    const int count = omp_get_max_threads();
    omp_set_num_threads(1);
    body(arg);
    omp_set_num_threads(count);
}
