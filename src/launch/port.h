/* port.h - a port for rank 0 that nobody else takes before rank 0 listens on it. */
#ifndef TDMI_LAUNCH_PORT_H
#define TDMI_LAUNCH_PORT_H

#include "core/error.h"

/* port 0: a free one. Keep *fd_out open while the ranks run. A port on which somebody listens is TDM_ERR_ADDRESS_IN_USE with
 * the owner's pid where it can be seen. */
tdm_status tdmi_port_hold(int port, int *fd_out, int *port_out);

#endif
