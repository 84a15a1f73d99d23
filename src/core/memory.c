/* memory.c - labelled allocation over malloc. A 64-byte header in front of each block holds its label and sizes; live
 * blocks are linked under a lock, which is not on any hot path: a warm step allocates nothing. */
#include "core/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct header {
    struct header *next, *prev; /* guarded by lock */
    const char *label;
    size_t nbytes;
    void *base; /* what malloc gave */
    uint64_t magic;
} header;

#define MAGIC 0x54444d424c4f434bull
#define HEADER_BYTES 64
_Static_assert(sizeof(header) <= HEADER_BYTES, "the header fits in front of a cache line");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static header *blocks;                      /* guarded by lock */
static atomic_uint_least64_t allocations;   /* relaxed counter */
static atomic_size_t held;                  /* relaxed counter */

static header *header_of(void *block)
{
    return (header *)(void *)((char *)block - HEADER_BYTES);
}

static void link_block(header *h)
{
    pthread_mutex_lock(&lock);
    h->prev = NULL;
    h->next = blocks;
    if (blocks != NULL)
        blocks->prev = h;
    blocks = h;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&held, h->nbytes, memory_order_relaxed);
}

static void unlink_block(header *h)
{
    pthread_mutex_lock(&lock);
    if (h->prev != NULL)
        h->prev->next = h->next;
    else
        blocks = h->next;
    if (h->next != NULL)
        h->next->prev = h->prev;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub_explicit(&held, h->nbytes, memory_order_relaxed);
}

void *tdmi_aligned_alloc(size_t alignment, size_t nbytes, const char *label)
{
    if (alignment < HEADER_BYTES)
        alignment = HEADER_BYTES;
    if (nbytes > SIZE_MAX / 2) {
        (void)tdmi_fail(TDM_ERR_NO_MEMORY, "%zu bytes for %s are more than an address space holds", nbytes, label);
        return NULL;
    }
    char *base = malloc(nbytes + alignment + HEADER_BYTES);
    if (base == NULL) {
        (void)tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for %s (%zu bytes)", label, nbytes);
        return NULL;
    }
    uintptr_t at = ((uintptr_t)base + HEADER_BYTES + alignment - 1) & ~(uintptr_t)(alignment - 1);
    header *h = header_of((void *)at);
    *h = (header){.label = label, .nbytes = nbytes, .base = base, .magic = MAGIC};
    link_block(h);
    return (void *)at;
}

void *tdmi_malloc(size_t nbytes, const char *label)
{
    return tdmi_aligned_alloc(HEADER_BYTES, nbytes, label);
}

void *tdmi_calloc(size_t count, size_t size, const char *label)
{
    if (size != 0 && count > SIZE_MAX / 2 / size) {
        (void)tdmi_fail(TDM_ERR_NO_MEMORY, "%zu elements of %zu bytes for %s are more than an address space holds",
                        count, size, label);
        return NULL;
    }
    void *block = tdmi_malloc(count * size, label);
    if (block != NULL)
        memset(block, 0, count * size);
    return block;
}

/* Through realloc, which moves the pages of a large block instead of its bytes: a table that doubles does not need room for both. */
static void *resize(header *h, size_t nbytes)
{
    const size_t offset = (size_t)((char *)h - (char *)h->base);
    unlink_block(h);
    char *base = realloc(h->base, nbytes + 2 * HEADER_BYTES);
    if (base == NULL) {
        link_block(h);
        (void)tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for %s (%zu bytes)", h->label, nbytes);
        return NULL;
    }
    const size_t held_before = ((header *)(void *)(base + offset))->nbytes;
    h = header_of((void *)(((uintptr_t)base + 2 * HEADER_BYTES - 1) & ~(uintptr_t)(HEADER_BYTES - 1)));
    if ((char *)h != base + offset)
        memmove(h, base + offset, HEADER_BYTES + (held_before < nbytes ? held_before : nbytes));
    h->nbytes = nbytes;
    h->base = base;
    link_block(h);
    return (char *)h + HEADER_BYTES;
}

void *tdmi_realloc(void *block, size_t nbytes, const char *label)
{
    enum { LARGE = 1 << 20 };
    if (block == NULL)
        return tdmi_malloc(nbytes, label);
    header *h = header_of(block);
    if (h->nbytes >= LARGE && nbytes >= LARGE && nbytes <= SIZE_MAX / 2 && (char *)h - (char *)h->base < HEADER_BYTES)
        return resize(h, nbytes);
    void *fresh = tdmi_malloc(nbytes, h->label);
    if (fresh == NULL)
        return NULL;
    memcpy(fresh, block, h->nbytes < nbytes ? h->nbytes : nbytes);
    tdmi_free(block);
    return fresh;
}

void *tdmi_with_room(void *block, size_t count, size_t *capacity, size_t size, const char *label)
{
    enum { FIRST = 16 };
    if (count < *capacity)
        return block;
    const size_t more = *capacity * 2 + FIRST;
    void *larger = tdmi_realloc(block, more < SIZE_MAX / size ? more * size : SIZE_MAX, label);
    if (larger != NULL)
        *capacity = more;
    return larger;
}

char *tdmi_strdup(const char *text, const char *label)
{
    size_t nbytes = strlen(text) + 1;
    char *copy = tdmi_malloc(nbytes, label);
    if (copy != NULL)
        memcpy(copy, text, nbytes);
    return copy;
}

void tdmi_free(void *block)
{
    if (block == NULL)
        return;
    header *h = header_of(block);
    if (h->magic != MAGIC)
        abort(); /* not a block of ours, or freed twice: going on would corrupt memory */
    h->magic = 0;
    unlink_block(h);
    free(h->base);
}

uint64_t tdmi_memory_allocations(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

size_t tdmi_memory_held(void)
{
    return atomic_load_explicit(&held, memory_order_relaxed);
}

void tdmi_memory_by_label(void (*visit)(const char *label, size_t nbytes, void *arg), void *arg)
{
    enum { LABELS_MAX = 256 };
    struct {
        const char *label;
        size_t nbytes;
    } sums[LABELS_MAX];
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (header *h = blocks; h != NULL; h = h->next) {
        size_t i = 0;
        while (i < count && strcmp(sums[i].label, h->label) != 0)
            i++;
        if (i == count) {
            if (count == LABELS_MAX)
                continue;
            sums[count].label = h->label;
            sums[count++].nbytes = 0;
        }
        sums[i].nbytes += h->nbytes;
    }
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++)
        visit(sums[i].label, sums[i].nbytes, arg);
}
