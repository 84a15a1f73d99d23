/* worker.cpp - the loop, and its end. */
#include "worker.h"

#include "work.h"

#include <tandem/progress.h>

#include <chrono>

namespace tandem {

namespace {

constexpr double longest_sleep_s = 1;
/* Between two looks at what may still end before the thread does. */
constexpr std::chrono::milliseconds end_pause{1};

/* The worker whose loop this thread runs, and whether it is in a callback that made a call. */
thread_local const Worker *of_this_thread = nullptr;
thread_local bool is_away = false;

} // namespace

bool Worker::is_this_thread() const
{
    return of_this_thread == this;
}

/* With lock_ held. */
void Worker::start(tdm_group *root)
{
    if (threads_.empty())
        root_ = root;
    free_++;
    threads_.emplace_back([this] { loop(); });
}

/* The callbacks are over. */
void Worker::come_back()
{
    const std::lock_guard<std::mutex> guard(lock_);
    is_away = false;
    free_++;
}

WorkPlace Worker::add(WorkPointer work, tdm_group *root)
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (works_.empty())
        changed_.notify_one();
    const WorkPlace place = works_.insert(works_.end(), std::move(work));
    if (is_this_thread() && !is_away) {
        is_away = true;
        free_--;
    }
    if (free_ == 0 && !stops_)
        start(root);
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
    of_this_thread = this;
    for (uint32_t seen = 0;;) {
        {
            std::unique_lock<std::mutex> guard(lock_);
            changed_.wait(guard, [this] { return stops_ || !works_.empty(); });
            if (stops_)
                return;
        }
        for (const WorkPointer &work : under_way()) {
            work->advance(false);
            if (is_away)
                come_back();
        }
        if (has_works() && tdm_progress(root_, &seen, longest_sleep_s) != TDM_OK)
            return; /* not its process */
    }
}

/* And no end. */
bool Worker::has_works()
{
    const std::lock_guard<std::mutex> guard(lock_);
    return !works_.empty() && !stops_;
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
            std::this_thread::sleep_for(end_pause);
    std::vector<std::thread> ended;
    {
        const std::lock_guard<std::mutex> guard(lock_);
        stops_ = true;
        ended.swap(threads_);
    }
    changed_.notify_all();
    if (!ended.empty())
        tdm_progress_wake(root_);
    for (std::thread &thread : ended)
        thread.join();
    for (const WorkPointer &work : under_way())
        work->give_up();
}

} // namespace tandem
