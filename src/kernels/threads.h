/* threads.h - work cut into fixed tiles, shared by the threads of a kernel. Tiles never depend on the number of threads, so
 * neither do results. */
#ifndef TDMI_KERNELS_THREADS_H
#define TDMI_KERNELS_THREADS_H

#include <stdint.h>

/* As set by tdmi_kernels_set_threads, else OMP_NUM_THREADS, else 1. */
int tdmi_kernels_threads(void);
/* body(arg, tile, worker) for each tile in 0..tiles-1; worker < tdmi_kernels_threads() names scratch nobody else uses now.
 * One thread: a plain loop. Inside a tile denormals are 0. */
void tdmi_kernels_tiles(int64_t tiles, void (*body)(void *arg, int64_t tile, int worker), void *arg);
/* From now on pause(arg) is called in this thread between two tiles of a kernel that it runs, at most every quarter of a
 * millisecond; NULL: no more. It must not run kernels. How long a tile takes is up to the kernel: some ms in the largest products. */
void tdmi_kernels_set_pause(void (*pause)(void *arg), void *arg);
/* body(arg) while OpenMP tells this thread's libraries that there is one thread: how a library plans a piece of work that one
 * thread will do. */
void tdmi_kernels_on_one_thread(void (*body)(void *arg), void *arg);

#endif
