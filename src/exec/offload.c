/* offload.c - optimizer state in a file, for models whose state does not fit into memory.
 *
 * The file has no name any more once it is open, so it goes with the process. All of its blocks are reserved first: a full disk is
 * an error now, and no SIGBUS later. A step reads and writes each slice once, in the order of buckets; what an update has left
 * is marked cold, so that the kernel takes those pages, and no others, when memory gets short.
 * Cost    where memory is short, two moments of a slice are read and written a step; where it is not, nothing
 * Source  Rajbhandari et al., ZeRO-Infinity, SC 2021, arXiv 2104.07857 (the idea: state on a disk, streamed in a step's order) */
#include "exec/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MIB (1024.0 * 1024.0)

static size_t pages(size_t nbytes)
{
    return (nbytes + PAGE - 1) / PAGE * PAGE;
}

static tdm_status open_file(const char *folder, int *fd)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/.tandem-optimizer-XXXXXX", folder) >= (int)sizeof path)
        return tdmi_fail(TDM_ERR_INVALID, "--offload: a path of %zu bytes is too long", strlen(folder));
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0)
        return tdmi_fail(TDM_ERR_SYSTEM, "--offload %s: cannot make a file there: %s", folder, strerror(errno));
    if (unlink(path) != 0)
        return tdmi_fail(TDM_ERR_SYSTEM, "--offload %s: cannot remove the name of a file there: %s", folder, strerror(errno));
    return TDM_OK;
}

static tdm_status reserve(const char *folder, int fd, size_t nbytes, int ranks)
{
    const int error = posix_fallocate(fd, 0, (off_t)nbytes);
    struct statvfs disk;
    if (error == 0)
        return TDM_OK;
    const double free_mib = fstatvfs(fd, &disk) == 0 ? (double)disk.f_bavail * (double)disk.f_frsize / MIB : 0;
    if (error == ENOSPC || error == EFBIG || error == EDQUOT)
        return tdmi_fail(TDM_ERR_NO_SPACE, "--offload %s: the optimizer state of a rank takes %.1f MiB, %d rank%s of this node write "
                         "there, and %.1f MiB are free (%s); give a folder with more room", folder, (double)nbytes / MIB, ranks,
                         ranks == 1 ? "" : "s", free_mib, strerror(error));
    return tdmi_fail(TDM_ERR_SYSTEM, "--offload %s: cannot reserve %.1f MiB: %s", folder, (double)nbytes / MIB, strerror(error));
}

tdm_status exec_offload(tdmi_exec *exec)
{
    const int moments = tdmi_optimizer_moments(&exec->options.optimizer), buckets = exec->graph->bucket_count;
    const char *folder = exec->options.offload;
    size_t nbytes = 0;
    int fd = -1;
    for (int b = 0; b < buckets; b++)
        nbytes += (size_t)moments * pages(exec->bucket[b].slice_count * sizeof(float));
    if (nbytes == 0)
        return TDM_OK;
    tdm_status st = open_file(folder, &fd);
    if (st == TDM_OK)
        st = reserve(folder, fd, nbytes, tdm_group_local_size(exec->options.group));
    void *map = st == TDM_OK ? mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (st == TDM_OK && map == MAP_FAILED)
        st = tdmi_fail(TDM_ERR_SYSTEM, "--offload %s: cannot map %.1f MiB: %s", folder, (double)nbytes / MIB, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    if (st != TDM_OK)
        return st;
    exec->offloaded = map;
    exec->offloaded_nbytes = nbytes;
    char *at = map;
    for (int b = 0; b < buckets; b++)
        for (int k = 0; k < moments; k++) {
            exec->bucket[b].moment[k] = (float *)(void *)at;
            at += pages(exec->bucket[b].slice_count * sizeof(float));
        }
    return TDM_OK;
}

void exec_offload_end(tdmi_exec *exec)
{
    if (exec->offloaded != NULL)
        (void)munmap(exec->offloaded, exec->offloaded_nbytes);
}

void exec_offload_left(tdmi_exec *exec, int bucket)
{
    const exec_bucket *b = &exec->bucket[bucket];
    for (int k = 0; k < TDMI_MOMENTS_MAX && exec->offloaded != NULL; k++)
        if (b->moment[k] != NULL)
            (void)madvise(b->moment[k], pages(b->slice_count * sizeof(float)), MADV_COLD); /* a wish: older kernels do not know it */
}
