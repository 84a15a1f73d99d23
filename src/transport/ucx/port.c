/* port.c - a UCX context and worker for one group's links.
 *
 * Threads: UCX has a thread of its own for the process, which takes connections; all calls here are made with the group's
 * lock held, one thread at a time. */
#include "transport/ucx/port.h"

#include "core/memory.h"
#include "transport/bytes.h"

#include <string.h>
#include <sys/random.h>

static tdm_status failed(const tdmi_ucx_port *port, ucs_status_t status, const char *what)
{
    return tdmi_fail(status == UCS_ERR_NO_MEMORY ? TDM_ERR_NO_MEMORY : TDM_ERR_SYSTEM, "transport ucx: %s: %s", what,
                     port->ucx->ucs_status_string(status));
}

static tdm_status make_context(tdmi_ucx_port *port)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                 .estimated_num_eps = (size_t)port->n,
                                 .name = "tandem"};
    ucp_config_t *config;
    ucs_status_t status = port->ucx->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return failed(port, status, "cannot read its UCX_* variables");
    /* Messages are small and always awaited: a rendezvous would only add round trips that both sides must serve. And one that
     * was sent without a copy is known to have left when its request is done; a copy may still wait inside UCX. */
    status = port->ucx->ucp_config_modify(config, "RNDV_THRESH", "inf");
    if (status == UCS_OK)
        status = port->ucx->ucp_config_modify(config, "ZCOPY_THRESH", "0");
    if (status == UCS_OK)
        status = port->ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &port->context);
    port->ucx->ucp_config_release(config);
    return status == UCS_OK ? TDM_OK : failed(port, status, "cannot start (UCX_TLS and UCX_NET_DEVICES say what it may use)");
}

static tdm_status make_worker(tdmi_ucx_port *port)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_address_t *address;
    size_t nbytes;
    ucs_status_t status = port->ucx->ucp_worker_create(port->context, &params, &port->worker);
    if (status != UCS_OK)
        return failed(port, status, "cannot make a worker");
    status = port->ucx->ucp_worker_get_efd(port->worker, &port->fd);
    if (status != UCS_OK)
        return failed(port, status, "cannot sleep on its transports");
    status = port->ucx->ucp_worker_get_address(port->worker, &address, &nbytes);
    if (status != UCS_OK)
        return failed(port, status, "cannot tell its address");
    port->address_nbytes = TDMI_UCX_SECRET + nbytes;
    port->address = tdmi_malloc(port->address_nbytes, "ucx port");
    if (port->address != NULL)
        memcpy(port->address + TDMI_UCX_SECRET, address, nbytes);
    port->ucx->ucp_worker_release_address(port->worker, address);
    return port->address != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

tdm_status tdmi_ucx_port_open(int rank, int n, tdmi_ucx_port **out)
{
    const tdmi_ucx_library *ucx;
    tdm_status status = tdmi_ucx_library_open(&ucx);
    if (status != TDM_OK)
        return status;
    tdmi_ucx_port *port = tdmi_calloc(1, sizeof *port, "ucx port");
    if (port == NULL)
        return TDM_ERR_NO_MEMORY;
    *port = (tdmi_ucx_port){.ucx = ucx, .rank = rank, .n = n, .fd = -1};
    port->link = tdmi_calloc((size_t)n * TDMI_UCX_PURPOSES, sizeof *port->link, "ucx port");
    status = port->link != NULL ? make_context(port) : TDM_ERR_NO_MEMORY;
    if (status == TDM_OK)
        status = make_worker(port);
    if (status == TDM_OK && getrandom(port->address, TDMI_UCX_SECRET, 0) != TDMI_UCX_SECRET)
        status = tdmi_fail(TDM_ERR_SYSTEM, "transport ucx: no random bytes");
    if (status != TDM_OK) {
        tdmi_ucx_port_close(port);
        return status;
    }
    *out = port;
    return TDM_OK;
}

void tdmi_ucx_port_close(tdmi_ucx_port *port)
{
    if (port == NULL)
        return;
    if (port->worker != NULL)
        port->ucx->ucp_worker_destroy(port->worker);
    if (port->context != NULL)
        port->ucx->ucp_cleanup(port->context);
    tdmi_free(port->address);
    tdmi_free(port->link);
    tdmi_free(port);
}

const void *tdmi_ucx_port_address(const tdmi_ucx_port *port, size_t *nbytes_out)
{
    *nbytes_out = port->address_nbytes;
    return port->address;
}

void tdmi_ucx_port_give_up(tdmi_ucx_port *port)
{
    port->given_up = true;
}

tdm_status tdmi_ucx_port_greet(tdmi_ucx_port *port, bool *missing, bool *greeted)
{
    *greeted = true;
    memset(missing, 0, (size_t)port->n * sizeof *missing);
    for (int i = 0; i < port->n * TDMI_UCX_PURPOSES; i++) {
        const int r = i / TDMI_UCX_PURPOSES;
        bool met = true;
        tdm_status status = port->link[i] != NULL ? tdmi_ucx_link_greet(port->link[i], &met) : TDM_OK;
        if (status != TDM_OK)
            return tdmi_fail_while(status, "greeting rank %d over UCX", r);
        missing[r] |= !met;
        *greeted &= met;
    }
    return TDM_OK;
}

int tdmi_ucx_port_fd(const tdmi_ucx_port *port)
{
    return port->fd;
}

bool tdmi_ucx_port_arm(tdmi_ucx_port *port)
{
    return port->ucx->ucp_worker_arm(port->worker) == UCS_OK;
}
