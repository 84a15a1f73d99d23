/* reductions.cpp - collectives that combine: to one rank, lists, many tensors at once. */
#include "lists.h"
#include "process_group.h"

namespace tandem {

namespace {

/* The tensors of one rank, combined. */
at::Tensor combined(const Tensors &list, const c10d::ReduceOp &op, const Place &place)
{
    const at::NoGradGuard no_grad;
    at::Tensor sum = list.front().clone(at::MemoryFormat::Contiguous);
    for (size_t i = 1; i < list.size(); i++)
        switch (op.op_) {
        case c10d::ReduceOp::SUM:
            sum.add_(list[i]);
            break;
        case c10d::ReduceOp::PRODUCT:
            sum.mul_(list[i]);
            break;
        case c10d::ReduceOp::MIN:
            at::minimum_out(sum, sum, list[i]);
            break;
        case c10d::ReduceOp::MAX:
            at::maximum_out(sum, sum, list[i]);
            break;
        default:
            raise(TDM_ERR_UNSUPPORTED, place, "several tensors of a rank can be combined by SUM, PRODUCT, MIN and MAX");
        }
    return sum;
}

} // namespace

void ProcessGroupTandem::agree(const Call &call, const std::vector<size_t> &counts, size_t mine)
{
    const uint64_t count = mine;
    std::vector<uint64_t> given(counts.size());
    tdm_work *work = nullptr;
    {
        const std::lock_guard<std::mutex> guard(call.group->calls);
        label(call, {});
        const tdm_status status = tdm_all_gather(call.group->handle(), &count, given.data(), 1, TDM_U64, &work);
        if (status != TDM_OK)
            std::rethrow_exception(call.group->fails(status, call.place));
    }
    const tdm_status status = tdm_work_wait(work);
    if (status != TDM_OK)
        std::rethrow_exception(call.group->fails(status, call.place));
    for (size_t r = 0; r < counts.size(); r++)
        if (given[r] != counts[r])
            raise(TDM_ERR_INVALID, call.place, "sizes in the list differ, and number " + std::to_string(r) + " has " + std::to_string(counts[r]) +
                                                   " elements where rank " + std::to_string(r) + " has " + std::to_string(given[r]));
}

ProcessGroupTandem::Result ProcessGroupTandem::allreduce_others(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    Call call(*this, c10d::OpType::ALLREDUCE, options);
    check_pairs(tensors, tensors, call.place);
    check_same_shape(tensors, call.place);
    if (tensors.front().is_sparse())
        return allreduce_sparse(tensors, options);
    for (const at::Tensor &tensor : tensors)
        call.buffers.in(tensor); /* for its checks */
    const at::Tensor sum = combined(tensors, options.reduceOp, call.place);
    void *data = call.buffers.in_out(sum);
    for (const at::Tensor &tensor : tensors)
        call.buffers.copy_after(sum, tensor);
    const tdm_dtype dtype = reduced_as(sum.scalar_type(), call.place);
    const Operation op(options.reduceOp, sum.scalar_type(), call.place);
    return run(call, tensors, tensors, [&](tdm_group *group, tdm_work **work) {
        return tdm_allreduce(group, data, data, count_of(sum), dtype, op, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    Call call(*this, c10d::OpType::REDUCE, options);
    const at::Tensor &tensor = only(tensors, "input", call.place);
    const int root = rank_in_group(options.rootRank, call.place);
    root_tensor(tensors, options.rootTensor, call.place);
    const tdm_dtype dtype = reduced_as(tensor.scalar_type(), call.place);
    const Operation op(options.reduceOp, tensor.scalar_type(), call.place);
    void *out = rank_ == root ? call.buffers.in_out(tensor) : nullptr;
    const void *in = rank_ == root ? out : call.buffers.in(tensor);
    return run(call, tensors, tensors, [&](tdm_group *group, tdm_work **work) {
        return tdm_reduce(group, in, out, count_of(tensor), dtype, op, root, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                                              const c10d::ReduceScatterOptions &options)
{
    Call call(*this, c10d::OpType::REDUCE_SCATTER, options);
    const at::Tensor &output = only(outputs, "output", call.place);
    const Tensors &parts = one_a_rank(inputs, "input", size_, call.place);
    const void *in = call.buffers.in(parts);
    void *out = call.buffers.out(output);
    check_same_type(output, parts.front(), call.place);
    const std::vector<size_t> counts = counts_of(parts);
    if (are_equal(counts))
        check_same_counts(output, parts, call.place);
    else
        agree(call, counts, count_of(output));
    const tdm_dtype dtype = reduced_as(output.scalar_type(), call.place);
    const Operation op(options.reduceOp, output.scalar_type(), call.place);
    return run(call, parts, outputs, [&](tdm_group *group, tdm_work **work) {
        return are_equal(counts) ? tdm_reduce_scatter(group, in, out, counts.front(), dtype, op, work)
                                 : tdm_reduce_scatterv(group, in, out, counts.data(), dtype, op, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    Call call(*this, c10d::OpType::ALLREDUCE_COALESCED, options);
    check_pairs(tensors, tensors, call.place);
    std::vector<void *> data;
    for (const at::Tensor &tensor : tensors) {
        data.push_back(call.buffers.in_out(tensor));
        check_same_type(tensor, tensors.front(), call.place);
    }
    const tdm_dtype dtype = reduced_as(tensors.front().scalar_type(), call.place);
    const Operation op(options.reduceOp, tensors.front().scalar_type(), call.place);
    return run(call, tensors, tensors, [&](tdm_group *group, tdm_work **work) {
        return as_one(group, tensors.size(), work, [&](size_t i, tdm_work **one) {
            return tdm_allreduce(group, data[i], data[i], count_of(tensors[i]), dtype, op, one);
        });
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                                               const c10d::ReduceScatterOptions &options)
{
    Call call(*this, c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, options);
    const Pairs pairs = pairs_of(call.buffers, outputs, inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
        check_same_type(inputs[i], inputs.front(), call.place);
        check_parts(inputs[i], outputs[i], size_, call.place);
    }
    const tdm_dtype dtype = reduced_as(inputs.front().scalar_type(), call.place);
    const Operation op(options.reduceOp, inputs.front().scalar_type(), call.place);
    return run(call, inputs, outputs, [&](tdm_group *group, tdm_work **work) {
        return as_one(group, inputs.size(), work, [&](size_t i, tdm_work **one) {
            return tdm_reduce_scatter(group, pairs.in[i], pairs.out[i], count_of(outputs[i]), dtype, op, one);
        });
    });
}

} // namespace tandem
