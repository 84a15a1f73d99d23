/* process_group.h - the backend: torch's calls as libtandem's.
 *
 * A call that is not asynchronous runs in the calling thread and gives a null Work. Any other is started there, and finished by who waits
 * for it or by the worker. */
#pragma once

#include "bucket_names.h"
#include "buffer.h"
#include "coalesced_work.h"
#include "label.h"
#include "record.h"
#include "work.h"
#include "world.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>

namespace tandem {

class ProcessGroupTandem final : public c10d::Backend {
    using Result = c10::intrusive_ptr<c10d::Work>;

  public:
    ProcessGroupTandem(std::shared_ptr<Group> group, int size, c10::intrusive_ptr<Options> options);
    ~ProcessGroupTandem() override;

    const std::string getBackendName() const override { return "tandem"; }
    c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
    void setTimeout(std::chrono::milliseconds timeout) override;
    bool supportsSplitting() const override { return true; }
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                      const c10::intrusive_ptr<Options> &options) override;
    void setSequenceNumberForGroup() override {} /* it begins with 0 everywhere */
    uint64_t getSequenceNumberForGroup() override { return number_; }
    void shutdown() override;
    void abort() override;
    c10d::ErrorType getError() override;

    Result allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    Result broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    Result allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
    Result _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
    Result _reduce_scatter_base(at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options) override;
    Result barrier(const c10d::BarrierOptions &options) override;

    /* Between them asynchronous calls are collected: endCoalescing gives one Work for all. */
    void startCoalescing() override;
    Result endCoalescing() override;

    Result reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    Result reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ReduceScatterOptions &options) override;
    Result allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    Result reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options) override;
    Result allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;

    Result gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
    Result scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) override;
    Result allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
    Result allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
    Result alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
    Result alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_sizes, std::vector<int64_t> &input_sizes,
                         const c10d::AllToAllOptions &options) override;

    Result send(Tensors &tensors, int to, int tag) override;
    Result recv(Tensors &tensors, int from, int tag) override;
    Result recvAnysource(Tensors &tensors, int tag) override;

  private:
    /* One call: what it is, its group (kept alive), its buffers. */
    struct Call {
        template <typename TorchOptions>
        Call(ProcessGroupTandem &owner, c10d::OpType call_type, const TorchOptions &options)
            : Call(owner, call_type, options.timeout, options.asyncOp)
        {
        }
        Call(ProcessGroupTandem &owner, c10d::OpType call_type, Milliseconds call_timeout, bool call_is_async);

        c10d::OpType type;
        Milliseconds timeout;
        bool is_async;
        std::shared_ptr<Group> group;
        Place place;
        Buffers buffers;
        std::unique_ptr<tdm_message> message; /* of a receive */
        int peer = -1;                        /* of a message */
        std::vector<int64_t> input_split, output_split;
    };

    /* start(group, &handle) makes the call of libtandem. inputs: for a profiler; outputs: what the Work gives. */
    template <typename Start> Result run(Call &call, at::TensorList inputs, at::TensorList outputs, const Start &start);
    /* Says what the next call is; the group's `calls` is held. */
    void label(const Call &call, at::TensorList tensors);
    static void finish_here(Call &call, tdm_work *handle);
    Result hand_over(Call &call, at::TensorList inputs, at::TensorList outputs, tdm_work *handle, uint64_t number);

    /* Of a sparse tensor, or of several, which are combined here first. */
    Result allreduce_others(Tensors &tensors, const c10d::AllreduceOptions &options);
    /* Ranks give counts[0], counts[1], ...: raises on all of them unless each rank's `mine` is what the others believe. */
    void agree(const Call &call, const std::vector<size_t> &counts, size_t mine);
    Result receive(c10d::OpType type, Tensors &tensors, int from, int tag);

    /* Raises if it was shut down. */
    std::shared_ptr<Group> live(const char *call) const;
    /* `rank`, if the group has it; raises otherwise. */
    int rank_in_group(int64_t rank, const Place &place) const;

    std::atomic<std::shared_ptr<Group>> group_; /* nullptr: shut down */
    const c10::intrusive_ptr<Options> options_;
    const std::string name_;
    std::atomic<uint64_t> number_ = 0;
    Labels labels_;
    std::mutex collecting_;
    std::optional<CoalescedWork::Works> collected_; /* guarded by collecting_; set between startCoalescing and endCoalescing */
};

template <typename Start>
ProcessGroupTandem::Result ProcessGroupTandem::run(Call &call, at::TensorList inputs, at::TensorList outputs, const Start &start)
{
    const uint64_t next = number_ + (is_message(call.type) ? 0 : 1);
    const CallRecord record({call.type, call.is_async, next, inputs, outputs, call.input_split, call.output_split, pg_uid_, pg_desc_,
                             options_->global_ranks_in_group, call.peer >= 0 ? call.peer : rank_, size_});
    tdm_work *handle = nullptr;
    tdm_status status;
    uint64_t number;
    {
        const std::lock_guard<std::mutex> guard(call.group->calls);
        label(call, inputs);
        status = start(call.group->handle(), &handle);
        number = is_message(call.type) ? number_.load() : ++number_;
    }
    if (status != TDM_OK)
        std::rethrow_exception(call.group->fails(status, call.place));
    if (call.timeout.count() > 0)
        tdm_work_set_timeout(handle, static_cast<double>(call.timeout.count()) * 1e-3);
    if (call.is_async)
        return hand_over(call, inputs, outputs, handle, number);
    finish_here(call, handle);
    return nullptr;
}

} // namespace tandem

