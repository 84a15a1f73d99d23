/* record.cpp - the metadata of one call. */
#include "record.h"

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

namespace tandem {

namespace {

struct Range {
    int start, stride; /* both -1: the ranks are not evenly spaced */
};

Range range_of(const std::vector<uint64_t> &ranks)
{
    if (ranks.empty())
        return {0, 1};
    const auto start = static_cast<int>(ranks.front());
    const int stride = ranks.size() > 1 ? static_cast<int>(ranks[1]) - start : 1;
    for (size_t i = 0; i < ranks.size(); i++)
        if (static_cast<int>(ranks[i]) != start + stride * static_cast<int>(i))
            return {-1, -1};
    return {start, stride};
}

int64_t elements(at::TensorList list)
{
    int64_t count = 0;
    for (const at::Tensor &tensor : list)
        count += tensor.numel();
    return count;
}

/* torch before 2.12 had no numbers in it. */
template <typename Info> void set_number(Info &info, int64_t number, bool is_message)
{
    if constexpr (requires { info.setSequenceInfo(number, is_message); })
        info.setSequenceInfo(number, is_message);
}

} // namespace

void CallRecord::begin(const Recorded &call, at::StepCallbacks &&callbacks)
{
    const Range range = range_of(call.ranks);
    const at::TensorList &typed = call.inputs.empty() ? call.outputs : call.inputs;
    const auto group = std::make_tuple(call.group, call.description);
    const auto number = std::make_tuple(static_cast<int64_t>(call.number), is_message(call.type));
    auto info = std::make_shared<torch::ParamCommsDebugInfo>(
        group, call.rank, traced_name(call.type), elements(call.inputs), elements(call.outputs), typed.empty() ? at::kByte : typed[0].scalar_type(),
        call.input_split, call.output_split, range.start, range.stride, call.size, call.is_async);
    set_number(*info, std::get<0>(number), std::get<1>(number));
    info_.emplace(c10::DebugInfoKind::PARAM_COMMS_INFO, std::move(info));

    parameters_.emplace(std::move(callbacks));
    if (parameters_->needsInputs())
        values_ = {c10::IValue(call.inputs.vec()), number,           group, call.rank, traced_name(call.type), call.input_split, call.output_split,
                   range.start,                    range.stride, call.size, call.is_async};
    parameters_->before(at::kParamCommsCallName, c10::ArrayRef<const c10::IValue>(values_.data(), values_.size()));
    if (parameters_->needsOutputs())
        parameters_->setOutputs(std::vector<c10::IValue>(1, c10::IValue(call.outputs.vec())));

    if (call.is_async)
        return;
    auto more = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!more)
        return;
    title_.emplace(std::move(*more));
    if (title_->needsInputs())
        inputs_.assign(call.inputs.begin(), call.inputs.end());
    title_->before(call_title(call.type), c10::ArrayRef<const c10::IValue>(inputs_.data(), inputs_.size()));
}

} // namespace tandem
