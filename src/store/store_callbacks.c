/* store_callbacks.c - a store that the program gives as functions. An offer is decided by a counter beside its key: the first
 * that adds to it sets the key. */
#include "core/clock.h"
#include "core/memory.h"
#include "store/ops.h"

#include <stdio.h>
#include <string.h>

#define FIRST_ROOM 4096

typedef struct callback_store {
    tdm_store base;
    tdm_store_callbacks call;
    void *context;
} callback_store;

static tdm_status check(tdm_status status, const char *what, const char *key)
{
    if (status == TDM_OK)
        return TDM_OK;
    return tdmi_fail(status, "the program's own store could not %s key \"%s\": %s", what, key, tdm_status_text(status));
}

static tdm_status set(tdm_store *base, const char *key, const void *value, size_t nbytes)
{
    callback_store *store = (callback_store *)base;
    return check(store->call.set(store->context, key, value, nbytes), "set", key);
}

static tdm_status get(tdm_store *base, const char *key, int64_t deadline_ns, char **value, size_t *nbytes)
{
    callback_store *store = (callback_store *)base;
    for (size_t room = FIRST_ROOM;;) {
        char *block = tdmi_malloc(room + 1, "store value");
        size_t length = room;
        const int64_t left_ns = deadline_ns - tdmi_now_ns();
        if (block == NULL)
            return TDM_ERR_NO_MEMORY;
        tdm_status status = store->call.get(store->context, key, left_ns > 0 ? (double)left_ns * 1e-9 : 0, block, &length);
        if (status == TDM_OK && length <= room) {
            block[length] = '\0';
            *value = block;
            *nbytes = length;
            return TDM_OK;
        }
        tdmi_free(block);
        if (status != TDM_OK)
            return check(status, "get", key);
        if (length > TDMI_STORE_VALUE_MAX)
            return tdmi_fail(TDM_ERR_INVALID, "the program's own store says that key \"%s\" has %zu bytes; at most %u are read", key, length,
                             TDMI_STORE_VALUE_MAX);
        room = length;
    }
}

static tdm_status add(tdm_store *base, const char *key, int64_t delta, int64_t *out)
{
    callback_store *store = (callback_store *)base;
    return check(store->call.add(store->context, key, delta, out), "add to", key);
}

static tdm_status has(tdm_store *base, const char *key, bool *out)
{
    callback_store *store = (callback_store *)base;
    return check(store->call.has(store->context, key, out), "look for", key);
}

static tdm_status remove_key(tdm_store *base, const char *key)
{
    callback_store *store = (callback_store *)base;
    return check(store->call.remove(store->context, key), "remove", key);
}

static tdm_status offer(tdm_store *base, const char *key, const void *value, size_t nbytes)
{
    char counter[TDMI_STORE_KEY_MAX + 8];
    int64_t sum;
    snprintf(counter, sizeof counter, "%s.offers", key);
    tdm_status status = add(base, counter, 1, &sum);
    return status == TDM_OK && sum == 1 ? set(base, key, value, nbytes) : status;
}

static tdm_status will(tdm_store *base, const char *key, const void *value, size_t nbytes)
{
    (void)base, (void)value, (void)nbytes;
    return tdmi_fail(TDM_ERR_UNSUPPORTED, "store key \"%s\": the program's own store does not say when a connection ends", key);
}

static void close_store(tdm_store *base)
{
    callback_store *store = (callback_store *)base;
    if (store->call.close != NULL)
        store->call.close(store->context);
    tdmi_free(store);
}

static const tdmi_store_ops ops = {set, get, add, has, remove_key, offer, will, close_store};

tdm_status tdm_store_open_callbacks(const tdm_store_callbacks *callbacks, void *context, tdm_store **out)
{
    if (callbacks == NULL || callbacks->set == NULL || callbacks->get == NULL || callbacks->add == NULL || callbacks->has == NULL ||
        callbacks->remove == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_store_open_callbacks: set, get, add, has and remove are all needed");
    callback_store *store = tdmi_calloc(1, sizeof *store, "store");
    if (store == NULL)
        return TDM_ERR_NO_MEMORY;
    store->base = (tdm_store){.ops = &ops, .port = -1};
    store->call = *callbacks;
    store->call.host = NULL;
    store->context = context;
    if (callbacks->host != NULL && snprintf(store->base.host, sizeof store->base.host, "%s", callbacks->host) >= (int)sizeof store->base.host) {
        tdmi_free(store);
        return tdmi_fail(TDM_ERR_INVALID, "tdm_store_open_callbacks: host has more than %zu bytes", sizeof store->base.host - 1);
    }
    *out = &store->base;
    return TDM_OK;
}
