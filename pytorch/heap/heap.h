/* heap.h - memory for tensors that the other ranks of the node can come to reach.
 *
 * One address range. A block is private memory, with ordinary fork() semantics, until heap_share turns its pages into pages of a
 * memfd: its address and its bytes stay. A shared block that is given back stays shared for the next block of about its size,
 * since buffers of collectives come and go in the same sizes.
 *
 *            block 0 (private)   block 1 (shared)        free
 *     base   |anonymous pages    |pages of the memfd     |anonymous, not touched ...
 *     present 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 1 1 1 0 0 0 ...       a byte a page
 *
 * Memory that is free but still backed is kept for the next blocks, up to as much as is in use (at least HEAP_KEEP_BYTES); what goes
 * beyond goes back to the system. From 2 MiB on blocks begin on huge pages.
 *
 * fork(): the child owns no part of the heap. heap_take gives it nothing, heap_give forgets; shared pages become copy-on-write in it, so
 * what it writes is its own. What no one can mend: pages that were shared before the fork show the child what the parent writes later.
 * A process has one heap (its handlers of fork() know it).
 * Threads: any. Nothing here is ever freed: tensors outlive everything. */
#ifndef TANDEM_TORCH_HEAP_H
#define TANDEM_TORCH_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAP_PAGE ((size_t)4096)
#define HEAP_KEEP_BYTES ((size_t)256 << 20)

typedef struct heap heap;

typedef struct heap_stats {
    size_t in_use, peak;         /* bytes of blocks handed out */
    size_t shared;               /* bytes that are the memfd's, free blocks included */
    size_t resting;              /* bytes of free memory that are still backed */
    uint64_t takes, gives, shares; /* calls that did it */
} heap_stats;

/* nbytes: the most it will ever hold, a whole number of pages at most 2^32; address space only. NULL and errno. */
heap *heap_open(size_t nbytes);
int heap_fd(const heap *h);
char *heap_base(const heap *h);
size_t heap_nbytes(const heap *h);
/* [nbytes / HEAP_PAGE]: 1 where the page is the memfd's. */
const uint8_t *heap_present(const heap *h);

/* A block, aligned to a page; bytes are undefined. NULL: no room (or a child of fork()). Cost: about 0.1 us. */
void *heap_take(heap *h, size_t nbytes);
void heap_give(heap *h, void *block);
bool heap_holds(const heap *h, const void *address);
/* Makes the whole block that begins at `block` shared, if it is not. Nobody may write to it meanwhile. False: the system gives no shared
 * memory for it; it is as usable as before. Cost: a copy, once, about 0.3 to 1 ms a MiB; then tens of ns. */
bool heap_share(heap *h, void *block);
/* Gives all free memory back to the system; free shared blocks become private. Returns how many bytes that was. */
size_t heap_trim(heap *h);
heap_stats heap_look(heap *h);

#ifdef __cplusplus
}
#endif
#endif
