/* types.h - torch's names and libtandem's: element types, reduce operations, calls. The one table of each. */
#pragma once

#include "error.h"

#include <tandem/dtype.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <optional>
#include <string>

namespace tandem {

/* How elements of a torch type travel: `each` elements of `dtype` for one. Types that libtandem cannot reduce are bytes. */
struct Element {
    tdm_dtype dtype;
    size_t each;
};

Element element_of(at::ScalarType type);

/* The dtype in which `type` is reduced; raises where it cannot be. */
tdm_dtype reduced_as(at::ScalarType type, const Place &place);

/* A reduce operation for tensors of `type`. A premultiplied sum exists as long as this object and the calls started with it. */
class Operation {
  public:
    Operation(const c10d::ReduceOp &op, at::ScalarType type, const Place &place);
    ~Operation();
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;
    operator tdm_op() const { return op_; }

  private:
    tdm_op op_;
    bool is_made_ = false;
};

/* "all_reduce" for messages, "tandem:all_reduce" for the profiler. Static storage. */
const char *call_name(c10d::OpType type);
const char *call_title(c10d::OpType type);
/* As traces of other backends name it: "allreduce". */
const char *traced_name(c10d::OpType type);
/* Messages have no place in the order of collectives. */
bool is_message(c10d::OpType type);

} // namespace tandem
