/* buffer.cpp - what is used in place, what is copied. */
#include "buffer.h"

#include "allocator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

namespace tandem {

namespace {

void *address(const at::Tensor &tensor)
{
    return tensor.mutable_data_ptr();
}

/* Its memory is its values, in order. */
bool is_plain(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

/* Values are copied, not operations on them: no graph of autograd grows here, in whichever thread. */
void copy_values(const at::Tensor &to, const at::Tensor &from)
{
    const at::NoGradGuard no_grad;
    to.copy_(from);
}

at::Tensor plain_copy(const at::Tensor &tensor)
{
    const at::Tensor copy = at::empty(tensor.sizes(), tensor.options());
    copy_values(copy, tensor);
    return copy;
}

/* Whether the tensors of a list lie one behind the other in one storage. */
bool are_one_block(const Tensors &list)
{
    const auto *next = static_cast<const char *>(list.front().const_data_ptr());
    for (const at::Tensor &tensor : list) {
        if (!is_plain(tensor) || !tensor.storage().is_alias_of(list.front().storage()) || tensor.const_data_ptr() != next)
            return false;
        next += tensor.nbytes();
    }
    return true;
}

at::Tensor block_for(const Tensors &list)
{
    int64_t count = 0;
    for (const at::Tensor &tensor : list)
        count += tensor.numel();
    return at::empty({count}, list.front().options());
}

/* The part of `block` that begins at `at` and has the shape of `tensor`. */
at::Tensor part(const at::Tensor &block, const at::Tensor &tensor, int64_t *at)
{
    const at::Tensor view = block.narrow(0, *at, tensor.numel()).view(tensor.sizes());
    *at += tensor.numel();
    return view;
}

} // namespace

void Buffers::check(const at::Tensor &tensor) const
{
    if (!tensor.defined())
        raise(TDM_ERR_INVALID, place_, "a tensor is undefined");
    if (!tensor.device().is_cpu())
        raise(TDM_ERR_INVALID, place_, "tensors must be on the CPU, found one on " + tensor.device().str() +
                                           "; use \"cpu:tandem,cuda:nccl\" as backend, or move it with .cpu()");
    if (tensor.layout() != c10::kStrided)
        raise(TDM_ERR_INVALID, place_, "tensors must be dense, found a sparse one");
}

void Buffers::check(const Tensors &list) const
{
    if (list.empty())
        raise(TDM_ERR_INVALID, place_, "requires a non-empty list of tensors");
    for (const at::Tensor &tensor : list) {
        check(tensor);
        check_same_type(tensor, list.front(), place_);
    }
}

void *Buffers::keep(const at::Tensor &tensor)
{
    kept_.push_back(tensor);
    make_reachable(tensor, tensor.nbytes());
    return address(tensor);
}

void *Buffers::keep_one_block(const Tensors &list)
{
    size_t nbytes = 0;
    for (const at::Tensor &tensor : list)
        nbytes += tensor.nbytes();
    kept_.append(list.begin(), list.end());
    make_reachable(list.front(), nbytes);
    return address(list.front());
}

const void *Buffers::in(const at::Tensor &tensor)
{
    check(tensor);
    return keep(is_plain(tensor) ? tensor : plain_copy(tensor));
}

void *Buffers::out(const at::Tensor &tensor)
{
    check(tensor);
    if (is_plain(tensor))
        return keep(tensor);
    copies_.push_back({at::empty(tensor.sizes(), tensor.options()), tensor});
    return keep(copies_.back().from);
}

void *Buffers::in_out(const at::Tensor &tensor)
{
    check(tensor);
    if (is_plain(tensor))
        return keep(tensor);
    copies_.push_back({plain_copy(tensor), tensor});
    return keep(copies_.back().from);
}

/* each(part, tensor) where the list is no block yet and gets one. */
template <typename Each> void *Buffers::as_one_block(const Tensors &list, const Each &each)
{
    check(list);
    if (are_one_block(list))
        return keep_one_block(list);
    const at::Tensor block = block_for(list);
    int64_t at = 0;
    for (const at::Tensor &tensor : list)
        each(part(block, tensor, &at), tensor);
    return keep(block);
}

const void *Buffers::in(const Tensors &list)
{
    return as_one_block(list, copy_values);
}

void *Buffers::out(const Tensors &list)
{
    return as_one_block(list, [this](const at::Tensor &part, const at::Tensor &tensor) { copies_.push_back({part, tensor}); });
}

void Buffers::copy_after(const at::Tensor &from, const at::Tensor &to)
{
    copies_.push_back({from, to});
}

void Buffers::finish()
{
    for (const Copy &copy : copies_)
        copy_values(copy.to, copy.from);
}

void Buffers::release()
{
    kept_.clear();
    copies_.clear();
}

const at::Tensor &only(const Tensors &list, const char *what, const Place &place)
{
    if (list.size() != 1)
        raise(TDM_ERR_INVALID, place, std::string("requires a single-element list of ") + what + " tensors, found " + std::to_string(list.size()));
    return list.front();
}

void check_same_type(const at::Tensor &a, const at::Tensor &b, const Place &place)
{
    if (a.scalar_type() != b.scalar_type())
        raise(TDM_ERR_INVALID, place, std::string("tensors must have one type, found ") + c10::toString(a.scalar_type()) + " and " +
                                          c10::toString(b.scalar_type()));
}

void check_same_counts(const at::Tensor &tensor, const Tensors &list, const Place &place)
{
    for (const at::Tensor &other : list)
        if (other.numel() != tensor.numel())
            raise(TDM_ERR_INVALID, place, "tensors must have one size, found " + std::to_string(tensor.numel()) + " and " +
                                              std::to_string(other.numel()) + " elements");
}

void check_parts(const at::Tensor &whole, const at::Tensor &part, int parts, const Place &place)
{
    if (whole.numel() != part.numel() * parts)
        raise(TDM_ERR_INVALID, place, "the larger tensor must have " + std::to_string(parts) + " times the " + std::to_string(part.numel()) +
                                          " elements of the smaller, found " + std::to_string(whole.numel()));
}

size_t count_of(const at::Tensor &tensor)
{
    return static_cast<size_t>(tensor.numel());
}

} // namespace tandem
