/* worker.cpp - the loop, and its end. */
#include "worker.h"

#include "work.h"

#include <chrono>

namespace tandem {

namespace {

constexpr std::chrono::milliseconds test_every{1};

} // namespace

WorkPlace Worker::add(WorkPointer work, tdm_group *root)
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (works_.empty())
        changed_.notify_one();
    const WorkPlace place = works_.insert(works_.end(), std::move(work));
    if (!thread_.joinable() && !stops_) {
        root_ = root;
        thread_ = std::thread([this] { loop(); });
        id_ = thread_.get_id();
    }
    return place;
}

void Worker::remove(WorkPlace place)
{
    WorkPointer work; /* freed without the lock */
    const std::lock_guard<std::mutex> guard(lock_);
    work = std::move(*place);
    works_.erase(place);
}

std::vector<WorkPointer> Worker::under_way()
{
    const std::lock_guard<std::mutex> guard(lock_);
    return {works_.begin(), works_.end()};
}

void Worker::loop()
{
    for (;;) {
        {
            std::unique_lock<std::mutex> guard(lock_);
            changed_.wait(guard, [this] { return stops_ || !works_.empty(); });
            if (stops_)
                return;
        }
        for (const WorkPointer &work : under_way())
            work->advance(false);
        std::unique_lock<std::mutex> guard(lock_);
        if (!works_.empty())
            changed_.wait_for(guard, test_every, [this] { return stops_; });
    }
}

void Worker::finish(const Group &group)
{
    for (const WorkPointer &work : under_way())
        if (work->is_of(group))
            work->advance(true);
}

void Worker::stop(double grace_s)
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(grace_s);
    std::vector<WorkPointer> works = under_way();
    for (const WorkPointer &work : works)
        while (!work->isCompleted() && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(test_every);
    std::thread ended;
    {
        const std::lock_guard<std::mutex> guard(lock_);
        stops_ = true;
        ended = std::move(thread_);
    }
    changed_.notify_all();
    if (ended.joinable())
        ended.join();
    for (const WorkPointer &work : under_way())
        work->give_up();
}

} // namespace tandem
