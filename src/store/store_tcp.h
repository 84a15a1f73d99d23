/* store_tcp.h - the two halves of the TCP store. */
#ifndef TDMI_STORE_STORE_TCP_H
#define TDMI_STORE_STORE_TCP_H

#include "store/auth.h"
#include "store/ops.h"

/* The server: one thread that owns every connection. */
typedef struct tdmi_store_server tdmi_store_server;
/* Listens at `host` if it is a loopback address, else on all addresses. *port_out: the port in use. *fd_out: a connection of
 * this process's own, which the caller owns. */
tdm_status tdmi_store_server_start(const char *host, int port, const tdmi_auth_key *key, tdmi_store_server **out,
                                   int *port_out, int *fd_out);
/* Sends what is still to be sent (a second at most), then ends every connection. NULL is fine. */
void tdmi_store_server_stop(tdmi_store_server *server);

/* The client over a connected, authenticated socket, which it takes; `server` (NULL: another process's) is stopped with it.
 * timeout_s bounds every operation but get. */
tdm_status tdmi_store_client_create(int fd, const char *server_name, double timeout_s, tdmi_store_server *server, int port,
                                    tdm_store **out);

#endif
