/* memory.h - labelled allocation: every block says what it is for, so that reports can speak, and allocations are
 * counted, so that a test can show that a training step makes none. Failure writes the error text and gives NULL. */
#ifndef TDMI_CORE_MEMORY_H
#define TDMI_CORE_MEMORY_H

#include "core/error.h"

void *tdmi_malloc(size_t nbytes, const char *label);
void *tdmi_calloc(size_t count, size_t size, const char *label);
/* label is used when `block` is NULL, else the block keeps its own. On failure the old block stays. */
void *tdmi_realloc(void *block, size_t nbytes, const char *label);
/* alignment: a power of two, at least 16. The block is freed with tdmi_free like any other. */
void *tdmi_aligned_alloc(size_t alignment, size_t nbytes, const char *label);
/* An array that grows: `block` with room for one more than its `count` elements of `size` bytes. That is the block itself while *capacity
 * (elements) allows it, else a larger one, and *capacity is raised. NULL: no memory, and the old block stays. */
void *tdmi_with_room(void *block, size_t count, size_t *capacity, size_t size, const char *label);
char *tdmi_strdup(const char *text, const char *label);
void tdmi_free(void *block); /* NULL is fine */

/* Totals of this process since its start: allocations made, and bytes held now. Any thread. */
uint64_t tdmi_memory_allocations(void);
size_t tdmi_memory_held(void);
/* Calls `visit` once a label with the bytes held now under it (labels compared by text). */
void tdmi_memory_by_label(void (*visit)(const char *label, size_t nbytes, void *arg), void *arg);

#endif
