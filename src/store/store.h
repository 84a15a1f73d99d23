/* store.h - the key-value store where ranks meet: one ops table, an in-process and a TCP store behind it. */
#ifndef TDMI_STORE_STORE_H
#define TDMI_STORE_STORE_H

#include "core/error.h"

#include <tandem/group.h>

#define TDMI_STORE_KEY_MAX 256              /* bytes, with the final NUL */
#define TDMI_STORE_VALUE_MAX (1u << 20)     /* bytes */

/* All are safe to call from several threads. Keys are text. */
tdm_status tdmi_store_set(tdm_store *store, const char *key, const void *value, size_t nbytes);
/* Waits until the key exists. *value: new block of *nbytes and a NUL behind them, freed with tdmi_free.
 * TDM_ERR_TIMEOUT when the deadline passes, TDM_ERR_PEER_LOST when the server is gone. */
tdm_status tdmi_store_get(tdm_store *store, const char *key, int64_t deadline_ns, char **value, size_t *nbytes);
/* Adds to the number under the key (0 if there is none) and gives the sum: *out is distinct for each caller of +1. */
tdm_status tdmi_store_add(tdm_store *store, const char *key, int64_t delta, int64_t *out);
/* Whether the key exists now. */
tdm_status tdmi_store_has(tdm_store *store, const char *key, bool *out);
tdm_status tdmi_store_delete(tdm_store *store, const char *key);
/* Sets the key if nobody has: the first of several offers stands. */
tdm_status tdmi_store_offer(tdm_store *store, const char *key, const void *value, size_t nbytes);
/* Leaves an offer with the server, to be made when this store's connection ends in whatever way: how others learn that a
 * process died. A later will replaces it. In-process stores have no connection: TDM_ERR_UNSUPPORTED. */
tdm_status tdmi_store_will(tdm_store *store, const char *key, const void *value, size_t nbytes);
/* The host a TCP store is at, as it was given; "" for an in-process store. */
const char *tdmi_store_host(const tdm_store *store);

#endif
