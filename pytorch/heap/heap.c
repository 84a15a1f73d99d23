/* heap.c - blocks, and how their pages change between private and shared. */
#include "heap.h"

#include "runs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define HUGE_PAGES ((uint32_t)(HUGE_BYTES / HEAP_PAGE))
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct heap {
    pthread_mutex_t lock;
    char *base;
    char *mirror;      /* the memfd at other addresses, for copying into it */
    uint8_t *present;
    size_t nbytes;
    int fd;
    bool is_child;     /* of fork(): written before it has threads */
    runs runs;         /* guarded by lock, as is all below */
    uint32_t highest;  /* page behind the last one that was ever shared */
    uint64_t used_pages, peak_pages, shared_pages, takes, gives, shares;
};

static heap *the_heap; /* for the handlers of fork() */

static char *address_of(const heap *h, uint32_t page)
{
    return h->base + (size_t)page * HEAP_PAGE;
}

static uint32_t page_of(const heap *h, const void *address)
{
    return (uint32_t)((size_t)((const char *)address - h->base) / HEAP_PAGE);
}

/* Address space whose start is a multiple of a huge page. */
static char *reserve(size_t nbytes)
{
    char *room = mmap(NULL, nbytes + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    const size_t skip = -(uintptr_t)room & (HUGE_BYTES - 1);
    if (skip > 0)
        munmap(room, skip);
    munmap(room + skip + nbytes, HUGE_BYTES - skip);
    return room + skip;
}

/* Fresh zero pages of this process alone. */
static bool make_private(char *at, size_t nbytes)
{
    if (mmap(at, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    (void)madvise(at, nbytes, MADV_HUGEPAGE);
    return true;
}

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&the_heap->lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&the_heap->lock);
}

static void after_fork_in_child(void)
{
    heap *h = the_heap;
    h->is_child = true;
    for (uint32_t page = 0; page < h->highest;) {
        const uint8_t *first = memchr(h->present + page, 1, h->highest - page);
        if (first == NULL)
            break;
        page = (uint32_t)(first - h->present);
        const uint8_t *end = memchr(first, 0, h->highest - page);
        const uint32_t pages = end != NULL ? (uint32_t)(end - first) : h->highest - page;
        (void)!mmap(address_of(h, page), pages * HEAP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, h->fd,
                    (off_t)(page * HEAP_PAGE));
        page += pages;
    }
    pthread_mutex_unlock(&h->lock);
}

/* ---- life ---- */

static bool map_all(heap *h)
{
    const size_t pages = h->nbytes / HEAP_PAGE;
    h->fd = memfd_create("tandem_torch", MFD_CLOEXEC);
    if (h->fd < 0 || ftruncate(h->fd, (off_t)h->nbytes) != 0)
        return false;
    h->present = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (h->present == MAP_FAILED)
        return false;
    h->base = reserve(h->nbytes);
    h->mirror = h->base == NULL ? NULL : reserve(h->nbytes);
    if (h->mirror == NULL || !make_private(h->base, h->nbytes))
        return false;
    if (mmap(h->mirror, h->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, h->fd, 0) == MAP_FAILED)
        return false;
    (void)madvise(h->mirror, h->nbytes, MADV_DONTFORK);
    return runs_open(&h->runs, (uint32_t)pages);
}

static void unmap_all(heap *h)
{
    const int error = errno;
    if (h->mirror != NULL)
        munmap(h->mirror, h->nbytes);
    if (h->base != NULL)
        munmap(h->base, h->nbytes);
    if (h->present != NULL && h->present != MAP_FAILED)
        munmap(h->present, h->nbytes / HEAP_PAGE);
    if (h->fd >= 0)
        close(h->fd);
    free(h);
    errno = error;
}

heap *heap_open(size_t nbytes)
{
    nbytes &= ~(HEAP_PAGE - 1);
    if (nbytes == 0 || nbytes / HEAP_PAGE >= RUNS_NONE || the_heap != NULL) {
        errno = EINVAL;
        return NULL;
    }
    heap *h = calloc(1, sizeof *h);
    if (h == NULL)
        return NULL;
    h->nbytes = nbytes;
    pthread_mutex_init(&h->lock, NULL);
    if (!map_all(h)) {
        unmap_all(h);
        return NULL;
    }
    the_heap = h;
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return h;
}

int heap_fd(const heap *h)
{
    return h->fd;
}

char *heap_base(const heap *h)
{
    return h->base;
}

size_t heap_nbytes(const heap *h)
{
    return h->nbytes;
}

const uint8_t *heap_present(const heap *h)
{
    return h->present;
}

bool heap_holds(const heap *h, const void *address)
{
    return (size_t)((uintptr_t)address - (uintptr_t)h->base) < h->nbytes;
}

/* ---- private and shared ---- */

/* Pages for a part of the memfd, before anybody touches it: else a full machine is a signal. A whole huge page is one where the kernel
 * gives it: begun with a small one, because it asks for a page table. */
static bool back(heap *h, size_t at, size_t nbytes)
{
    if (nbytes == HUGE_BYTES && madvise(h->mirror + at, HEAP_PAGE, MADV_POPULATE_WRITE) == 0 &&
        madvise(h->mirror + at, nbytes, MADV_COLLAPSE) == 0)
        return true;
    return fallocate(h->fd, 0, (off_t)at, (off_t)nbytes) == 0;
}

/* Copies [at, at + nbytes) of a block into the memfd and maps that in its place. */
static bool share_part(heap *h, size_t at, size_t nbytes)
{
    if (!back(h, at, nbytes))
        return false;
    memcpy(h->mirror + at, h->base + at, nbytes);
    if (mmap(h->base + at, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, h->fd, (off_t)at) == MAP_FAILED)
        return false;
    (void)madvise(h->base + at, nbytes, MADV_POPULATE_WRITE);
    (void)madvise(h->mirror + at, nbytes, MADV_DONTNEED); /* the mapping, not the file's pages */
    memset(h->present + at / HEAP_PAGE, 1, nbytes / HEAP_PAGE);
    h->shared_pages += nbytes / HEAP_PAGE;
    return true;
}

/* The run's memory goes back to the system; it is private, and used by nobody. False: it stays as it is. */
static bool make_run_private(heap *h, uint32_t first)
{
    const uint32_t pages = h->runs.table[first].pages;
    if (!make_private(address_of(h, first), pages * HEAP_PAGE))
        return false;
    (void)fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(first * HEAP_PAGE), (off_t)(pages * HEAP_PAGE));
    for (uint32_t i = first; i < first + pages; i++) {
        h->shared_pages -= h->present[i];
        h->present[i] = 0;
    }
    return true;
}

static bool share_block(heap *h, uint32_t first)
{
    run *block = &h->runs.table[first];
    if (block->kind == RUNS_SHARED)
        return true;
    const size_t begin = first * HEAP_PAGE, end = begin + block->pages * HEAP_PAGE;
    for (size_t at = begin; at < end;) { /* part by part, so that no more memory is needed meanwhile */
        const size_t to = (at / HUGE_BYTES + 1) * HUGE_BYTES, nbytes = (to < end ? to : end) - at;
        if (h->present[at / HEAP_PAGE] == 0 && !share_part(h, at, nbytes))
            return false; /* what was shared is right as it is */
        if (at + nbytes > h->highest * HEAP_PAGE)
            h->highest = (uint32_t)((at + nbytes) / HEAP_PAGE);
        at += nbytes;
    }
    block->kind = RUNS_SHARED;
    h->runs.table[first + block->pages - 1].kind = RUNS_SHARED;
    h->shares++;
    return true;
}

bool heap_share(heap *h, void *block)
{
    const uint32_t first = page_of(h, block);
    if (__atomic_load_n(&h->runs.table[first].kind, __ATOMIC_RELAXED) == RUNS_SHARED) /* of a block that is in use: only its user changes it */
        return true;
    if (h->is_child)
        return false;
    pthread_mutex_lock(&h->lock);
    const bool done = h->runs.table[first].state == RUN_USED && share_block(h, first);
    pthread_mutex_unlock(&h->lock);
    return done;
}

/* ---- blocks ---- */

static uint32_t take_pages(heap *h, uint32_t pages)
{
    const uint32_t align = pages >= HUGE_PAGES ? HUGE_PAGES : 1;
    uint32_t first = runs_take_whole(&h->runs, RUNS_SHARED, pages);
    if (first == RUNS_NONE)
        first = runs_take(&h->runs, RUNS_PRIVATE, pages, align);
    return first != RUNS_NONE || align == 1 ? first : runs_take(&h->runs, RUNS_PRIVATE, pages, 1);
}

void *heap_take(heap *h, size_t nbytes)
{
    if (h->is_child || nbytes == 0 || nbytes > h->nbytes)
        return NULL;
    const uint32_t pages = (uint32_t)((nbytes + HEAP_PAGE - 1) / HEAP_PAGE);
    pthread_mutex_lock(&h->lock);
    const uint32_t first = take_pages(h, pages);
    if (first != RUNS_NONE) {
        h->used_pages += h->runs.table[first].pages;
        if (h->used_pages > h->peak_pages)
            h->peak_pages = h->used_pages;
        h->takes++;
    }
    pthread_mutex_unlock(&h->lock);
    return first != RUNS_NONE ? address_of(h, first) : NULL;
}

/* Whether there is more free memory of a kind than is kept. */
static bool rests_too_much(const heap *h, int kind)
{
    const uint64_t floor = HEAP_KEEP_BYTES / HEAP_PAGE;
    return h->runs.dirty_pages[kind] > (h->used_pages > floor ? h->used_pages : floor);
}

static void clean(heap *h, uint32_t first)
{
    if (madvise(address_of(h, first), h->runs.table[first].pages * HEAP_PAGE, MADV_DONTNEED) == 0)
        runs_clean(&h->runs, first);
}

/* A run that is free or used becomes a free private one. */
static void give_private(heap *h, uint32_t first, uint32_t dirty)
{
    first = runs_give(&h->runs, first, RUNS_PRIVATE, dirty, true);
    if (rests_too_much(h, RUNS_PRIVATE))
        clean(h, first);
}

/* Parts of a block that could not be shared as a whole. */
static bool has_shared_parts(const heap *h, uint32_t first)
{
    return memchr(h->present + first, 1, h->runs.table[first].pages) != NULL;
}

static void give_pages(heap *h, uint32_t first)
{
    const uint32_t pages = h->runs.table[first].pages;
    if (h->runs.table[first].kind == RUNS_SHARED) {
        runs_give(&h->runs, first, RUNS_SHARED, pages, false);
        return;
    }
    if (!has_shared_parts(h, first))
        give_private(h, first, pages);
    else if (make_run_private(h, first))
        give_private(h, first, 0);
    else
        h->used_pages += pages; /* of no use to anybody any more */
}

/* Turns the largest free shared run into private memory that is not backed. */
static bool drop_shared(heap *h)
{
    const uint32_t first = runs_any(&h->runs, RUNS_SHARED);
    if (first == RUNS_NONE)
        return false;
    runs_take_this(&h->runs, first);
    if (!make_run_private(h, first)) {
        runs_give(&h->runs, first, RUNS_SHARED, h->runs.table[first].pages, false);
        return false;
    }
    give_private(h, first, 0);
    return true;
}

void heap_give(heap *h, void *block)
{
    if (h->is_child)
        return;
    pthread_mutex_lock(&h->lock);
    const uint32_t first = page_of(h, block);
    h->used_pages -= h->runs.table[first].pages;
    h->gives++;
    give_pages(h, first);
    while (rests_too_much(h, RUNS_SHARED) && drop_shared(h)) {
    }
    pthread_mutex_unlock(&h->lock);
}

size_t heap_trim(heap *h)
{
    if (h->is_child)
        return 0;
    pthread_mutex_lock(&h->lock);
    const uint64_t before = h->runs.dirty_pages[RUNS_PRIVATE] + h->runs.dirty_pages[RUNS_SHARED];
    while (drop_shared(h)) {
    }
    for (uint32_t page = 0; page < h->runs.pages; page += h->runs.table[page].pages)
        if (h->runs.table[page].state == RUN_FREE && h->runs.table[page].dirty > 0)
            clean(h, page);
    const uint64_t after = h->runs.dirty_pages[RUNS_PRIVATE] + h->runs.dirty_pages[RUNS_SHARED];
    pthread_mutex_unlock(&h->lock);
    return (size_t)(before - after) * HEAP_PAGE;
}

heap_stats heap_look(heap *h)
{
    pthread_mutex_lock(&h->lock);
    const heap_stats stats = {.in_use = h->used_pages * HEAP_PAGE,
                              .peak = h->peak_pages * HEAP_PAGE,
                              .shared = h->shared_pages * HEAP_PAGE,
                              .resting = (h->runs.dirty_pages[RUNS_PRIVATE] + h->runs.dirty_pages[RUNS_SHARED]) * HEAP_PAGE,
                              .takes = h->takes,
                              .gives = h->gives,
                              .shares = h->shares};
    pthread_mutex_unlock(&h->lock);
    return stats;
}
