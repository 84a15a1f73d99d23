/* lists.cpp - checks and counts of lists of tensors. */
#include "lists.h"

#include <algorithm>

namespace tandem {

std::vector<size_t> counts_of(const Tensors &list, size_t each)
{
    std::vector<size_t> counts;
    counts.reserve(list.size());
    for (const at::Tensor &tensor : list)
        counts.push_back(each * count_of(tensor));
    return counts;
}

bool are_equal(const std::vector<size_t> &counts)
{
    return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

const Tensors &one_a_rank(const std::vector<Tensors> &lists, const char *what, int size, const Place &place)
{
    if (lists.size() != 1)
        raise(TDM_ERR_INVALID, place, std::string("requires a single-element ") + what + " list containing a list with " + std::to_string(size) +
                                          " tensors, found " + std::to_string(lists.size()));
    if (lists.front().size() != static_cast<size_t>(size))
        raise(TDM_ERR_INVALID, place, std::string("Incorrect ") + what + " list size " + std::to_string(lists.front().size()) + ". " +
                                          "It should be " + std::to_string(size) + ", same as size of the process group.");
    return lists.front();
}

void check_same_shape(const Tensors &list, const Place &place)
{
    for (const at::Tensor &tensor : list) {
        check_same_type(tensor, list.front(), place);
        if (!tensor.sizes().equals(list.front().sizes()))
            raise(TDM_ERR_INVALID, place, c10::str("tensors must have one shape, found ", list.front().sizes(), " and ", tensor.sizes()));
    }
}

const at::Tensor &root_tensor(const Tensors &list, int64_t index, const Place &place)
{
    if (index < 0 || index >= static_cast<int64_t>(list.size()))
        raise(TDM_ERR_INVALID, place, "the root tensor is number " + std::to_string(index) + " of a list of " + std::to_string(list.size()));
    check_same_shape(list, place);
    return list[static_cast<size_t>(index)];
}

void check_pairs(const Tensors &outputs, const Tensors &inputs, const Place &place)
{
    if (inputs.empty() || inputs.size() != outputs.size())
        raise(TDM_ERR_INVALID, place, "requires as many output tensors as input tensors, at least one; found " + std::to_string(outputs.size()) +
                                          " and " + std::to_string(inputs.size()));
    for (size_t i = 0; i < inputs.size(); i++)
        check_same_type(inputs[i], outputs[i], place);
}

Pairs pairs_of(Buffers &buffers, const Tensors &outputs, const Tensors &inputs)
{
    check_pairs(outputs, inputs, buffers.place());
    Pairs pairs;
    for (size_t i = 0; i < inputs.size(); i++) {
        pairs.in.push_back(buffers.in(inputs[i]));
        pairs.out.push_back(buffers.out(outputs[i]));
    }
    return pairs;
}

std::vector<size_t> counts_of_rows(const at::Tensor &tensor, const std::vector<int64_t> &sizes, const char *what, int size, size_t each, const Place &place)
{
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    if (sizes.empty()) {
        if (rows % size != 0)
            raise(TDM_ERR_INVALID, place, std::string("the first dimension of the ") + what + " tensor, " + std::to_string(rows) +
                                              ", does not divide equally across group size " + std::to_string(size) + "; give split sizes");
        return std::vector<size_t>(static_cast<size_t>(size), each * count_of(tensor) / static_cast<size_t>(size));
    }
    int64_t sum = 0;
    for (const int64_t part : sizes)
        sum = part < 0 || sum < 0 ? -1 : sum + part;
    if (sizes.size() != static_cast<size_t>(size) || sum != rows)
        raise(TDM_ERR_INVALID, place, std::string(what) + " split sizes must be " + std::to_string(size) + " numbers whose sum is " +
                                          std::to_string(rows) + ", the first dimension; found " + std::to_string(sizes.size()) + " with sum " +
                                          std::to_string(sum));
    const size_t row = rows > 0 ? each * count_of(tensor) / static_cast<size_t>(rows) : 0;
    std::vector<size_t> counts;
    for (const int64_t part : sizes)
        counts.push_back(row * static_cast<size_t>(part));
    return counts;
}

} // namespace tandem
