/* arena.c - memfd, mapping, blocks.
 *
 * A block of 2 MiB or more begins with a huge page of its own: its memory is as much as that of small pages would be, as only huge
 * pages all of whose small ones are needed are taken, and all of it goes back with the block. Smaller blocks lie in small pages.
 *
 * Threads: any. `lock` guards the blocks of an arena, `arenas_lock` the list of this process's arenas; neither is held while
 * the other is taken, except arenas_lock -> nothing. */
#include "transport/shm/arena.h"

#include "core/log.h"
#include "core/memory.h"
#include "transport/shm/available.h"
#include "transport/shm/huge.h"
#include "transport/shm/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

typedef struct block {
    size_t offset, nbytes;
    size_t before; /* bytes in front that are its own too */
} block;

struct tdmi_arena {
    int fd;
    char *base;
    size_t nbytes, stagger;
    size_t large;        /* blocks of a page or more taken so far; guarded by lock */
    uint64_t number;
    tdmi_arena *next;    /* guarded by arenas_lock */
    int references;      /* guarded by arenas_lock */
    atomic_int refused;  /* errno of the last refusal of huge pages; for people */
    pthread_mutex_t lock;
    tdmi_ranges ranges;  /* guarded by lock; owner only */
    block *blocks;       /* guarded by lock */
    size_t block_count, block_capacity;
};

static pthread_mutex_t arenas_lock = PTHREAD_MUTEX_INITIALIZER;
static tdmi_arena *arenas; /* of this process's ranks; guarded by arenas_lock */

static tdm_status map(int fd, size_t nbytes, tdmi_arena **out)
{
    tdmi_arena *arena = tdmi_calloc(1, sizeof *arena, "arena");
    if (arena == NULL) {
        close(fd);
        return TDM_ERR_NO_MEMORY;
    }
    void *base = tdmi_huge_map(fd, 0, nbytes);
    if (base == MAP_FAILED) {
        tdm_status status = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot map %zu bytes of address space for shared memory; set "
                                            "TANDEM_ARENA_BYTES to less, or raise `ulimit -v`", nbytes);
        tdmi_free(arena);
        close(fd);
        return status;
    }
    (void)madvise(base, nbytes, MADV_DONTDUMP);
    arena->fd = fd;
    arena->base = base;
    arena->nbytes = nbytes;
    arena->references = 1;
    pthread_mutex_init(&arena->lock, NULL);
    *out = arena;
    return TDM_OK;
}

tdm_status tdmi_arena_map(int fd, size_t nbytes, tdmi_arena **out)
{
    return map(fd, nbytes, out);
}

tdm_status tdmi_arena_create(size_t nbytes, size_t stagger, tdmi_arena **out)
{
    nbytes = (nbytes + PAGE - 1) & ~(PAGE - 1);
    if (nbytes > tdmi_file_limit())
        return tdmi_fail(TDM_ERR_NO_MEMORY, "shared memory of %zu bytes is needed, the limit of file sizes is %zu; raise it "
                         "(`ulimit -f`) or set TANDEM_ARENA_BYTES to less", nbytes, tdmi_file_limit());
    int fd = memfd_create("tandem-arena", MFD_CLOEXEC);
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot create shared memory (memfd_create)");
    if (ftruncate(fd, (off_t)nbytes) != 0) {
        int error = errno;
        close(fd);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot make a shared memory file of %zu bytes; set TANDEM_ARENA_BYTES to "
                               "less", nbytes);
    }
    tdmi_arena *arena = NULL;
    tdm_status status = map(fd, nbytes, &arena);
    if (status != TDM_OK)
        return status;
    arena->stagger = stagger;
    status = tdmi_ranges_init(&arena->ranges, TDMI_ARENA_HEAD, nbytes - TDMI_ARENA_HEAD);
    if (status == TDM_OK)
        status = tdmi_arena_back(arena, 0, TDMI_ARENA_HEAD);
    while (status == TDM_OK && arena->number == 0)
        if (getrandom(&arena->number, sizeof arena->number, 0) != sizeof arena->number)
            status = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot draw a random number");
    if (status != TDM_OK) {
        tdmi_arena_release(arena);
        return status;
    }
    pthread_mutex_lock(&arenas_lock);
    arena->next = arenas;
    arenas = arena;
    pthread_mutex_unlock(&arenas_lock);
    *out = arena;
    return TDM_OK;
}

void tdmi_arena_prefer(tdmi_arena *arena, int node)
{
    unsigned long nodes[16] = {0};
    const size_t bits = 8 * sizeof *nodes;
    if (node < 0 || (size_t)node >= 8 * sizeof nodes)
        return;
    nodes[(size_t)node / bits] = 1ul << ((size_t)node % bits);
    /* The policy of the file, so it holds for what peers take too. Where the kernel has none, where is all the same. */
    (void)syscall(SYS_mbind, arena->base, arena->nbytes, MPOL_PREFERRED, nodes, 8 * sizeof nodes, 0);
}

tdmi_arena *tdmi_arena_find(uint64_t number)
{
    pthread_mutex_lock(&arenas_lock);
    tdmi_arena *arena = number != 0 ? arenas : NULL;
    while (arena != NULL && arena->number != number)
        arena = arena->next;
    if (arena != NULL)
        arena->references++;
    pthread_mutex_unlock(&arenas_lock);
    return arena;
}

void tdmi_arena_release(tdmi_arena *arena)
{
    if (arena == NULL)
        return;
    pthread_mutex_lock(&arenas_lock);
    bool last = --arena->references == 0;
    for (tdmi_arena **at = &arenas; last && *at != NULL; at = &(*at)->next)
        if (*at == arena) {
            *at = arena->next;
            break;
        }
    pthread_mutex_unlock(&arenas_lock);
    if (!last)
        return;
    munmap(arena->base, arena->nbytes);
    close(arena->fd);
    pthread_mutex_destroy(&arena->lock);
    tdmi_ranges_clear(&arena->ranges);
    tdmi_free(arena->blocks);
    tdmi_free(arena);
}

char *tdmi_arena_base(const tdmi_arena *arena)
{
    return arena->base;
}

size_t tdmi_arena_nbytes(const tdmi_arena *arena)
{
    return arena->nbytes;
}

int tdmi_arena_fd(const tdmi_arena *arena)
{
    return arena->fd;
}

uint64_t tdmi_arena_number(const tdmi_arena *arena)
{
    return arena->number;
}

tdm_status tdmi_arena_back(tdmi_arena *arena, size_t offset, size_t nbytes)
{
    size_t first = offset & ~(PAGE - 1), last = (offset + nbytes + PAGE - 1) & ~(PAGE - 1);
    const char *where;
    size_t available = tdmi_memory_available(&where);
    /* The kernel would rather kill a process than refuse: so look first. */
    if (last - first > available)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "shared memory: %zu bytes needed, %zu bytes free %s; give it more memory, or use fewer "
                         "ranks or smaller buffers", nbytes, available, where);
    const int refused = tdmi_huge_back(arena->base + first, last - first);
    if (refused != 0)
        atomic_store_explicit(&arena->refused, refused, memory_order_relaxed);
    if (fallocate(arena->fd, 0, (off_t)first, (off_t)(last - first)) != 0) { /* what is still without */
        int error = errno;
        return tdmi_fail_errno(TDM_ERR_NO_MEMORY, error == ENOSPC ? ENOMEM : error, "shared memory: %zu bytes needed, %zu bytes "
                               "free %s; give it more memory, or use fewer ranks or smaller buffers", nbytes, available, where);
    }
#ifdef MADV_POPULATE_WRITE
    (void)madvise(arena->base + first, last - first, MADV_POPULATE_WRITE); /* page tables too; else the first touch does it */
#endif
    return TDM_OK;
}

static tdm_status remember(tdmi_arena *arena, block taken)
{
    if (arena->block_count == arena->block_capacity) {
        size_t capacity = arena->block_capacity * 2 + 16;
        block *fresh = tdmi_realloc(arena->blocks, capacity * sizeof *fresh, "arena blocks");
        if (fresh == NULL)
            return TDM_ERR_NO_MEMORY;
        arena->blocks = fresh;
        arena->block_capacity = capacity;
    }
    arena->blocks[arena->block_count++] = taken;
    return TDM_OK;
}

/* Finds a place for the block. The lock is held. */
static tdm_status place(tdmi_arena *arena, block *taken)
{
    tdm_status status = TDM_ERR_NO_SPACE;
    size_t phase = 0;
    if (taken->nbytes >= PAGE) /* 32 places in a page: blocks of one rank differ too, and the n-th ones of different ranks do */
        phase = (arena->stagger + 11 * 128 * arena->large++) & (PAGE - 1);
    if (taken->nbytes >= TDMI_HUGE_PAGE) {
        taken->before = phase;
        status = tdmi_ranges_take(&arena->ranges, phase + taken->nbytes, TDMI_HUGE_PAGE, 0, &taken->offset);
        taken->offset += phase;
    }
    if (status == TDM_ERR_NO_SPACE) {
        taken->before = 0;
        status = tdmi_ranges_take(&arena->ranges, taken->nbytes, taken->nbytes >= PAGE ? PAGE : 128, phase, &taken->offset);
    }
    return status;
}

static void give_place(tdmi_arena *arena, block given)
{
    tdmi_ranges_give(&arena->ranges, given.offset - given.before, given.before + given.nbytes);
}

static size_t rounded(size_t nbytes)
{
    return nbytes == 0 ? 128 : (nbytes + 127) & ~(size_t)127;
}

tdm_status tdmi_arena_reserve(tdmi_arena *arena, size_t nbytes, void **out)
{
    if (nbytes > arena->nbytes)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "%zu bytes do not fit into an arena of %zu; set TANDEM_ARENA_BYTES to more", nbytes,
                         arena->nbytes);
    block taken = {.nbytes = rounded(nbytes)};
    pthread_mutex_lock(&arena->lock);
    tdm_status status = place(arena, &taken);
    if (status == TDM_ERR_NO_SPACE)
        status = tdmi_fail(TDM_ERR_NO_MEMORY, "arena of %zu bytes: a block of %zu is needed, the largest hole is %zu; set "
                           "TANDEM_ARENA_BYTES to more", arena->nbytes, nbytes, tdmi_ranges_largest(&arena->ranges));
    if (status == TDM_OK) {
        status = remember(arena, taken);
        if (status != TDM_OK)
            give_place(arena, taken);
    }
    pthread_mutex_unlock(&arena->lock);
    if (status == TDM_OK)
        *out = arena->base + taken.offset;
    return status;
}

/* How much of the memory behind an arena is in huge pages, and why not all of what could be. */
static void report(const tdmi_arena *arena)
{
    struct stat file;
    char setting[160], why[256] = "";
    if (fstat(arena->fd, &file) != 0)
        return;
    const int refused = atomic_load_explicit(&arena->refused, memory_order_relaxed);
    if (refused != 0) {
        tdmi_huge_setting(setting, sizeof setting);
        snprintf(why, sizeof why, "; MADV_COLLAPSE was refused (%s), %s", strerror(refused), setting);
    }
    const double mib = 1 << 20;
    log_debug(TDM_LOG_TRANSPORT, "of %.1f MiB of shared memory %.1f MiB are in huge pages%s", (double)file.st_blocks * 512 / mib,
              (double)tdmi_huge_bytes(arena->base) / mib, why);
}

tdm_status tdmi_arena_take(tdmi_arena *arena, size_t nbytes, void **out)
{
    void *taken;
    tdm_status status = tdmi_arena_reserve(arena, nbytes, &taken);
    if (status != TDM_OK)
        return status;
    status = tdmi_arena_back(arena, (size_t)((char *)taken - arena->base), rounded(nbytes));
    if (status != TDM_OK) {
        (void)tdmi_arena_give(arena, taken);
        return status;
    }
    if (nbytes >= TDMI_HUGE_PAGE && tdmi_log_enabled(TDM_LOG_TRANSPORT, TDMI_LEVEL_DEBUG))
        report(arena);
    *out = taken;
    return TDM_OK;
}

/* What is in no block is zero: the kernel frees whole pages and clears the parts of those that are shared with a neighbour. */
void tdmi_arena_discard(tdmi_arena *arena, size_t offset, size_t nbytes)
{
    if (nbytes > 0)
        (void)fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)nbytes);
}

bool tdmi_arena_give(tdmi_arena *arena, void *taken)
{
    size_t offset = (size_t)((char *)taken - arena->base), i = 0;
    pthread_mutex_lock(&arena->lock);
    while (i < arena->block_count && arena->blocks[i].offset != offset)
        i++;
    bool found = i < arena->block_count;
    if (found) {
        block given = arena->blocks[i];
        arena->blocks[i] = arena->blocks[--arena->block_count];
        tdmi_arena_discard(arena, given.offset - given.before, given.before + given.nbytes);
        give_place(arena, given);
    }
    pthread_mutex_unlock(&arena->lock);
    return found;
}
