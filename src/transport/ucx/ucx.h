/* ucx.h - links over UCX: InfiniBand and its kin on a cluster, UCX's own shared memory and TCP elsewhere.
 *
 * A port is one rank's end of all UCX links of one group. Whoever opens it exchanges addresses, makes a link to each peer and
 * greets. Nothing here blocks for long or may be used by two threads at once: the group's lock guards port and links. */
#ifndef TDMI_TRANSPORT_UCX_UCX_H
#define TDMI_TRANSPORT_UCX_UCX_H

#include "transport/link.h"

typedef struct tdmi_ucx_port tdmi_ucx_port;

/* TDM_ERR_UNSUPPORTED: built without UCX, or this machine has none. rank of n in the group. */
tdm_status tdmi_ucx_port_open(int rank, int n, tdmi_ucx_port **out);
/* After its links have been closed; NULL is fine. */
void tdmi_ucx_port_close(tdmi_ucx_port *port);
/* What peers need to send here; borrowed. It holds a secret: who does not know it sends in vain. */
const void *tdmi_ucx_port_address(const tdmi_ucx_port *port, size_t *nbytes_out);

/* There may be two links to a peer. */
typedef enum { TDMI_UCX_CALLS, TDMI_UCX_MESSAGES, TDMI_UCX_PURPOSES } tdmi_ucx_purpose;

/* A link to `peer`, whose port has this address. Its close waits up to a second for the peer to take what it must not miss. */
tdm_status tdmi_ucx_link_create(tdmi_ucx_port *port, int peer, tdmi_ucx_purpose purpose, const void *address, size_t nbytes, tdmi_link **out);
/* Links close at once from now on: the group is dead. */
void tdmi_ucx_port_give_up(tdmi_ucx_port *port);
/* One try: *greeted once bytes have gone both ways on every link. missing [n]: whose have not. */
tdm_status tdmi_ucx_port_greet(tdmi_ucx_port *port, bool *missing, bool *greeted);

/* To sleep on for all links of the port, edge-triggered; only after tdmi_ucx_port_arm has said so, each time. */
int tdmi_ucx_port_fd(const tdmi_ucx_port *port);
/* False: something has come, look again instead of sleeping. */
bool tdmi_ucx_port_arm(tdmi_ucx_port *port);

#endif
