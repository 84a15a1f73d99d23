/* record.h - what a profiler of torch is told about a call, in the terms in which Kineto writes collectives into traces and their readers
 * look for them: an event record_param_comms with name, sizes, type and group. Costs some nanoseconds while nobody profiles. */
#pragma once

#include "types.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <optional>
#include <string>
#include <vector>

namespace tandem {

/* A call as a profiler sees it. Borrows all. */
struct Recorded {
    c10d::OpType type;
    bool is_async;
    uint64_t number;
    at::TensorList inputs, outputs;
    const std::vector<int64_t> &input_split, &output_split;
    const std::string &group, &description;
    const std::vector<uint64_t> &ranks; /* in the default group; empty: all of it */
    int rank, size;                     /* rank: this one, or the other one of a message */
};

/* Lasts as long as the call is at work in its thread. A call that is not asynchronous has an event with its title as well, "tandem:...";
 * that of another is its Work's, which ends when it ends. */
class CallRecord {
  public:
    explicit CallRecord(const Recorded &call)
    {
        if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION))
            begin(call, std::move(*callbacks));
    }
    CallRecord(const CallRecord &) = delete;
    CallRecord &operator=(const CallRecord &) = delete;

  private:
    void begin(const Recorded &call, at::StepCallbacks &&callbacks);

    std::vector<c10::IValue> values_, inputs_;
    std::optional<c10::DebugInfoGuard> info_;
    std::optional<at::RecordFunction> parameters_, title_; /* end before what they refer to */
};

} // namespace tandem
