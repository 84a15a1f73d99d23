/* worker.cpp - the loop, and its end. */
#include "worker.h"

#include "work.h"

#include <algorithm>
#include <chrono>

namespace tandem {

namespace {

/* Between two looks at what is under way: often while calls come and go, less and less when nothing does. */
constexpr std::chrono::microseconds first_pause{50}, last_pause{1000};

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
    changes_++;
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
    changes_++;
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
    auto pause = first_pause;
    for (uint64_t seen = 0;;) {
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
        std::unique_lock<std::mutex> guard(lock_);
        pause = changes_ != seen ? first_pause : std::min(pause * 2, last_pause);
        seen = changes_;
        if (!works_.empty())
            changed_.wait_for(guard, pause, [this] { return stops_; });
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
            std::this_thread::sleep_for(last_pause);
    std::vector<std::thread> ended;
    {
        const std::lock_guard<std::mutex> guard(lock_);
        stops_ = true;
        ended.swap(threads_);
    }
    changed_.notify_all();
    for (std::thread &thread : ended)
        thread.join();
    for (const WorkPointer &work : under_way())
        work->give_up();
}

} // namespace tandem
