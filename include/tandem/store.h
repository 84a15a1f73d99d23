/* store.h - where the ranks of a job find each other: a key-value store. */
#ifndef TANDEM_STORE_H
#define TANDEM_STORE_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_store tdm_store;

/* tdm_store_open_local   an in-process store for ranks that are threads of this process.
 * tdm_store_open_tcp     `host:port`; is_server: this process also runs the server (exactly one does), else it connects and
 *                        retries until the deadline. port 0 with is_server picks a free one (tdm_store_port). IPv4, IPv6 or a
 *                        name; an address given as numbers is used as given. secret: every connection proves it knows it
 *                        (docs/wire.md); NULL reads TANDEM_JOB_SECRET.
 * A store may be shared by threads. Close it after the groups made from it; NULL is fine. */
TDM_API TDM_MUST_CHECK tdm_status tdm_store_open_local(tdm_store **out);
TDM_API TDM_MUST_CHECK tdm_status tdm_store_open_tcp(const char *host, int port, bool is_server, const char *secret,
                                                     double timeout_s, tdm_store **out);
TDM_API int tdm_store_port(const tdm_store *store);
TDM_API void tdm_store_close(tdm_store *store);

/* A store that somebody else runs: torch.distributed's, a job manager's. Keys are text of at most 255 bytes, values bytes of at
 * most 1 MiB. Functions may be called by several threads at once. They return TDM_OK or what went wrong.
 *   set     key <- value [nbytes]
 *   get     waits at most timeout_s for the key. *nbytes: room at `value`; becomes the value's length, and where that is more
 *           than the room, get is called again with enough. TDM_ERR_TIMEOUT where the key did not come
 *   add     adds delta to the number under the key (0 where there is none); *sum_out is distinct for each caller of +1
 *   has     whether the key exists now
 *   remove  a key that does not exist is fine
 *   close   by tdm_store_close; may be NULL
 *   host    name or address that all ranks reach, for the choice of a network interface; NULL where ranks share one host or
 *           TANDEM_IFNAME says it. Borrowed until tdm_store_open_callbacks returns
 * Source  torch.distributed.Store */
typedef struct tdm_store_callbacks {
    tdm_status (*set)(void *context, const char *key, const void *value, size_t nbytes);
    tdm_status (*get)(void *context, const char *key, double timeout_s, void *value, size_t *nbytes);
    tdm_status (*add)(void *context, const char *key, int64_t delta, int64_t *sum_out);
    tdm_status (*has)(void *context, const char *key, bool *exists_out);
    tdm_status (*remove)(void *context, const char *key);
    void (*close)(void *context);
    const char *host;
} tdm_store_callbacks;

TDM_API TDM_MUST_CHECK tdm_status tdm_store_open_callbacks(const tdm_store_callbacks *callbacks, void *context, tdm_store **out);

#ifdef __cplusplus
}
#endif
#endif
