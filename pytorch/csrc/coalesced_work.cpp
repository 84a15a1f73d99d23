/* coalesced_work.cpp - asks each of its calls. */
#include "coalesced_work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>

namespace tandem {

CoalescedWork::CoalescedWork(int rank, c10d::OpType type, Works works, Tensors outputs)
    : Work(rank, type), works_(std::move(works)), outputs_(std::move(outputs))
{
    for (const auto &work : works_) {
        const Tensors more = work->result();
        outputs_.insert(outputs_.end(), more.begin(), more.end());
    }
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout)
{
    for (const auto &work : works_)
        work->wait(timeout);
    return true;
}

bool CoalescedWork::isCompleted()
{
    return std::all_of(works_.begin(), works_.end(), [](const auto &work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const
{
    return std::all_of(works_.begin(), works_.end(), [](const auto &work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const
{
    for (const auto &work : works_)
        if (const auto error = work->exception())
            return error;
    return nullptr;
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture()
{
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> parts(c10::FutureType::create(c10::ListType::ofTensors()));
    for (const auto &work : works_)
        parts.push_back(work->getFuture());
    return c10::collectAll(parts)->then([outputs = outputs_](c10::ivalue::Future &all) {
        if (all.hasError())
            std::rethrow_exception(all.exception_ptr());
        return c10::IValue(outputs);
    }, c10::ListType::ofTensors());
}

void CoalescedWork::abort()
{
    for (const auto &work : works_)
        work->abort();
}

} // namespace tandem
