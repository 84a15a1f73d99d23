/* coalesced_work.h - several calls seen as one: over when all are, failed when one is. With none it is over from the start. */
#pragma once

#include "buffer.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace tandem {

class CoalescedWork final : public c10d::Work {
  public:
    using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
    /* outputs: besides those of the works. */
    CoalescedWork(int rank, c10d::OpType type, Works works, Tensors outputs = {});

    bool wait(std::chrono::milliseconds timeout) override;
    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    Tensors result() override { return outputs_; }
    void synchronize() override {}
    void abort() override;

  private:
    const Works works_;
    Tensors outputs_;
};

} // namespace tandem
