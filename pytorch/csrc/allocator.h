/* allocator.h - torch's CPU allocator, large blocks of which come from the shared heap (heap/heap.h).
 *
 * From 64 KiB on a block is taken from the heap; smaller ones, those that find it full, and all in a child of fork() come from the
 * allocator that torch had before. Tensors keep what they were made with: those that exist already stay where they are. */
#pragma once

#include "heap.h"

#include <ATen/core/Tensor.h>

namespace tandem {

/* Once, at import. TANDEM_TORCH_HEAP: 0 (no heap), the most it may hold, or unset: this machine's memory. Raises for anything else. */
void install_allocator();
/* nullptr: there is none. */
heap *tensor_heap();
/* Before a call that uses nbytes of the tensor's storage: a block of which that is all becomes reachable for the node's ranks, so that the
 * call works in place. A part of a block does not: others may be writing to the rest. */
void make_reachable(const at::Tensor &tensor, size_t nbytes);

} // namespace tandem
