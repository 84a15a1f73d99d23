/* types.cpp - the tables. */
#include "types.h"

#include <tandem/op.h>

#include <ATen/core/Tensor.h>

#include <array>

namespace tandem {

namespace {

struct Type {
    at::ScalarType torch;
    tdm_dtype dtype;
};

constexpr std::array types = {
    Type{at::kFloat, TDM_F32}, Type{at::kDouble, TDM_F64}, Type{at::kBFloat16, TDM_BF16}, Type{at::kHalf, TDM_F16},
    Type{at::kInt, TDM_I32},   Type{at::kLong, TDM_I64},   Type{at::kChar, TDM_I8},       Type{at::kByte, TDM_U8},
    Type{at::kUInt32, TDM_U32}, Type{at::kUInt64, TDM_U64}, Type{at::kBool, TDM_BOOL},    Type{at::kComplexFloat, TDM_C64},
};

/* In the order of ReduceOp::RedOpType, up to PREMUL_SUM. */
constexpr std::array operations = {TDM_SUM, TDM_AVG, TDM_PROD, TDM_MIN, TDM_MAX, TDM_BAND, TDM_BOR, TDM_BXOR};

struct Name {
    c10d::OpType type;
    const char *title, *traced;
};

constexpr std::array names = {
    Name{c10d::OpType::BROADCAST, "tandem:broadcast", "broadcast"},
    Name{c10d::OpType::ALLREDUCE, "tandem:all_reduce", "allreduce"},
    Name{c10d::OpType::ALLREDUCE_COALESCED, "tandem:all_reduce_coalesced", "allreduce_coalesced"},
    Name{c10d::OpType::REDUCE, "tandem:reduce", "reduce"},
    Name{c10d::OpType::ALLGATHER, "tandem:all_gather", "all_gather"},
    Name{c10d::OpType::_ALLGATHER_BASE, "tandem:_all_gather_base", "_allgather_base"},
    Name{c10d::OpType::ALLGATHER_COALESCED, "tandem:all_gather_coalesced", "allgather_into_tensor_coalesced"},
    Name{c10d::OpType::GATHER, "tandem:gather", "gather"},
    Name{c10d::OpType::SCATTER, "tandem:scatter", "scatter"},
    Name{c10d::OpType::REDUCE_SCATTER, "tandem:reduce_scatter", "reduce_scatter"},
    Name{c10d::OpType::_REDUCE_SCATTER_BASE, "tandem:_reduce_scatter_base", "_reduce_scatter_base"},
    Name{c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "tandem:reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced"},
    Name{c10d::OpType::ALLTOALL, "tandem:all_to_all", "all_to_all"},
    Name{c10d::OpType::ALLTOALL_BASE, "tandem:all_to_all", "all_to_all"},
    Name{c10d::OpType::SEND, "tandem:send", "send"},
    Name{c10d::OpType::RECV, "tandem:recv", "recv"},
    Name{c10d::OpType::RECVANYSOURCE, "tandem:recvAnySource", "recv"},
    Name{c10d::OpType::BARRIER, "tandem:barrier", "barrier"},
    Name{c10d::OpType::COALESCED, "tandem:coalesced", "coalesced"},
    Name{c10d::OpType::_ALLREDUCE_SPARSE, "tandem:sparse_all_reduce", "allreduce_sparse"},
};

const Name &name_of(c10d::OpType type)
{
    static constexpr Name unknown = {c10d::OpType::UNKNOWN, "tandem:unknown", "unknown"};
    for (const Name &row : names)
        if (row.type == type)
            return row;
    return unknown;
}

std::optional<tdm_dtype> find(at::ScalarType type)
{
    for (const Type &row : types)
        if (row.torch == type)
            return row.dtype;
    return std::nullopt;
}

tdm_op premultiplied(const c10d::ReduceOp &op, tdm_dtype dtype, const Place &place)
{
    const auto *supplement = dynamic_cast<const c10d::PreMulSumSupplement *>(op.supplement_.get());
    if (supplement == nullptr)
        raise(TDM_ERR_INVALID, place, "a premultiplied sum without its factor");
    at::ScalarType kept = at::kFloat; /* halves are multiplied in float32 */
    for (const Type &row : types)
        if (row.dtype == dtype && dtype != TDM_F16 && dtype != TDM_BF16)
            kept = row.torch;
    const at::Tensor factor = supplement->tensor_factor.defined() ? supplement->tensor_factor.to(at::kCPU, kept).contiguous()
                                                                  : at::full({1}, supplement->double_factor, at::TensorOptions().dtype(kept));
    tdm_op made;
    const tdm_status status = tdm_op_create_premul(dtype, factor.const_data_ptr(), &made);
    if (status != TDM_OK)
        raise(status, place);
    return made;
}

} // namespace

Element element_of(at::ScalarType type)
{
    if (const auto dtype = find(type))
        return {*dtype, 1};
    return {TDM_U8, c10::elementSize(type)};
}

tdm_dtype reduced_as(at::ScalarType type, const Place &place)
{
    if (const auto dtype = find(type))
        return *dtype;
    raise(TDM_ERR_UNSUPPORTED, place, std::string("elements of type ") + c10::toString(type) + " cannot be reduced; convert them first");
}

Operation::Operation(const c10d::ReduceOp &op, at::ScalarType type, const Place &place) : op_(TDM_SUM)
{
    const auto index = static_cast<size_t>(op.op_);
    if (index < operations.size()) {
        op_ = operations[index];
        return;
    }
    if (op.op_ != c10d::ReduceOp::PREMUL_SUM)
        raise(TDM_ERR_INVALID, place, "no reduce operation has number " + std::to_string(index));
    op_ = premultiplied(op, reduced_as(type, place), place);
    is_made_ = true;
}

Operation::~Operation()
{
    if (is_made_)
        (void)tdm_op_free(op_);
}

const char *call_title(c10d::OpType type)
{
    return name_of(type).title;
}

const char *traced_name(c10d::OpType type)
{
    return name_of(type).traced;
}

const char *call_name(c10d::OpType type)
{
    return call_title(type) + sizeof "tandem:" - 1;
}

bool is_message(c10d::OpType type)
{
    return type == c10d::OpType::SEND || type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
}

} // namespace tandem
