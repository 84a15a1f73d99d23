/* codec.h - buckets of DistributedDataParallel averaged, as halves on the way: what tandem_torch.hooks does in one call a bucket.
 *
 * A bucket is rounded to halves in the thread that runs backward, and widened again, in place, by the worker when the collective is over. */
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <mutex>
#include <optional>
#include <vector>

namespace tandem {

/* What rounding took away from a rank's gradients, for its next step: one tensor a bucket. A bucket is known by its parameters, for DDP puts
 * them into other buckets after the first step. Weak references: a model that dies takes its own with it at the next new bucket. */
class Residuals {
  public:
    /* As many floats as the bucket has; zeros for a bucket that is new, or has other parameters than before. */
    at::Tensor of(const c10d::GradBucket &bucket);
    void forget();
    size_t bytes() const;

  private:
    using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    struct Slot {
        std::vector<WeakTensor> parameters;
        at::Tensor values;
    };
    static bool is_of(const Slot &slot, const std::vector<at::Tensor> &parameters);
    static bool is_outdated(const Slot &slot, const std::vector<at::Tensor> &parameters);

    mutable std::mutex lock_;
    std::vector<Slot> slots_; /* guarded by lock_ */
};

using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;

/* Average of the bucket over the group's ranks, in its buffer. half: bfloat16 or float16, which float32 travels as; without it, and for
 * other types, the bucket travels as it is. residuals: nullptr for no error feedback. result: what the future gives, Python's buffer. */
FuturePointer average(const GroupPointer &group, const c10d::GradBucket &bucket, std::optional<at::ScalarType> half, Residuals *residuals,
                      c10::IValue result);

} // namespace tandem
