/* ops.h - what a store implementation fills in. Arguments were checked by store.c. */
#ifndef TDMI_STORE_OPS_H
#define TDMI_STORE_OPS_H

#include "store/store.h"

typedef struct tdmi_store_ops {
    tdm_status (*set)(tdm_store *store, const char *key, const void *value, size_t nbytes);
    tdm_status (*get)(tdm_store *store, const char *key, int64_t deadline_ns, char **value, size_t *nbytes);
    tdm_status (*add)(tdm_store *store, const char *key, int64_t delta, int64_t *out);
    tdm_status (*has)(tdm_store *store, const char *key, bool *out);
    tdm_status (*remove)(tdm_store *store, const char *key);
    tdm_status (*offer)(tdm_store *store, const char *key, const void *value, size_t nbytes);
    tdm_status (*will)(tdm_store *store, const char *key, const void *value, size_t nbytes);
    void (*close)(tdm_store *store);
} tdmi_store_ops;

struct tdm_store {
    const tdmi_store_ops *ops;
    int port; /* -1: not a TCP store */
    char host[256];
};

#endif
