/* port.h - what port.c and link.c share. */
#ifndef TDMI_TRANSPORT_UCX_PORT_H
#define TDMI_TRANSPORT_UCX_PORT_H

#include "transport/ucx/library.h"
#include "transport/ucx/ucx.h"

#define TDMI_UCX_SECRET 8 /* bytes in front of UCX's own address */

struct tdmi_ucx_port {
    const tdmi_ucx_library *ucx;
    int rank, n, fd;
    ucp_context_h context;
    ucp_worker_h worker;
    uint8_t *address; /* the secret, then UCX's address */
    size_t address_nbytes;
    tdmi_link **link; /* [n][TDMI_UCX_PURPOSES]; borrowed, NULL: none */
    bool given_up;
};

/* link.c: sends and looks for the first message of a link. */
tdm_status tdmi_ucx_link_greet(tdmi_link *link, bool *greeted);

#endif
