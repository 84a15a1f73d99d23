/* huge.c - MADV_COLLAPSE: the one way to huge pages of a memfd that no setting of the machine forbids (Linux 6.1; the default of
 * shmem_enabled is never). It asks for a page table where it is to put the huge page, so each page is begun with a small one. That
 * takes less than half the time of 512 small pages. Where the kernel refuses, small pages do. */
#include "transport/shm/huge.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define SMALL_PAGE 4096
#define SETTING "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

void *tdmi_huge_map(int fd, off_t offset, size_t nbytes)
{
    const size_t phase = (size_t)offset & (TDMI_HUGE_PAGE - 1);
    char *room = mmap(NULL, nbytes + TDMI_HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return room;
    const size_t skip = (phase - (uintptr_t)room) & (TDMI_HUGE_PAGE - 1);
    const size_t length = (nbytes + SMALL_PAGE - 1) & ~(size_t)(SMALL_PAGE - 1);
    char *base = mmap(room + skip, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, offset);
    const int error = errno;
    if (base == MAP_FAILED) {
        munmap(room, nbytes + TDMI_HUGE_PAGE);
        errno = error;
        return base;
    }
    if (skip > 0)
        munmap(room, skip);
    munmap(base + length, nbytes + TDMI_HUGE_PAGE - skip - length);
    (void)madvise(base, nbytes, MADV_HUGEPAGE); /* where the system is set up for it */
    return base;
}

int tdmi_huge_back(char *at, size_t nbytes)
{
    const size_t skip = -(uintptr_t)at & (TDMI_HUGE_PAGE - 1);
    if (nbytes < skip + TDMI_HUGE_PAGE)
        return 0;
    char *first = at + skip;
    const size_t length = (nbytes - skip) & ~(TDMI_HUGE_PAGE - 1);
    for (size_t i = 0; i < length; i += TDMI_HUGE_PAGE)
        if (madvise(first + i, SMALL_PAGE, MADV_POPULATE_WRITE) != 0)
            return errno;
    return madvise(first, length, MADV_COLLAPSE) != 0 ? errno : 0;
}

size_t tdmi_huge_bytes(const void *base)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    if (file == NULL)
        return 0;
    char line[512];
    unsigned long first, last, kib;
    size_t found = 0;
    for (int inside = 0; fgets(line, sizeof line, file) != NULL;) {
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            inside = first == (uintptr_t)base;
        else if (inside && sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)
            found = (size_t)kib * 1024;
    }
    fclose(file);
    return found;
}

void tdmi_huge_setting(char *text, size_t nbytes)
{
    char line[128] = "";
    FILE *file = fopen(SETTING, "re");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    const char *open = strchr(line, '[');
    if (open != NULL)
        snprintf(text, nbytes, SETTING " is %.*s", (int)strcspn(open + 1, "]"), open + 1);
    else
        snprintf(text, nbytes, "this kernel has no huge pages for shared memory");
}
