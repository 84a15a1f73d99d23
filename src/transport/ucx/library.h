/* library.h - UCX's functions, found at run time, so that libtandem needs no UCX to load. The headers' only way in. */
#ifndef TDMI_TRANSPORT_UCX_LIBRARY_H
#define TDMI_TRANSPORT_UCX_LIBRARY_H

#include "core/error.h"

#include <ucp/api/ucp.h>

#define TDMI_UCX_FUNCTIONS(X)                                                                                          \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_release)                                                                                              \
    X(ucp_init_version)                                                                                                \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_get_address)                                                                                          \
    X(ucp_worker_release_address)                                                                                      \
    X(ucp_worker_get_efd)                                                                                              \
    X(ucp_worker_arm)                                                                                                  \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_ep_close_nbx)                                                                                                \
    X(ucp_tag_send_nbx)                                                                                                \
    X(ucp_tag_recv_nbx)                                                                                                \
    X(ucp_tag_recv_request_test)                                                                                       \
    X(ucp_request_check_status)                                                                                        \
    X(ucp_request_cancel)                                                                                              \
    X(ucp_request_free)                                                                                                \
    X(ucs_status_string)

typedef struct tdmi_ucx_library {
#define TDMI_UCX_POINTER(name) __typeof__(&name) name;
    TDMI_UCX_FUNCTIONS(TDMI_UCX_POINTER)
#undef TDMI_UCX_POINTER
} tdmi_ucx_library;

/* Opens UCX once a process. */
tdm_status tdmi_ucx_library_open(const tdmi_ucx_library **out);

#endif
