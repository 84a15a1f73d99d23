/* worker.h - the thread that finishes calls nobody waits for: one a root group, made at the first call that is not waited for at once.
 *
 * It tests what is under way, completes it, and sleeps until something is over; it never spins, for it shares cores with the
 * computation. Futures are completed by it with no lock held: their callbacks may make calls, and even wait for the futures of these, as
 * PyTorch's PowerSGD hook does; then a second thread takes over, or nobody would finish them. */
#pragma once

#include <tandem/group.h>

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

class Group;
class TandemWork;
using WorkPointer = c10::intrusive_ptr<TandemWork>;
using WorkPlace = std::list<WorkPointer>::iterator;

class Worker {
  public:
    Worker() = default; /* stop() comes before the end */
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    /* Takes care of a call under way of `root` or one of its sub-groups. */
    WorkPlace add(WorkPointer work, tdm_group *root);
    void remove(WorkPlace place);
    /* Waits for the calls of `group`: nobody makes more. */
    void finish(const Group &group);
    /* Ends the thread. What is still under way after `grace_s` fails; later calls end when somebody waits for them. */
    void stop(double grace_s);
    /* Whether a callback of this worker runs here. */
    bool is_this_thread() const;

  private:
    void start(tdm_group *root);
    void come_back();
    void loop();
    bool has_works();
    std::vector<WorkPointer> under_way();

    std::mutex lock_;
    std::condition_variable changed_;
    std::list<WorkPointer> works_;     /* guarded by lock_ */
    std::vector<std::thread> threads_; /* guarded by lock_ */
    int free_ = 0;                     /* guarded by lock_; threads in no callback that makes calls */
    tdm_group *root_ = nullptr;        /* set before the first thread runs */
    bool stops_ = false;               /* guarded by lock_ */
};

} // namespace tandem
