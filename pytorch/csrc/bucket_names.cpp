/* bucket_names.cpp - the lists, a model each. */
#include "bucket_names.h"

#include <map>
#include <mutex>

namespace tandem {

std::atomic<bool> bucket_names_are_there = false;

namespace {

struct Bucket {
    size_t nbytes;
    std::string name;
    const void *storage; /* nullptr: not known yet */
};

struct Model {
    std::string group;
    std::vector<Bucket> buckets; /* in the order of their calls */
};

/* Never freed: threads outlive static objects. */
struct Models {
    std::mutex lock;
    std::map<uint64_t, Model> by_key; /* guarded by lock */
};

Models &models()
{
    static auto *all = new Models;
    return *all;
}

/* The one at `storage`; nullptr: the first of that size whose storage is unknown. With the lock held. */
Bucket *find(const std::string &group, const void *storage, size_t nbytes)
{
    for (auto &[key, model] : models().by_key)
        for (Bucket &bucket : model.buckets)
            if (bucket.storage == storage && bucket.nbytes == nbytes && model.group == group)
                return &bucket;
    return nullptr;
}

} // namespace

void set_bucket_names(uint64_t key, const std::string &group, const BucketNames &names)
{
    Model model = {group, {}};
    for (const auto &[nbytes, name] : names)
        model.buckets.push_back({nbytes, name, nullptr});
    const std::lock_guard<std::mutex> guard(models().lock);
    models().by_key[key] = std::move(model);
    bucket_names_are_there = true;
}

void forget_bucket_names(uint64_t key)
{
    const std::lock_guard<std::mutex> guard(models().lock);
    models().by_key.erase(key);
    bucket_names_are_there = !models().by_key.empty();
}

std::string bucket_name(const std::string &group, const at::Tensor &tensor)
{
    if (!tensor.has_storage())
        return "";
    const void *storage = tensor.storage().data();
    const std::lock_guard<std::mutex> guard(models().lock);
    Bucket *bucket = find(group, storage, tensor.nbytes());
    if (bucket == nullptr)
        bucket = find(group, nullptr, tensor.nbytes());
    if (bucket == nullptr)
        return "";
    bucket->storage = storage;
    return bucket->name;
}

} // namespace tandem
