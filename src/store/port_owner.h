/* port_owner.h - who listens on a port of this machine, for error texts. */
#ifndef TDMI_STORE_PORT_OWNER_H
#define TDMI_STORE_PORT_OWNER_H

#include <stddef.h>

/* Writes " by pid 1234 (nc)" for the process that listens on `port`, or "" where it cannot be seen. */
void tdmi_port_owner(int port, char *text, size_t nbytes);

#endif
