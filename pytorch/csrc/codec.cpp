/* codec.cpp - rounding, the collective, widening. */
#include "codec.h"

#include "error.h"

#include <tandem/compress.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace tandem {

namespace {

void check(tdm_status status)
{
    TORCH_CHECK(status == TDM_OK, "tandem: ", tdm_error_text());
}

tdm_dtype wire_type(at::ScalarType half)
{
    TORCH_CHECK(half == at::kBFloat16 || half == at::kHalf, "tandem: float32 travels as bfloat16 or float16, not as ", half);
    return half == at::kBFloat16 ? TDM_BF16 : TDM_F16;
}

/* all_reduce of `tensor`, then after(), then the future gives `result`. */
template <typename After>
FuturePointer reduce(const GroupPointer &group, const at::Tensor &tensor, c10d::ReduceOp::RedOpType op, c10::IValue result, After after)
{
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    std::vector<at::Tensor> tensors = {tensor};
    const auto given = std::make_shared<c10::IValue>(std::move(result)); /* goes on: the worker must not be who drops it */
    return group->allreduce(tensors, options)->getFuture()->then(
        [given, after](c10::ivalue::Future &reduced) {
            reduced.value(); /* raises what the call did */
            after();
            return std::move(*given);
        },
        c10::PyObjectType::get());
}

FuturePointer average_as_it_is(const GroupPointer &group, const at::Tensor &gradient, c10::IValue result)
{
    const bool is_sparse = gradient.is_sparse(); /* these can only be summed */
    if (is_sparse) {
        const at::NoGradGuard no_grad;
        gradient.div_(group->getSize());
    }
    return reduce(group, gradient, is_sparse ? c10d::ReduceOp::SUM : c10d::ReduceOp::AVG, std::move(result), [] {});
}

FuturePointer average_as(at::ScalarType half, const GroupPointer &group, const c10d::GradBucket &bucket, Residuals *residuals,
                         c10::IValue result)
{
    const at::Tensor &gradient = bucket.getBuffer();
    const tdm_dtype dtype = wire_type(half);
    const auto count = static_cast<size_t>(gradient.numel());
    float *const values = gradient.mutable_data_ptr<float>();
    /* Not kept: the heap gives the block of the step before, which the other ranks reach already. */
    const at::Tensor wire = at::empty({gradient.numel()}, half);
    void *const data = wire.mutable_data_ptr();
    const at::Tensor residual = residuals != nullptr ? residuals->of(bucket) : at::Tensor();
    check(tdm_cast_compress(dtype, values, residuals != nullptr ? residual.mutable_data_ptr<float>() : nullptr, data, count));
    return reduce(group, wire, c10d::ReduceOp::AVG, std::move(result), [dtype, wire, values, count] {
        check(tdm_cast_decompress(dtype, wire.const_data_ptr(), values, count));
    });
}

} // namespace

FuturePointer average(const GroupPointer &group, const c10d::GradBucket &bucket, std::optional<at::ScalarType> half, Residuals *residuals,
                      c10::IValue result)
{
    const at::Tensor &gradient = bucket.getBuffer();
    TORCH_CHECK(gradient.is_cpu(), "tandem: this hook is for gradients on the CPU, and bucket ", bucket.getIndex(), " is on ", gradient.device(),
                ": use one of PyTorch's own hooks");
    const bool is_float = gradient.scalar_type() == at::kFloat && gradient.layout() == at::kStrided;
    if (half.has_value() && is_float && gradient.is_contiguous())
        return average_as(*half, group, bucket, residuals, std::move(result));
    return average_as_it_is(group, gradient, std::move(result));
}

bool Residuals::is_of(const Slot &slot, const std::vector<at::Tensor> &parameters)
{
    return std::equal(slot.parameters.begin(), slot.parameters.end(), parameters.begin(), parameters.end(),
                      [](const WeakTensor &known, const at::Tensor &tensor) { return known._unsafe_get_target() == tensor.unsafeGetTensorImpl(); });
}

/* Dead, or some parameter is in another bucket now. */
bool Residuals::is_outdated(const Slot &slot, const std::vector<at::Tensor> &parameters)
{
    return std::any_of(slot.parameters.begin(), slot.parameters.end(), [&](const WeakTensor &known) {
        return known.expired() || std::any_of(parameters.begin(), parameters.end(), [&](const at::Tensor &tensor) {
                   return known._unsafe_get_target() == tensor.unsafeGetTensorImpl();
               });
    });
}

at::Tensor Residuals::of(const c10d::GradBucket &bucket)
{
    const std::vector<at::Tensor> parameters = bucket.getParameters();
    const int64_t count = bucket.getBuffer().numel();
    const std::lock_guard<std::mutex> guard(lock_);
    for (const Slot &slot : slots_)
        if (slot.values.numel() == count && is_of(slot, parameters))
            return slot.values;
    std::erase_if(slots_, [&](const Slot &slot) { return is_outdated(slot, parameters); });
    Slot slot;
    for (const at::Tensor &parameter : parameters)
        slot.parameters.emplace_back(parameter.getIntrusivePtr());
    slot.values = at::zeros({count}, at::kFloat);
    slots_.push_back(slot);
    return slot.values;
}

void Residuals::forget()
{
    const std::lock_guard<std::mutex> guard(lock_);
    slots_.clear();
}

size_t Residuals::bytes() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    size_t sum = 0;
    for (const Slot &slot : slots_)
        sum += slot.values.nbytes();
    return sum;
}

} // namespace tandem
