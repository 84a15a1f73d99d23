/* moves.cpp - collectives that move: from and to one rank, from all to all, many tensors at once. */
#include "lists.h"
#include "process_group.h"

namespace tandem {

ProcessGroupTandem::Result ProcessGroupTandem::gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
    Call call(*this, c10d::OpType::GATHER, options);
    const at::Tensor &input = only(inputs, "input", call.place);
    const int root = rank_in_group(options.rootRank, call.place);
    const void *in = call.buffers.in(input);
    Tensors parts;
    void *out = nullptr;
    if (rank_ == root) {
        parts = one_a_rank(outputs, "output", size_, call.place);
        out = call.buffers.out(parts);
        check_same_type(input, parts.front(), call.place);
        check_same_counts(input, parts, call.place);
    } else if (!outputs.empty())
        raise(TDM_ERR_INVALID, call.place, "requires empty output on non-root");
    const Element element = element_of(input.scalar_type());
    return run(call, inputs, parts, [&](tdm_group *group, tdm_work **work) {
        return tdm_gather(group, in, out, element.each * count_of(input), element.dtype, root, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options)
{
    Call call(*this, c10d::OpType::SCATTER, options);
    const at::Tensor &output = only(outputs, "output", call.place);
    const int root = rank_in_group(options.rootRank, call.place);
    void *out = call.buffers.out(output);
    Tensors parts;
    const void *in = nullptr;
    if (rank_ == root) {
        parts = one_a_rank(inputs, "input", size_, call.place);
        in = call.buffers.in(parts);
        check_same_type(output, parts.front(), call.place);
        check_same_counts(output, parts, call.place);
    } else if (!inputs.empty())
        raise(TDM_ERR_INVALID, call.place, "requires empty input on non-root");
    const Element element = element_of(output.scalar_type());
    return run(call, parts, outputs, [&](tdm_group *group, tdm_work **work) {
        return tdm_scatter(group, in, out, element.each * count_of(output), element.dtype, root, work);
    });
}

/* With n inputs each list of outputs gets n of every rank. Outputs of one input may differ in size. */
ProcessGroupTandem::Result ProcessGroupTandem::allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
    Call call(*this, c10d::OpType::ALLGATHER, options);
    const void *in = call.buffers.in(inputs);
    if (outputs.size() != inputs.size())
        raise(TDM_ERR_INVALID, call.place, "requires a list of outputs for each of " + std::to_string(inputs.size()) + " inputs, found " +
                                               std::to_string(outputs.size()));
    for (const Tensors &list : outputs)
        one_a_rank({list}, "output", size_ * static_cast<int>(inputs.size()), call.place);
    const Tensors &parts = outputs.front();
    void *out = call.buffers.out(parts);
    check_same_type(inputs.front(), parts.front(), call.place);
    const Element element = element_of(parts.front().scalar_type());
    const std::vector<size_t> counts = counts_of(parts, element.each);
    const bool is_even = inputs.size() > 1 || are_equal(counts);
    if (!is_even)
        agree(call, counts, element.each * count_of(inputs.front()));
    for (const Tensors &list : outputs)
        for (size_t i = 0; is_even && i < list.size(); i++) {
            check_same_counts(inputs[i % inputs.size()], {list[i], inputs.front()}, call.place);
            if (&list != &parts)
                call.buffers.copy_after(parts[i], list[i]);
        }
    return run(call, inputs, parts, [&](tdm_group *group, tdm_work **work) {
        return is_even ? tdm_all_gather(group, in, out, inputs.size() * counts.front(), element.dtype, work)
                       : tdm_all_gatherv(group, in, out, counts.data(), element.dtype, work);
    });
}

/* outputs[r][i] becomes inputs[i] of rank r. */
ProcessGroupTandem::Result ProcessGroupTandem::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                                                   const c10d::AllgatherOptions &options)
{
    Call call(*this, c10d::OpType::ALLGATHER_COALESCED, options);
    if (outputs.size() != static_cast<size_t>(size_))
        raise(TDM_ERR_INVALID, call.place, "output lists should be equal to world size " + std::to_string(size_) + ", found " +
                                               std::to_string(outputs.size()));
    Tensors all;
    for (const Tensors &of_rank : outputs) {
        check_pairs(of_rank, inputs, call.place);
        for (size_t i = 0; i < inputs.size(); i++)
            check_same_counts(inputs[i], {of_rank[i]}, call.place);
        all.insert(all.end(), of_rank.begin(), of_rank.end());
    }
    const void *in = call.buffers.in(inputs);
    void *out = call.buffers.out(all);
    const Element element = element_of(inputs.front().scalar_type());
    size_t count = 0;
    for (const at::Tensor &tensor : inputs)
        count += element.each * count_of(tensor);
    return run(call, inputs, all, [&](tdm_group *group, tdm_work **work) {
        return tdm_all_gather(group, in, out, count, element.dtype, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                                               const c10d::AllgatherOptions &options)
{
    Call call(*this, c10d::OpType::ALLGATHER_COALESCED, options);
    const Pairs pairs = pairs_of(call.buffers, outputs, inputs);
    for (size_t i = 0; i < inputs.size(); i++)
        check_parts(outputs[i], inputs[i], size_, call.place);
    return run(call, inputs, outputs, [&](tdm_group *group, tdm_work **work) {
        return as_one(group, inputs.size(), work, [&](size_t i, tdm_work **one) {
            const Element element = element_of(inputs[i].scalar_type());
            return tdm_all_gather(group, pairs.in[i], pairs.out[i], element.each * count_of(inputs[i]), element.dtype, one);
        });
    });
}

/* Other ranks may cut differently, so a list is always one of parts with sizes of their own. */
ProcessGroupTandem::Result ProcessGroupTandem::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
    Call call(*this, c10d::OpType::ALLTOALL, options);
    for (const Tensors *list : {&inputs, &outputs})
        if (list->size() != static_cast<size_t>(size_))
            raise(TDM_ERR_INVALID, call.place, std::string(list == &inputs ? "input" : "output") + " tensor list size " +
                                                   std::to_string(list->size()) + " does not match world size " + std::to_string(size_));
    const void *in = call.buffers.in(inputs);
    void *out = call.buffers.out(outputs);
    check_same_type(inputs.front(), outputs.front(), call.place);
    const Element element = element_of(inputs.front().scalar_type());
    const std::vector<size_t> in_counts = counts_of(inputs, element.each), out_counts = counts_of(outputs, element.each);
    return run(call, inputs, outputs, [&](tdm_group *group, tdm_work **work) {
        return tdm_alltoallv(group, in, in_counts.data(), out, out_counts.data(), element.dtype, work);
    });
}

/* Rows of the first dimension; no sizes: equal parts. */
ProcessGroupTandem::Result ProcessGroupTandem::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_sizes,
                                                             std::vector<int64_t> &input_sizes, const c10d::AllToAllOptions &options)
{
    Call call(*this, c10d::OpType::ALLTOALL_BASE, options);
    const void *in = call.buffers.in(input);
    void *out = call.buffers.out(output);
    check_same_type(input, output, call.place);
    const Element element = element_of(input.scalar_type());
    const std::vector<size_t> in_counts = counts_of_rows(input, input_sizes, "input", size_, element.each, call.place);
    const std::vector<size_t> out_counts = counts_of_rows(output, output_sizes, "output", size_, element.each, call.place);
    call.input_split = input_sizes;
    call.output_split = output_sizes;
    const bool is_even = input_sizes.empty() && output_sizes.empty();
    if (is_even)
        check_same_counts(input, {output}, call.place);
    return run(call, input, output, [&](tdm_group *group, tdm_work **work) {
        return is_even ? tdm_alltoall(group, in, out, in_counts.front(), element.dtype, work)
                       : tdm_alltoallv(group, in, in_counts.data(), out, out_counts.data(), element.dtype, work);
    });
}

} // namespace tandem
