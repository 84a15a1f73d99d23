/* socket.h - listening and connecting with deadlines, IPv4 and IPv6. All sockets are close-on-exec, TCP_NODELAY. */
#ifndef TDMI_STORE_SOCKET_H
#define TDMI_STORE_SOCKET_H

#include "core/error.h"

/* Listens on `host` (NULL: all addresses) and `port` (0: a free one). *port_out: the port in use. A taken port is
 * TDM_ERR_ADDRESS_IN_USE with the port, and the owner's pid where it can be seen. */
tdm_status tdmi_socket_listen(const char *host, int port, int *fd_out, int *port_out);
/* Connects, retrying with growing pauses while the other end is not there yet, until the deadline. Numeric addresses are
 * used as given, without name look-up. */
tdm_status tdmi_socket_connect(const char *host, int port, int64_t deadline_ns, int *fd_out);
/* Makes a connection end by itself about 5 s after its other host has vanished (power, cable), also when it is idle. Not for
 * connections whose other end may leave bytes unread for longer than that. */
void tdmi_socket_notice_loss(int fd);
/* Moves exactly nbytes, or fails: TIMEOUT at the deadline, PEER_LOST when the other end closes. Works on blocking and
 * non-blocking sockets. `peer` names the other end in the text. */
tdm_status tdmi_socket_send_all(int fd, const void *data, size_t nbytes, int64_t deadline_ns, const char *peer);
tdm_status tdmi_socket_receive_all(int fd, void *data, size_t nbytes, int64_t deadline_ns, const char *peer);
/* The numeric address of this end of a connected socket: what other ranks of the job can connect to. */
tdm_status tdmi_socket_local_address(int fd, char *text, size_t nbytes);
/* Whether a numeric address or name is this host's loopback. */
bool tdmi_socket_is_loopback(const char *host);

#endif
