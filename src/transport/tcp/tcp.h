/* tcp.h - TCP sockets as links, and the connections of a group's ranks on different nodes. */
#ifndef TDMI_TRANSPORT_TCP_TCP_H
#define TDMI_TRANSPORT_TCP_TCP_H

#include "store/auth.h"
#include "transport/link.h"
#include "transport/tcp/interface.h"

/* ---- tcp.c ---- */
#define TDMI_TCP_STREAMS_MAX 64
#define TDMI_TCP_STRIPE ((size_t)256 << 10) /* bytes of a link that go over one stream before the next one's turn */

/* Takes connected sockets, also on failure. Where there are several, byte p of the link goes over stream
 * (p / TDMI_TCP_STRIPE) % count, so both ends know where to look and nothing is ever put in order. */
tdm_status tdmi_tcp_link_create(const int *fd, int count, tdmi_link **out);

/* ---- address.c ---- */
/* Where this rank listens for its peers. TANDEM_IFNAME names the interface (interface.h); else the address from which `toward`
 * (the host of the store; "": this host) is reached. Link-local addresses end in %interface. */
tdm_status tdmi_tcp_own_address(const char *toward, char *out, size_t nbytes);
/* A peer's own address as this rank, itself at `own`, has to write it: the interface behind a link-local address is that of the
 * host that connects. */
tdm_status tdmi_tcp_address_from_here(const char *peer, const char *own, char *out, size_t nbytes);

/* ---- connect.c, door.c ---- */
typedef enum { TDMI_TCP_DATA, TDMI_TCP_CONTROL, TDMI_TCP_MESSAGES, TDMI_TCP_PURPOSES } tdmi_tcp_purpose;

/* What a connection says of itself in its first bytes. */
typedef struct tdmi_tcp_hello {
    uint64_t group; /* a number that only this group has */
    int from, to;   /* ranks of the group */
    tdmi_tcp_purpose purpose;
    int stream;     /* of several connections for one purpose */
} tdmi_tcp_hello;

/* Connects to the door of rank hello->to at host:port. */
tdm_status tdmi_tcp_connect(const char *host, int port, const tdmi_auth_key *key, const tdmi_tcp_hello *hello, int64_t deadline_ns,
                            int *fd_out);

/* Where the connections of one group to one rank come in. Strangers - whoever does not prove the job's secret within a second,
 * or means another group or rank - are dropped and logged; they delay nobody. */
typedef struct tdmi_tcp_door tdmi_tcp_door;
tdm_status tdmi_tcp_door_open(const char *host, const tdmi_auth_key *key, uint64_t group, int rank, tdmi_tcp_door **out);
int tdmi_tcp_door_port(const tdmi_tcp_door *door);
tdm_status tdmi_tcp_door_next(tdmi_tcp_door *door, int64_t deadline_ns, tdmi_tcp_hello *hello_out, int *fd_out);
void tdmi_tcp_door_close(tdmi_tcp_door *door); /* NULL is fine */

#endif
