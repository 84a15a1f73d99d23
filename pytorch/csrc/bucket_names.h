/* bucket_names.h - which parameters' gradients a bucket of DistributedDataParallel holds, for the labels of its calls.
 *
 * DDP gives a backend a tensor and nothing else. tandem_torch/buckets.py says which buckets there are, in the order in which their calls
 * come; where they lie is learnt from the calls: the first tensor of a bucket's size whose storage is new is the next bucket of that size
 * that none has been found for. DDP keeps its buckets' storages until it rebuilds them, and then the list is said again. */
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

/* Bytes of a bucket, and "gradients of a.weight ... b.bias (4 parameters)". */
using BucketNames = std::vector<std::pair<size_t, std::string>>;

/* In place of those said under this key before. group: name of the process group. Any thread, as all here. */
void set_bucket_names(uint64_t key, const std::string &group, const BucketNames &names);
void forget_bucket_names(uint64_t key);

/* "" where it is no bucket that is known. */
std::string bucket_name(const std::string &group, const at::Tensor &tensor);

extern std::atomic<bool> bucket_names_are_there;
inline bool have_bucket_names()
{
    return bucket_names_are_there.load(std::memory_order_relaxed);
}

} // namespace tandem
