/* lists.h - what calls on lists of tensors share. */
#pragma once

#include "buffer.h"

#include <tandem/collective.h>

#include <vector>

namespace tandem {

/* Elements of libtandem in each tensor: `each` for one of torch. */
std::vector<size_t> counts_of(const Tensors &list, size_t each = 1);
bool are_equal(const std::vector<size_t> &counts);

/* The list of a list of lists that must hold one, with a tensor for each of `size` ranks; `what` names it. */
const Tensors &one_a_rank(const std::vector<Tensors> &lists, const char *what, int size, const Place &place);
/* Raises unless all have one shape. */
void check_same_shape(const Tensors &list, const Place &place);
/* Number `index` of a list of like tensors. */
const at::Tensor &root_tensor(const Tensors &list, int64_t index, const Place &place);
/* Raises unless lists of inputs and outputs have tensors, equally many. */
void check_pairs(const Tensors &outputs, const Tensors &inputs, const Place &place);

/* Memory of each input and of its output. */
struct Pairs {
    std::vector<const void *> in;
    std::vector<void *> out;
};
Pairs pairs_of(Buffers &buffers, const Tensors &outputs, const Tensors &inputs);

/* Elements of libtandem in each rank's part of `tensor`: sizes[r] rows of its first dimension, or, without sizes, equally many. */
std::vector<size_t> counts_of_rows(const at::Tensor &tensor, const std::vector<int64_t> &sizes, const char *what, int size, size_t each,
                          const Place &place);

/* call(i, &handle) for i = 0 ... count-1 as one set with one handle, tdm_coalesce_begin to tdm_coalesce_end. */
template <typename Call> tdm_status as_one(tdm_group *group, size_t count, tdm_work **work, const Call &call)
{
    if (count == 1)
        return call(0, work);
    tdm_status status = tdm_coalesce_begin(group);
    if (status != TDM_OK)
        return status;
    for (size_t i = 0; i < count && status == TDM_OK; i++)
        status = call(i, work);
    const tdm_status ended = tdm_coalesce_end(group, status == TDM_OK ? work : nullptr);
    return status != TDM_OK ? status : ended;
}

} // namespace tandem
