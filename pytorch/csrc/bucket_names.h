/* bucket_names.h - which parameters' gradients a bucket of DistributedDataParallel holds, for the labels of its calls.
 *
 * DDP gives a backend a tensor and nothing else. tandem_torch/buckets.py says which buckets there are, in the order in which their calls
 * come, each step anew; where they lie is learnt from the calls: a tensor with as many elements as the bucket that is due is that one. DDP
 * keeps its buckets' storages until it rebuilds them, and then the list is said again. A hook that sends halves has other storages at each
 * step: there the order is all that counts. */
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <string>
#include <tuple>
#include <vector>

namespace tandem {

/* Elements of a bucket, its bytes, and "gradients of a.weight ... b.bias (4 parameters)". */
using BucketNames = std::vector<std::tuple<size_t, size_t, std::string>>;

/* In place of those said under this key before. group: name of the process group. Any thread, as all here. */
void set_bucket_names(uint64_t key, const std::string &group, const BucketNames &names);
void forget_bucket_names(uint64_t key);

/* "" where it is no bucket that is known. */
std::string bucket_name(const std::string &group, const at::Tensor &tensor);

/* Whether any bucket has so few elements. */
extern std::atomic<size_t> smallest_bucket;
inline bool may_be_bucket(const at::Tensor &tensor)
{
    return static_cast<size_t>(tensor.numel()) >= smallest_bucket.load(std::memory_order_relaxed);
}

} // namespace tandem
