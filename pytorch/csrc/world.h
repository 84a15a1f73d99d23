/* world.h - the groups of libtandem behind torch's process groups.
 *
 * The default group of a process is a group of its own and the root of all groups whose ranks it holds: they are made as its
 * sub-groups, share its memory and its worker thread. Any other group (the default one is another backend's, or has failed) is its
 * own root. Ranks may be threads of one process: a root is found by the rank that it has. */
#pragma once

#include "store.h"
#include "worker.h"

#include <tandem/recorder.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tandem {

using Milliseconds = std::chrono::milliseconds;

class Group {
  public:
    /* Meets the other ranks. ranks: the default group's ranks that are members; empty: this is the default group. */
    static std::shared_ptr<Group> make(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, Milliseconds timeout,
                                       const std::string &name, const std::vector<int> &ranks);
    /* A group of some ranks of `parent`; the caller is ranks[rank]. */
    static std::shared_ptr<Group> make_sub(const std::shared_ptr<Group> &parent, const std::vector<int> &ranks, int rank,
                                           Milliseconds timeout, const std::string &name);
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

    tdm_group *handle() const { return handle_; }
    tdm_group *root_handle() const { return root_ != nullptr ? root_->handle_ : handle_; }
    int rank() const { return rank_; }
    Place place(const char *call, const std::string *description = nullptr) const { return {call, &name_, rank_, description}; }
    Worker &worker() { return root_ != nullptr ? root_->worker_ : worker_; }
    /* Of calls that follow. */
    void set_timeout(Milliseconds timeout);
    Milliseconds timeout() const { return timeout_; }
    /* Of calls that follow, with `calls` held: a text that stays as it is while the same pointer is given. */
    void label(const char *text)
    {
        if (text != label_)
            tdm_group_set_label(handle_, text);
        label_ = text;
    }
    void label_once(const std::string &text)
    {
        tdm_group_set_label(handle_, text.c_str());
        label_ = nullptr;
    }
    /* The exception of a call that ended with `status`; remembers whether the group can be used on. */
    std::exception_ptr fails(tdm_status status, const Place &place);
    c10d::ErrorType error() const;
    /* Waits for what is under way; no group is made from it any more. */
    void close();
    /* All waits end, on all ranks. */
    void abort();

    std::mutex calls; /* one thread at a time starts a call */

  private:
    Group(std::shared_ptr<Group> parent, int rank, Milliseconds timeout, std::string name);
    ~Group();
    static void destroy(Group *group);
    static std::shared_ptr<Group> find_root(int rank, const std::vector<int> &ranks);
    void create(const c10::intrusive_ptr<c10d::Store> &store, int size);
    void share_heap(const Place &where);
    void create_sub(Group &parent, const std::vector<int> &ranks);

    const std::shared_ptr<Group> parent_; /* kept alive: its sub-groups go first */
    Group *const root_;                   /* nullptr: this is one */
    StorePointer store_;
    tdm_group *handle_ = nullptr;
    const int rank_;
    const int process_;
    const char *label_ = nullptr; /* guarded by calls */
    std::atomic<Milliseconds> timeout_;
    const std::string name_;
    bool is_default_ = false;
    std::atomic<tdm_status> failure_ = TDM_OK;
    std::atomic<bool> is_closed_ = false;
    Worker worker_; /* of a root */

    friend void stop_all_workers();
};

/* Stops the workers of all groups, for the end of the interpreter. Not with the interpreter's lock held. */
void stop_all_workers();

} // namespace tandem
