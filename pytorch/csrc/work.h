/* work.h - a call under way as torch sees it.
 *
 * Whoever comes first finishes it: a thread that waits (it does so in libtandem, without a hop to another thread) or the worker. `turn_`
 * says who. Tensors are released before others learn that it is over: where a thread that is not Python's drops the last reference but
 * Python's own, it needs the interpreter's lock, which may never come at the interpreter's end. */
#pragma once

#include "buffer.h"
#include "world.h"

#include <tandem/collective.h>
#include <tandem/message.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace tandem {

class TandemWork final : public c10d::Work {
  public:
    /* Takes the handle; the group outlives calls under way. inputs: what a profiler notes. outputs: what result() and the future give.
     * message: of a receive; the handle writes it. */
    TandemWork(Group &group, c10d::OpType type, tdm_work *handle, Buffers buffers, at::TensorList inputs, at::TensorList outputs, uint64_t number,
               std::unique_ptr<tdm_message> message);

    bool wait(std::chrono::milliseconds timeout) override;
    bool isCompleted() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    Tensors result() override { return outputs_; }
    uint64_t getSequencenumber() const override { return number_; }
    int sourceRank() const override;

    /* Hands it to the worker, unless it is over. */
    void entrust();
    /* Finishes it if it is over, or, where `waits`, when it is. */
    void advance(bool waits);
    /* Nobody will finish it any more: it fails. */
    void give_up();
    bool is_of(const Group &group) const { return group_ == &group; }

  private:
    /* With turn_ held; the exception, if there is one, for complete(). */
    std::exception_ptr end();
    void complete(std::exception_ptr error);

    std::mutex turn_;
    tdm_work *handle_;  /* guarded by turn_; nullptr: over */
    std::atomic<Group *> group_; /* set to nullptr with turn_ held, when it is over */
    Buffers buffers_;   /* guarded by turn_ */
    const Tensors outputs_;
    const uint64_t number_;
    const std::unique_ptr<tdm_message> message_;
    bool is_entrusted_ = false; /* guarded by turn_ */
    WorkPlace place_;           /* in the worker's list, if it is there */

    std::mutex future_lock_;
    c10::intrusive_ptr<c10::ivalue::Future> future_; /* guarded by future_lock_; made when asked for */
    bool is_over_ = false;                           /* guarded by future_lock_ */
    std::exception_ptr error_;                       /* guarded by future_lock_ */
};

} // namespace tandem
