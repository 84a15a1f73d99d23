/* process_group.cpp - life of a process group, what all calls share, and collectives of one tensor. */
#include "process_group.h"

#include "lists.h"

#include <Python.h>

#include <algorithm>

namespace tandem {

namespace {

/* Gives the interpreter's lock back to other threads while this one waits for them; fine where it is not held. */
class WithoutGil {
  public:
    WithoutGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
    ~WithoutGil()
    {
        if (state_ != nullptr)
            PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil &) = delete;
    WithoutGil &operator=(const WithoutGil &) = delete;

  private:
    PyThreadState *const state_;
};

} // namespace

ProcessGroupTandem::ProcessGroupTandem(std::shared_ptr<Group> group, int size, c10::intrusive_ptr<Options> options)
    : Backend(group->rank(), size), group_(std::move(group)), options_(std::move(options)), name_(options_->group_name)
{
}

ProcessGroupTandem::~ProcessGroupTandem()
{
    shutdown();
}

void ProcessGroupTandem::shutdown()
{
    const WithoutGil guard;
    std::shared_ptr<Group> group = group_.exchange(nullptr);
    if (group == nullptr)
        return;
    group->close();
    group.reset();
}

void ProcessGroupTandem::abort()
{
    if (const auto group = group_.load())
        group->abort();
    shutdown();
}

std::shared_ptr<Group> ProcessGroupTandem::live(const char *call) const
{
    auto group = group_.load();
    if (group == nullptr)
        raise(TDM_ERR_ABORTED, Place{call, &name_, rank_}, "the process group was destroyed");
    return group;
}

void ProcessGroupTandem::setTimeout(std::chrono::milliseconds timeout)
{
    live("set_timeout")->set_timeout(timeout);
    options_->timeout = timeout;
}

c10d::ErrorType ProcessGroupTandem::getError()
{
    const auto group = group_.load();
    return group == nullptr ? c10d::ErrorType::SUCCESS : group->error();
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTandem::split(const c10::intrusive_ptr<c10d::Store> &, const std::vector<int> &ranks,
                                                            const c10::intrusive_ptr<Options> &options)
{
    const auto at = std::find(ranks.begin(), ranks.end(), rank_);
    if (at == ranks.end())
        return nullptr;
    const int size = static_cast<int>(ranks.size());
    auto group = Group::make_sub(live("split"), ranks, static_cast<int>(at - ranks.begin()), options->timeout, options->group_name);
    return c10::make_intrusive<ProcessGroupTandem>(std::move(group), size, c10::make_intrusive<Options>(*options));
}

ProcessGroupTandem::Call::Call(ProcessGroupTandem &owner, c10d::OpType call_type, Milliseconds call_timeout, bool call_is_async)
    : type(call_type), timeout(call_timeout), is_async(call_is_async), group(owner.live(call_name(type))),
      place(group->place(call_name(type), &owner.getGroupDesc())), buffers(place)
{
}

void ProcessGroupTandem::label(const Call &call, at::TensorList tensors)
{
    const char *text = labels_.of(call.type, name_, pg_desc_);
    if (call.type == c10d::OpType::ALLREDUCE && tensors.size() == 1 && may_be_bucket(tensors.front())) {
        const std::string bucket = bucket_name(name_, tensors.front());
        if (!bucket.empty())
            return call.group->label_once(text + (", " + bucket));
    }
    call.group->label(text);
}

void ProcessGroupTandem::finish_here(Call &call, tdm_work *handle)
{
    const tdm_status status = tdm_work_wait(handle);
    if (status != TDM_OK)
        std::rethrow_exception(call.group->fails(status, call.place));
    call.buffers.finish();
}

ProcessGroupTandem::Result ProcessGroupTandem::hand_over(Call &call, at::TensorList inputs, at::TensorList outputs, tdm_work *handle,
                                                         uint64_t number)
{
    auto work = c10::make_intrusive<TandemWork>(*call.group, call.type, handle, std::move(call.buffers), inputs, outputs, number,
                                                std::move(call.message));
    work->entrust();
    const std::lock_guard<std::mutex> guard(collecting_);
    if (collected_)
        collected_->push_back(work);
    return work;
}

void ProcessGroupTandem::startCoalescing()
{
    const std::lock_guard<std::mutex> guard(collecting_);
    collected_.emplace();
}

ProcessGroupTandem::Result ProcessGroupTandem::endCoalescing()
{
    const std::lock_guard<std::mutex> guard(collecting_);
    if (!collected_ || collected_->empty()) {
        collected_.reset();
        return nullptr;
    }
    auto work = c10::make_intrusive<CoalescedWork>(rank_, c10d::OpType::COALESCED, std::move(*collected_));
    collected_.reset();
    return work;
}

ProcessGroupTandem::Result ProcessGroupTandem::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    Call call(*this, c10d::OpType::ALLREDUCE, options);
    if (tensors.size() != 1 || tensors.front().is_sparse())
        return allreduce_others(tensors, options);
    const at::Tensor &tensor = tensors.front();
    void *data = call.buffers.in_out(tensor);
    const tdm_dtype dtype = reduced_as(tensor.scalar_type(), call.place);
    const Operation op(options.reduceOp, tensor.scalar_type(), call.place);
    return run(call, tensors, tensors, [&](tdm_group *group, tdm_work **work) {
        return tdm_allreduce(group, data, data, count_of(tensor), dtype, op, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    Call call(*this, c10d::OpType::BROADCAST, options);
    const int root = rank_in_group(options.rootRank, call.place);
    const at::Tensor &tensor = root_tensor(tensors, options.rootTensor, call.place);
    void *data = call.buffers.in_out(tensor);
    for (const at::Tensor &other : tensors)
        if (&other != &tensor)
            call.buffers.copy_after(tensor, other);
    const Element element = element_of(tensor.scalar_type());
    return run(call, tensors, tensors, [&](tdm_group *group, tdm_work **work) {
        return tdm_broadcast(group, data, element.each * count_of(tensor), element.dtype, root, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options)
{
    Call call(*this, c10d::OpType::_ALLGATHER_BASE, options);
    const void *in = call.buffers.in(input);
    void *out = call.buffers.out(output);
    check_same_type(input, output, call.place);
    check_parts(output, input, size_, call.place);
    const Element element = element_of(input.scalar_type());
    return run(call, input, output, [&](tdm_group *group, tdm_work **work) {
        return tdm_all_gather(group, in, out, element.each * count_of(input), element.dtype, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                                    const c10d::ReduceScatterOptions &options)
{
    Call call(*this, c10d::OpType::_REDUCE_SCATTER_BASE, options);
    const void *in = call.buffers.in(input);
    void *out = call.buffers.out(output);
    check_same_type(input, output, call.place);
    check_parts(input, output, size_, call.place);
    const tdm_dtype dtype = reduced_as(input.scalar_type(), call.place);
    const Operation op(options.reduceOp, input.scalar_type(), call.place);
    return run(call, input, output, [&](tdm_group *group, tdm_work **work) {
        return tdm_reduce_scatter(group, in, out, count_of(output), dtype, op, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::barrier(const c10d::BarrierOptions &options)
{
    Call call(*this, c10d::OpType::BARRIER, options);
    return run(call, {}, {}, [](tdm_group *group, tdm_work **work) { return tdm_barrier(group, work); });
}

int ProcessGroupTandem::rank_in_group(int64_t rank, const Place &place) const
{
    if (rank < 0 || rank >= size_)
        raise(TDM_ERR_INVALID, place, "the group has ranks 0 to " + std::to_string(size_ - 1) + ", not " + std::to_string(rank));
    return static_cast<int>(rank);
}

} // namespace tandem
