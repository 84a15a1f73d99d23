/* store.h - torch's store as one of libtandem's. */
#pragma once

#include "error.h"

#include <tandem/store.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

namespace tandem {

struct CloseStore {
    void operator()(tdm_store *store) const { tdm_store_close(store); }
};
using StorePointer = std::unique_ptr<tdm_store, CloseStore>;

/* Any thread that does not hold the GIL: stores written in Python take it. */
StorePointer open_store(const c10::intrusive_ptr<c10d::Store> &store, const Place &place);

/* What torch said when a request of this thread last failed; "" if nothing did. Forgets it. */
std::string take_store_error();

} // namespace tandem
