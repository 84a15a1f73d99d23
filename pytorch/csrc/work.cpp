/* work.cpp - who finishes a call, and what happens then. */
#include "work.h"

#include <ATen/core/ivalue.h>

namespace tandem {

namespace {

void mark(c10::ivalue::Future &future, const Tensors &outputs, const std::exception_ptr &error)
{
    if (error != nullptr)
        future.setError(error);
    else
        future.markCompleted(c10::IValue(outputs));
}

} // namespace

TandemWork::TandemWork(Group &group, c10d::OpType type, tdm_work *handle, Buffers buffers, at::TensorList inputs, at::TensorList outputs,
                       uint64_t number, std::unique_ptr<tdm_message> message)
    : Work(group.rank(), type, call_title(type), inputs.vec()), handle_(handle), group_(&group), buffers_(std::move(buffers)),
      outputs_(outputs.vec()), number_(number), message_(std::move(message))
{
}

void TandemWork::entrust()
{
    advance(false);
    {
        const std::lock_guard<std::mutex> turn(turn_);
        if (handle_ == nullptr)
            return;
        place_ = group_.load()->worker().add(WorkPointer::reclaim_copy(this), group_.load()->root_handle());
        is_entrusted_ = true;
    }
    advance(false); /* it may have ended before the worker knew of it */
}

void TandemWork::advance(bool waits)
{
    std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
    if (waits)
        turn.lock();
    else if (!turn.try_lock())
        return; /* somebody waits for it */
    bool done = waits;
    if (handle_ == nullptr || (!waits && tdm_work_test(handle_, &done) == TDM_OK && !done))
        return;
    const std::exception_ptr error = end();
    turn.unlock();
    complete(error);
}

std::exception_ptr TandemWork::end()
{
    std::exception_ptr error;
    const tdm_status status = tdm_work_wait(handle_);
    if (status != TDM_OK)
        error = group_.load()->fails(status, buffers_.place());
    else
        try {
            buffers_.finish();
        } catch (...) {
            error = std::current_exception();
        }
    handle_ = nullptr;
    buffers_.release();
    if (is_entrusted_)
        group_.load()->worker().remove(place_);
    group_ = nullptr;
    return error;
}

void TandemWork::give_up()
{
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock() || handle_ == nullptr)
        return;
    handle_ = nullptr; /* goes with its group */
    group_.load()->worker().remove(place_);
    group_ = nullptr;
    const Buffers kept = std::move(buffers_); /* libtandem may still use them: the process ends soon, they do not */
    const std::string text = kept.place().text() + ": was still under way when the program ended; wait for it before that";
    turn.unlock();
    complete(std::make_exception_ptr(c10::DistBackendError({"tandem", "pytorch/csrc", 0}, text)));
}

void TandemWork::complete(std::exception_ptr error)
{
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        const std::lock_guard<std::mutex> guard(future_lock_);
        is_over_ = true;
        error_ = error;
        future = future_;
    }
    if (future != nullptr)
        mark(*future, outputs_, error);
    finish(error);
}

c10::intrusive_ptr<c10::ivalue::Future> TandemWork::getFuture()
{
    std::unique_lock<std::mutex> guard(future_lock_);
    if (future_ != nullptr)
        return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    const auto future = future_;
    const bool is_over = is_over_;
    const std::exception_ptr error = error_;
    guard.unlock();
    if (is_over)
        mark(*future, outputs_, error);
    return future;
}

bool TandemWork::wait(std::chrono::milliseconds timeout)
{
    if (timeout == kNoTimeout)
        advance(true);
    return Work::wait(timeout);
}

bool TandemWork::isCompleted()
{
    advance(false);
    return Work::isCompleted();
}

int TandemWork::sourceRank() const
{
    return message_ != nullptr ? message_->from : Work::sourceRank();
}

} // namespace tandem
