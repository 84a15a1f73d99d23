/* store_local.c - the in-process store: a table under one lock.
 *
 * Threads: any; all fields are guarded by `lock`, waiters sleep on `changed`. */
#include "core/clock.h"
#include "core/memory.h"
#include "store/ops.h"
#include "store/table.h"

#include <pthread.h>
#include <string.h>

typedef struct local_store {
    tdm_store base;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a key came to be */
    tdmi_table table;
} local_store;

static local_store *enter(tdm_store *store)
{
    local_store *local = (local_store *)store;
    pthread_mutex_lock(&local->lock);
    return local;
}

static tdm_status leave(local_store *local, tdm_status status)
{
    pthread_mutex_unlock(&local->lock);
    return status;
}

static tdm_status set(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    local_store *local = enter(store);
    tdm_status status = tdmi_table_set(&local->table, key, value, nbytes);
    pthread_cond_broadcast(&local->changed);
    return leave(local, status);
}

static tdm_status get(tdm_store *store, const char *key, int64_t deadline_ns, char **value, size_t *nbytes)
{
    local_store *local = enter(store);
    const tdmi_table_entry *entry;
    while ((entry = tdmi_table_find(&local->table, key)) == NULL) {
        if (tdmi_deadline_passed(deadline_ns))
            return leave(local, tdmi_fail(TDM_ERR_TIMEOUT, "nobody set store key \"%s\" before the deadline", key));
        struct timespec until = {.tv_sec = deadline_ns / TDMI_NS_PER_S, .tv_nsec = deadline_ns % TDMI_NS_PER_S};
        pthread_cond_timedwait(&local->changed, &local->lock, &until);
    }
    char *copy = tdmi_malloc(entry->nbytes + 1, "store value");
    if (copy == NULL)
        return leave(local, TDM_ERR_NO_MEMORY);
    memcpy(copy, entry->value, entry->nbytes + 1);
    *value = copy;
    *nbytes = entry->nbytes;
    return leave(local, TDM_OK);
}

static tdm_status add(tdm_store *store, const char *key, int64_t delta, int64_t *out)
{
    local_store *local = enter(store);
    tdm_status status = tdmi_table_add(&local->table, key, delta, out);
    pthread_cond_broadcast(&local->changed);
    return leave(local, status);
}

static tdm_status has(tdm_store *store, const char *key, bool *out)
{
    local_store *local = enter(store);
    *out = tdmi_table_find(&local->table, key) != NULL;
    return leave(local, TDM_OK);
}

static tdm_status remove_key(tdm_store *store, const char *key)
{
    local_store *local = enter(store);
    tdmi_table_remove(&local->table, key);
    return leave(local, TDM_OK);
}

static tdm_status offer(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    local_store *local = enter(store);
    tdm_status status = TDM_OK;
    if (tdmi_table_find(&local->table, key) == NULL)
        status = tdmi_table_set(&local->table, key, value, nbytes);
    pthread_cond_broadcast(&local->changed);
    return leave(local, status);
}

static tdm_status will(tdm_store *store, const char *key, const void *value, size_t nbytes)
{
    (void)store, (void)value, (void)nbytes;
    return tdmi_fail(TDM_ERR_UNSUPPORTED, "store key \"%s\": an in-process store has no connections that could end", key);
}

static void close_local(tdm_store *store)
{
    local_store *local = (local_store *)store;
    tdmi_table_clear(&local->table);
    pthread_cond_destroy(&local->changed);
    pthread_mutex_destroy(&local->lock);
    tdmi_free(local);
}

static const tdmi_store_ops ops = {set, get, add, has, remove_key, offer, will, close_local};

tdm_status tdm_store_open_local(tdm_store **out)
{
    local_store *local = tdmi_calloc(1, sizeof *local, "store");
    if (local == NULL)
        return TDM_ERR_NO_MEMORY;
    local->base = (tdm_store){.ops = &ops, .port = -1};
    pthread_mutex_init(&local->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&local->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = &local->base;
    return TDM_OK;
}
