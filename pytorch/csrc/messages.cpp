/* messages.cpp - from one rank to another. torch calls these without a choice: they are asynchronous. */
#include "process_group.h"

#include <tandem/message.h>

namespace tandem {

namespace {

int valid(int tag, const Place &place)
{
    if (tag < 0)
        raise(TDM_ERR_INVALID, place, "Tag must be nonnegative, found " + std::to_string(tag));
    return tag;
}

} // namespace

ProcessGroupTandem::Result ProcessGroupTandem::send(Tensors &tensors, int to, int tag)
{
    Call call(*this, c10d::OpType::SEND, c10d::kUnsetTimeout, true);
    const at::Tensor &tensor = only(tensors, "input", call.place);
    call.peer = rank_in_group(to, call.place);
    valid(tag, call.place);
    const void *data = call.buffers.in(tensor);
    const Element element = element_of(tensor.scalar_type());
    return run(call, tensors, {}, [&](tdm_group *group, tdm_work **work) {
        return tdm_send(group, data, element.each * count_of(tensor), element.dtype, to, tag, work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::receive(c10d::OpType type, Tensors &tensors, int from, int tag)
{
    Call call(*this, type, c10d::kUnsetTimeout, true);
    const at::Tensor &tensor = only(tensors, "output", call.place);
    if (from != TDM_ANY_SOURCE)
        call.peer = rank_in_group(from, call.place);
    valid(tag, call.place);
    void *data = call.buffers.out(tensor);
    const Element element = element_of(tensor.scalar_type());
    call.message = std::make_unique<tdm_message>();
    return run(call, tensors, tensors, [&](tdm_group *group, tdm_work **work) {
        return tdm_recv(group, data, element.each * count_of(tensor), element.dtype, from, tag, call.message.get(), work);
    });
}

ProcessGroupTandem::Result ProcessGroupTandem::recv(Tensors &tensors, int from, int tag)
{
    return receive(c10d::OpType::RECV, tensors, from, tag);
}

ProcessGroupTandem::Result ProcessGroupTandem::recvAnysource(Tensors &tensors, int tag)
{
    return receive(c10d::OpType::RECVANYSOURCE, tensors, TDM_ANY_SOURCE, tag);
}

} // namespace tandem
