/* store_tcp.c - opening a TCP store: the server here or a connection to it, and the secret. */
#include "store/store_tcp.h"

#include "core/clock.h"
#include "core/config.h"
#include "store/socket.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Connects and proves the secret. A server that hangs up without a verdict (it was stopping, or overloaded) is tried again;
 * one that says no is not. */
static tdm_status join(const char *host, int port, const tdmi_auth_key *key, int64_t deadline_ns, int *fd_out)
{
    for (;;) {
        int fd;
        tdm_status status = tdmi_socket_connect(host, port, deadline_ns, &fd);
        if (status != TDM_OK)
            return status;
        status = tdmi_auth_connect(fd, key, "store", deadline_ns);
        if (status == TDM_OK) {
            tdmi_socket_notice_loss(fd);
            *fd_out = fd;
            return TDM_OK;
        }
        close(fd);
        if (status != TDM_ERR_PEER_LOST || tdmi_deadline_passed(deadline_ns))
            return tdmi_fail_while(status, "joining the store at %s:%d", host, port);
        nanosleep(&(struct timespec){.tv_nsec = 50 * TDMI_NS_PER_MS}, NULL);
    }
}

tdm_status tdm_store_open_tcp(const char *host, int port, bool is_server, const char *secret, double timeout_s,
                              tdm_store **out)
{
    if (host == NULL || *host == '\0')
        return tdmi_fail(TDM_ERR_INVALID, "a TCP store needs the host it is at");
    if (!(timeout_s > 0))
        return tdmi_fail(TDM_ERR_INVALID, "the store at %s:%d: a timeout of %g s is not positive", host, port, timeout_s);
    if (secret == NULL)
        secret = tdmi_config_text(TDMI_CONFIG_JOB_SECRET);
    if (*secret == '\0' && !tdmi_socket_is_loopback(host))
        return tdmi_fail(TDM_ERR_INVALID, "the store at %s:%d is reachable from other machines and the job has no secret: set "
                                          "TANDEM_JOB_SECRET to the same value on all nodes (tandem run does it on one)", host, port);
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, secret);
    tdmi_store_server *server = NULL;
    int fd;
    tdm_status status = is_server ? tdmi_store_server_start(host, port, &key, &server, &port, &fd)
                                  : join(host, port, &key, tdmi_deadline_in(timeout_s), &fd);
    if (status != TDM_OK)
        return status;
    char name[280];
    snprintf(name, sizeof name, "%s:%d", host, port);
    status = tdmi_store_client_create(fd, name, timeout_s, server, port, out);
    if (status != TDM_OK)
        tdmi_store_server_stop(server);
    else
        snprintf((*out)->host, sizeof (*out)->host, "%s", host);
    return status;
}
