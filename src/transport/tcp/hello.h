/* hello.h - the first bytes of a connection between ranks, behind the handshake of auth.h. Wire: docs/wire.md */
#ifndef TDMI_TRANSPORT_TCP_HELLO_H
#define TDMI_TRANSPORT_TCP_HELLO_H

#include "transport/tcp/tcp.h"

#define TDMI_TCP_HELLO_BYTES 32
#define TDMI_TCP_AUTH_PURPOSE "link"

void tdmi_tcp_hello_write(const tdmi_tcp_hello *hello, uint8_t out[TDMI_TCP_HELLO_BYTES]);
/* TDM_ERR_AUTH: no hello of this version, or a field out of range. */
tdm_status tdmi_tcp_hello_read(const uint8_t in[TDMI_TCP_HELLO_BYTES], tdmi_tcp_hello *out);
/* A host that vanishes without a word is noticed after three unanswered seconds: on the control connection, whose other end takes
 * all that comes. On the others bytes may stay for as long as their rank computes, which is no loss. */
void tdmi_tcp_watch(int fd, tdmi_tcp_purpose purpose);

#endif
