/* tcp.h - TCP sockets as links, and the connections of a group's ranks on different nodes. */
#ifndef TDMI_TRANSPORT_TCP_TCP_H
#define TDMI_TRANSPORT_TCP_TCP_H

#include "store/auth.h"
#include "transport/link.h"
#include "transport/tcp/interface.h"

/* Takes a connected socket, also on failure. */
tdm_status tdmi_tcp_link_create(int fd, tdmi_link **out);

/* Where this rank listens for its peers. TANDEM_IFNAME names the interface (interface.h); else the address from which `toward`
 * (the host of the store; "": this host) is reached. Link-local addresses end in %interface. */
tdm_status tdmi_tcp_own_address(const char *toward, char *out, size_t nbytes);
/* A peer's own address as this rank, itself at `own`, has to write it: the interface behind a link-local address is that of the
 * host that connects. */
tdm_status tdmi_tcp_address_from_here(const char *peer, const char *own, char *out, size_t nbytes);

/* What a connection is for; said in its first bytes. */
typedef enum { TDMI_TCP_DATA, TDMI_TCP_CONTROL, TDMI_TCP_MESSAGES, TDMI_TCP_PURPOSES } tdmi_tcp_purpose;

/* Connects to the listener of rank `to` at host:port and says who calls. group: a number that only this group has. */
tdm_status tdmi_tcp_connect(const char *host, int port, const tdmi_auth_key *key, uint64_t group, int from, int to,
                            tdmi_tcp_purpose purpose, int64_t deadline_ns, int *fd_out);
/* The next connection of this group to rank `to`; strangers are dropped. */
tdm_status tdmi_tcp_accept(int listener, const tdmi_auth_key *key, uint64_t group, int to, int64_t deadline_ns, int *from_out,
                           tdmi_tcp_purpose *purpose_out, int *fd_out);

#endif
