/* world.cpp - groups are made, found again and left. */
#include "world.h"

#include "allocator.h"
#include "work.h"

#include <algorithm>
#include <unistd.h>

namespace tandem {

namespace {

/* At the end of the interpreter works get this long to end by themselves. */
constexpr double exit_grace_s = 1;

/* All groups of the process. Never freed: threads outlive static objects. */
struct Register {
    std::mutex lock;
    std::vector<std::weak_ptr<Group>> groups;
};

Register &groups()
{
    static auto *all = new Register;
    return *all;
}

void enter(const std::shared_ptr<Group> &group)
{
    const std::lock_guard<std::mutex> guard(groups().lock);
    std::erase_if(groups().groups, [](const auto &old) { return old.expired(); });
    groups().groups.push_back(group);
}

std::vector<std::shared_ptr<Group>> living()
{
    std::vector<std::shared_ptr<Group>> found;
    const std::lock_guard<std::mutex> guard(groups().lock);
    for (const auto &weak : groups().groups)
        if (auto group = weak.lock())
            found.push_back(std::move(group));
    return found;
}

double seconds(Milliseconds time)
{
    return static_cast<double>(time.count()) * 1e-3;
}

} // namespace

Group::Group(std::shared_ptr<Group> parent, int rank, Milliseconds timeout, std::string name)
    : parent_(std::move(parent)), root_(parent_ == nullptr ? nullptr : parent_->root_ != nullptr ? parent_->root_ : parent_.get()), rank_(rank),
      process_(getpid()), timeout_(timeout), name_(std::move(name))
{
}

Group::~Group()
{
    worker_.stop(0);
    tdm_group_destroy(handle_);
}

/* The worker's callbacks may drop the last reference, but nobody joins himself. A child of fork() has neither the thread, which the end
 * of its condition variable would wait for, nor the connections: there the group stays. */
void Group::destroy(Group *group)
{
    if (getpid() != group->process_)
        return;
    if (group->worker().is_this_thread())
        std::thread([group] { delete group; }).detach();
    else
        delete group;
}

std::shared_ptr<Group> Group::find_root(int rank, const std::vector<int> &ranks)
{
    const int highest = *std::max_element(ranks.begin(), ranks.end());
    std::shared_ptr<Group> root;
    for (const auto &group : living())
        if (group->is_default_ && !group->is_closed_ && group->failure_ == TDM_OK && group->rank_ == ranks[static_cast<size_t>(rank)] &&
            highest < tdm_group_size(group->handle_))
            root = group;
    return root;
}

std::shared_ptr<Group> Group::make(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, Milliseconds timeout,
                                   const std::string &name, const std::vector<int> &ranks)
{
    if (!ranks.empty())
        if (const auto root = find_root(rank, ranks))
            return make_sub(root, ranks, rank, timeout, name);
    std::shared_ptr<Group> group(new Group(nullptr, rank, timeout, name), destroy);
    group->is_default_ = ranks.empty();
    group->create(store, size);
    enter(group);
    return group;
}

std::shared_ptr<Group> Group::make_sub(const std::shared_ptr<Group> &parent, const std::vector<int> &ranks, int rank, Milliseconds timeout,
                                       const std::string &name)
{
    std::shared_ptr<Group> group(new Group(parent, rank, timeout, name), destroy);
    group->create_sub(*parent, ranks);
    enter(group);
    return group;
}

void Group::create(const c10::intrusive_ptr<c10d::Store> &store, int size)
{
    const Place where = place("init_process_group");
    tdm_group_options options;
    tdm_group_options_init(&options);
    store_ = open_store(store, where);
    options.store = store_.get();
    options.rank = rank_;
    options.size = size;
    options.name = name_.c_str();
    options.timeout_s = options.rendezvous_timeout_s = seconds(timeout_);
    const tdm_status status = tdm_group_create(&options, &handle_);
    const std::string heard = take_store_error();
    if (status == TDM_ERR_SYSTEM && !heard.empty())
        raise(status, where, std::string(tdm_error_text()) + ": " + heard);
    if (status != TDM_OK)
        raise(status, where);
    share_heap(where);
}

/* Tensors in the heap are worked on in place by this group and its sub-groups. */
void Group::share_heap(const Place &where)
{
    const heap *tensors = tensor_heap();
    if (tensors == nullptr || tdm_group_size(handle_) == 1)
        return;
    const tdm_status status = tdm_memory_register_sparse(handle_, heap_fd(tensors), 0, heap_nbytes(tensors), heap_base(tensors), heap_present(tensors));
    if (status != TDM_OK)
        raise(status, where);
}

void Group::create_sub(Group &parent, const std::vector<int> &ranks)
{
    const std::lock_guard<std::mutex> guard(parent.calls);
    const tdm_status status = tdm_group_create_sub(parent.handle_, ranks.data(), static_cast<int>(ranks.size()), &handle_);
    if (status != TDM_OK)
        raise(status, place("new_group"));
    tdm_group_set_timeout(handle_, seconds(timeout_));
}

void Group::set_timeout(Milliseconds timeout)
{
    const std::lock_guard<std::mutex> guard(calls);
    tdm_group_set_timeout(handle_, seconds(timeout));
    timeout_ = timeout;
}

std::exception_ptr Group::fails(tdm_status status, const Place &place)
{
    const std::exception_ptr error = exception_of(status, place);
    if (status != TDM_ERR_INVALID && status != TDM_ERR_UNSUPPORTED && status != TDM_ERR_NO_MEMORY)
        failure_ = status;
    return error;
}

c10d::ErrorType Group::error() const
{
    switch (failure_.load()) {
    case TDM_OK:
        return c10d::ErrorType::SUCCESS;
    case TDM_ERR_TIMEOUT:
        return c10d::ErrorType::TIMEOUT;
    case TDM_ERR_PEER_LOST:
        return c10d::ErrorType::REMOTE_ERROR;
    default:
        return c10d::ErrorType::COMM_ERROR;
    }
}

void Group::close()
{
    is_closed_ = true;
    if (getpid() == process_)
        worker().finish(*this);
}

void Group::abort()
{
    failure_ = TDM_ERR_ABORTED;
    tdm_group_abort(handle_, ("rank " + std::to_string(rank_) + " aborted process group " + name_).c_str());
}

void stop_all_workers()
{
    for (const auto &group : living())
        if (group->root_ == nullptr && getpid() == group->process_)
            group->worker_.stop(exit_grace_s);
}

} // namespace tandem
