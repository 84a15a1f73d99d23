/* absent.c - in place of the rest of this folder where Tandem was built without UCX: no port opens, so nothing else is
 * ever called. */
#include "transport/ucx/ucx.h"

static tdm_status absent(void)
{
    return tdmi_fail(TDM_ERR_UNSUPPORTED, "transport ucx: Tandem was built without UCX; install libucx-dev and build it again, or use "
                     "transport tcp");
}

tdm_status tdmi_ucx_port_open(int rank, int n, tdmi_ucx_port **out)
{
    (void)rank, (void)n, (void)out;
    return absent();
}

void tdmi_ucx_port_close(tdmi_ucx_port *port)
{
    (void)port;
}

void tdmi_ucx_port_give_up(tdmi_ucx_port *port)
{
    (void)port;
}

const void *tdmi_ucx_port_address(const tdmi_ucx_port *port, size_t *nbytes_out)
{
    *nbytes_out = 0;
    return port;
}

tdm_status tdmi_ucx_link_create(tdmi_ucx_port *port, int peer, tdmi_ucx_purpose purpose, const void *address, size_t nbytes, tdmi_link **out)
{
    (void)port, (void)peer, (void)purpose, (void)address, (void)nbytes, (void)out;
    return absent();
}

tdm_status tdmi_ucx_port_greet(tdmi_ucx_port *port, bool *missing, bool *greeted)
{
    (void)port, (void)missing, (void)greeted;
    return absent();
}

int tdmi_ucx_port_fd(const tdmi_ucx_port *port)
{
    (void)port;
    return -1;
}

bool tdmi_ucx_port_arm(tdmi_ucx_port *port)
{
    return port == NULL;
}
