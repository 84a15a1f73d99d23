/* store.c - the checks that all stores share, then the implementation's own function. */
#include "store/store.h"

#include "store/ops.h"

#include <string.h>

static tdm_status check(const char *key, size_t nbytes)
{
    size_t length = strnlen(key, TDMI_STORE_KEY_MAX);
    if (length == 0 || length >= TDMI_STORE_KEY_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "a store key has 1 to %d bytes, not %zu%s", TDMI_STORE_KEY_MAX - 1, length,
                         length > 0 ? " or more" : "");
    if (nbytes > TDMI_STORE_VALUE_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "store key \"%s\": a value has at most %u bytes, not %zu", key,
                         TDMI_STORE_VALUE_MAX, nbytes);
    return TDM_OK;
}

tdm_status tdmi_store_set(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    tdm_status status = check(key, nbytes);
    return status == TDM_OK ? store->ops->set(store, key, value, nbytes) : status;
}

tdm_status tdmi_store_get(tdm_store *store, const char *key, int64_t deadline_ns, char **value, size_t *nbytes)
{
    tdm_status status = check(key, 0);
    return status == TDM_OK ? store->ops->get(store, key, deadline_ns, value, nbytes) : status;
}

tdm_status tdmi_store_add(tdm_store *store, const char *key, int64_t delta, int64_t *out)
{
    tdm_status status = check(key, 0);
    return status == TDM_OK ? store->ops->add(store, key, delta, out) : status;
}

tdm_status tdmi_store_has(tdm_store *store, const char *key, bool *out)
{
    tdm_status status = check(key, 0);
    return status == TDM_OK ? store->ops->has(store, key, out) : status;
}

tdm_status tdmi_store_delete(tdm_store *store, const char *key)
{
    tdm_status status = check(key, 0);
    return status == TDM_OK ? store->ops->remove(store, key) : status;
}

tdm_status tdmi_store_offer(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    tdm_status status = check(key, nbytes);
    return status == TDM_OK ? store->ops->offer(store, key, value, nbytes) : status;
}

tdm_status tdmi_store_will(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    tdm_status status = check(key, nbytes);
    return status == TDM_OK ? store->ops->will(store, key, value, nbytes) : status;
}

int tdm_store_port(const tdm_store *store)
{
    return store->port;
}

void tdm_store_close(tdm_store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

const char *tdmi_store_host(const tdm_store *store)
{
    return store->host;
}
