/* address.c - which of this host's addresses other nodes connect to. */
#include "transport/tcp/tcp.h"

#include "core/config.h"
#include "core/log.h"
#include "core/memory.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void write_address(const struct sockaddr *address, char *out, size_t nbytes)
{
    const socklen_t length = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (getnameinfo(address, length, out, (socklen_t)nbytes, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(out, nbytes, "?");
}

/* Connecting a datagram socket sends nothing, but chooses the address that packets to that host would come from. */
static tdm_status address_toward(const char *host, char *out, size_t nbytes)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *list;
    const int error = getaddrinfo(host, "9", &hints, &list);
    if (error != 0)
        return tdmi_fail(TDM_ERR_SYSTEM, "cannot look up %s: %s", host, gai_strerror(error));
    bool found = false;
    for (const struct addrinfo *item = list; item != NULL && !found; item = item->ai_next) {
        struct sockaddr_storage own;
        socklen_t length = sizeof own;
        const int fd = socket(item->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        found = fd >= 0 && connect(fd, item->ai_addr, item->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&own, &length) == 0;
        if (found)
            write_address((const struct sockaddr *)&own, out, nbytes);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    return found ? TDM_OK : tdmi_fail(TDM_ERR_SYSTEM, "no network leads to %s, the host of the store", host);
}

static tdm_status address_of_interface(const char *spec, bool prefers_six, char *out, size_t nbytes)
{
    tdmi_interface *list;
    const tdmi_interface *found;
    size_t count;
    tdm_status status = tdmi_interface_list(&list, &count);
    if (status != TDM_OK)
        return status;
    status = tdmi_interface_choose(spec, list, count, prefers_six, &found);
    if (status == TDM_OK) {
        snprintf(out, nbytes, "%s", found->address);
        log_info(TDM_LOG_TRANSPORT, "TANDEM_IFNAME=%s: peers connect to %s of %s", spec, out, found->name);
    }
    tdmi_free(list);
    return status;
}

tdm_status tdmi_tcp_own_address(const char *toward, char *out, size_t nbytes)
{
    const char *spec = tdmi_config_text(TDMI_CONFIG_IFNAME);
    if (spec[0] != '\0')
        return address_of_interface(spec, strchr(toward, ':') != NULL, out, nbytes);
    if (getenv("NCCL_SOCKET_IFNAME") != NULL)
        log_info(TDM_LOG_TRANSPORT, "NCCL_SOCKET_IFNAME has no effect here; TANDEM_IFNAME is written the same way");
    return address_toward(toward[0] != '\0' ? toward : "127.0.0.1", out, nbytes);
}

tdm_status tdmi_tcp_address_from_here(const char *peer, const char *own, char *out, size_t nbytes)
{
    const size_t length = strcspn(peer, "%");
    const char *scope = own + strcspn(own, "%");
    if (peer[length] == '\0')
        scope = "";
    else if (scope[0] == '\0')
        return tdmi_fail(TDM_ERR_INVALID, "the peer is at the link-local address %s, which can be reached only from a link-local address, "
                         "and this rank is at %s; set TANDEM_IFNAME to interfaces with addresses of one kind on all nodes", peer, own);
    snprintf(out, nbytes, "%.*s%s", (int)length, peer, scope);
    return TDM_OK;
}
