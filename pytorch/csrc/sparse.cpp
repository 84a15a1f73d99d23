/* sparse.cpp - all_reduce of sparse tensors: everybody gets all indices and values, and adds them up in rank order. */
#include "coalesced_work.h"
#include "lists.h"
#include "process_group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>

namespace tandem {

namespace {

constexpr int64_t most_dims = 16;
constexpr int64_t facts = 2 + most_dims; /* how many values, how many sparse dimensions, sizes */

at::Tensor facts_of(const at::Tensor &tensor, const Place &place)
{
    if (tensor.dim() > most_dims)
        raise(TDM_ERR_UNSUPPORTED, place, "sparse tensors may have " + std::to_string(most_dims) + " dimensions, found " + std::to_string(tensor.dim()));
    std::vector<int64_t> values(facts, -1);
    values[0] = tensor._nnz();
    values[1] = tensor.sparse_dim();
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), values.begin() + 2);
    return at::tensor(values, at::kLong);
}

} // namespace

/* Blocks in the call, asynchronous or not: what is gathered second depends on what came first. */
ProcessGroupTandem::Result ProcessGroupTandem::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    const Call call(*this, c10d::OpType::_ALLREDUCE_SPARSE, options);
    const at::NoGradGuard no_grad;
    check_pairs(tensors, tensors, call.place);
    if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
        raise(TDM_ERR_UNSUPPORTED, call.place, "all_reduce of sparse tensors only works with ReduceOp.SUM");
    at::Tensor input = tensors.front();
    for (size_t i = 0; i < tensors.size(); i++) {
        if (!tensors[i].is_sparse() || !tensors[i].device().is_cpu())
            raise(TDM_ERR_INVALID, call.place, "requires sparse COO tensors on the CPU");
        if (i > 0)
            input = input + tensors[i];
    }
    input = input.coalesce();

    c10d::AllgatherOptions gather_options;
    gather_options.timeout = options.timeout;
    gather_options.asyncOp = false;
    const auto gather = [&](const at::Tensor &mine, const std::function<std::vector<int64_t>(int)> &sizes_of) {
        std::vector<Tensors> all(1);
        for (int r = 0; r < size_; r++)
            all[0].push_back(at::empty(sizes_of(r), mine.options()));
        Tensors in = {mine.contiguous()};
        allgather(all, in, gather_options);
        return all[0];
    };
    const at::Tensor mine = facts_of(input, call.place);
    const Tensors theirs = gather(mine, [](int) { return std::vector<int64_t>{facts}; });
    const auto number = [&](int r) { return theirs[r].const_data_ptr<int64_t>()[0]; };
    for (int r = 0; r < size_; r++)
        if (!theirs[r].narrow(0, 1, facts - 1).equal(mine.narrow(0, 1, facts - 1)))
            raise(TDM_ERR_INVALID, call.place, "Sparse dimensions do not match those of rank " + std::to_string(r));
    const Tensors indices = gather(input.indices().t(), [&](int r) { return std::vector<int64_t>{number(r), input.sparse_dim()}; });
    const Tensors values = gather(input.values(), [&](int r) {
        std::vector<int64_t> sizes = input.values().sizes().vec();
        sizes[0] = number(r);
        return sizes;
    });
    const at::Tensor sum = at::sparse_coo_tensor(at::cat(indices).t(), at::cat(values), input.sizes(), input.options()).coalesce();
    for (at::Tensor &tensor : tensors)
        tensor.copy_(sum);
    if (!options.asyncOp)
        return nullptr;
    return c10::make_intrusive<CoalescedWork>(rank_, call.type, CoalescedWork::Works{}, tensors);
}

} // namespace tandem
