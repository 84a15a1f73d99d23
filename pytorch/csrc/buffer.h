/* buffer.h - tensors as the contiguous memory that libtandem works on.
 *
 * A contiguous tensor is used where it lies. Any other is copied before the call and, where it is written, back after it; so are the
 * tensors of a list that do not lie one behind the other. What a call uses is kept alive here until it is over. */
#pragma once

#include "types.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <vector>

namespace tandem {

using Tensors = std::vector<at::Tensor>;

class Buffers {
  public:
    explicit Buffers(const Place &place) : place_(place) {}

    /* Memory of a tensor, or of a list's tensors in their order: read, written, or both. Raises RuntimeError for what is no dense tensor
     * on the CPU, and for a list of different types. */
    const void *in(const at::Tensor &tensor);
    void *out(const at::Tensor &tensor);
    void *in_out(const at::Tensor &tensor);
    const void *in(const Tensors &list);
    void *out(const Tensors &list);

    /* After the call, and after what was copied back before: `to` gets the values of `from`. */
    void copy_after(const at::Tensor &from, const at::Tensor &to);

    /* After the call: copies back. */
    void finish();
    /* Forgets all tensors, so that whoever ends the call is not the one who frees them later. */
    void release();

    const Place &place() const { return place_; }

  private:
    struct Copy {
        at::Tensor from, to;
    };
    void check(const at::Tensor &tensor) const;
    void check(const Tensors &list) const;
    void *keep(const at::Tensor &tensor);
    void *keep_one_block(const Tensors &list);
    template <typename Each> void *as_one_block(const Tensors &list, const Each &each);

    Place place_;
    c10::SmallVector<at::Tensor, 2> kept_;
    std::vector<Copy> copies_;
};

/* The one tensor of a list that must hold one; `what` names the list. */
const at::Tensor &only(const Tensors &list, const char *what, const Place &place);
/* Raises unless both hold elements of one type. */
void check_same_type(const at::Tensor &a, const at::Tensor &b, const Place &place);
/* Raises unless each of a list has as many elements as `tensor`. */
void check_same_counts(const at::Tensor &tensor, const Tensors &list, const Place &place);
/* Raises unless `whole` has `parts` times the elements of `part`. */
void check_parts(const at::Tensor &whole, const at::Tensor &part, int parts, const Place &place);
size_t count_of(const at::Tensor &tensor);

} // namespace tandem
