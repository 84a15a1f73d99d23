/* store.cpp - requests to torch's store. Its exceptions end here: libtandem gets a status, and the text waits in the thread for
 * whoever reports it. */
#include "store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tandem {

namespace {

using Bytes = std::vector<uint8_t>;

constexpr std::chrono::microseconds first_pause{100}, last_pause{3000};

thread_local std::string store_error;

struct Context {
    c10::intrusive_ptr<c10d::Store> store;
};

c10d::Store &of(void *context)
{
    return *static_cast<Context *>(context)->store;
}

template <typename Request> tdm_status request(Request make)
{
    try {
        make();
        return TDM_OK;
    } catch (const c10::Error &error) {
        store_error = error.what_without_backtrace();
    } catch (const std::exception &error) {
        store_error = error.what();
    }
    return TDM_ERR_SYSTEM;
}

tdm_status set(void *context, const char *key, const void *value, size_t nbytes)
{
    const auto *bytes = static_cast<const uint8_t *>(value);
    return request([&] { of(context).set(key, Bytes(bytes, bytes + nbytes)); });
}

/* The value, if the key exists, with one request: a comparison that never holds sets nothing and gives what is there. */
tdm_status look(c10d::Store &store, const char *key, Bytes *value, bool *exists)
{
    static const std::string nothing = "tandem: there is no such key";
    static const Bytes absent(nothing.begin(), nothing.end());
    return request([&] {
        *value = store.compareSet(key, absent, absent);
        *exists = *value != absent;
    });
}

/* Asks again and again instead of having the store wait: torch's store lets no other thread of the process ask meanwhile, and writes
 * warnings about each wait that ends too early, which libtandem's do, for it looks what became of the others. */
tdm_status wait_for(c10d::Store &store, const char *key, double timeout_s, Bytes *value)
{
    using namespace std::chrono;
    const auto end = steady_clock::now() + duration<double>(timeout_s);
    for (auto pause = first_pause;; pause = std::min(pause * 3 / 2, last_pause)) {
        bool exists = false;
        const tdm_status status = look(store, key, value, &exists);
        if (status != TDM_OK || exists)
            return status;
        if (steady_clock::now() >= end)
            return TDM_ERR_TIMEOUT;
        std::this_thread::sleep_for(pause);
    }
}

tdm_status get(void *context, const char *key, double timeout_s, void *value, size_t *nbytes)
{
    Bytes bytes;
    const tdm_status status = wait_for(of(context), key, timeout_s, &bytes);
    if (status == TDM_OK && bytes.size() <= *nbytes && !bytes.empty())
        std::memcpy(value, bytes.data(), bytes.size());
    *nbytes = bytes.size();
    return status;
}

tdm_status add(void *context, const char *key, int64_t delta, int64_t *sum_out)
{
    return request([&] { *sum_out = of(context).add(key, delta); });
}

tdm_status has(void *context, const char *key, bool *exists_out)
{
    return request([&] { *exists_out = of(context).check({key}); });
}

tdm_status remove_key(void *context, const char *key)
{
    return request([&] { of(context).deleteKey(key); });
}

void close_store(void *context)
{
    delete static_cast<Context *>(context);
}

/* Where the ranks met: how they reach each other's hosts is learnt from it. */
std::string host_of(const c10::intrusive_ptr<c10d::Store> &store)
{
    auto inner = store;
    if (const auto prefix = c10::dynamic_intrusive_pointer_cast<c10d::PrefixStore>(store))
        inner = prefix->getUnderlyingNonPrefixStore();
    if (const auto tcp = c10::dynamic_intrusive_pointer_cast<c10d::TCPStore>(inner))
        return tcp->getHost();
    const char *master = std::getenv("MASTER_ADDR");
    return master != nullptr ? master : "";
}

} // namespace

StorePointer open_store(const c10::intrusive_ptr<c10d::Store> &store, const Place &place)
{
    const std::string host = host_of(store);
    tdm_store_callbacks calls = {};
    calls.set = set;
    calls.get = get;
    calls.add = add;
    calls.has = has;
    calls.remove = remove_key;
    calls.close = close_store;
    calls.host = host.empty() ? nullptr : host.c_str();
    auto context = std::make_unique<Context>(Context{store});
    tdm_store *out = nullptr;
    const tdm_status status = tdm_store_open_callbacks(&calls, context.get(), &out);
    if (status != TDM_OK)
        raise(status, place);
    context.release();
    return StorePointer(out);
}

std::string take_store_error()
{
    return std::exchange(store_error, std::string());
}

} // namespace tandem
