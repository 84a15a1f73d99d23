/* address.c - which of this host's addresses other nodes connect to. */
#include "transport/tcp/tcp.h"

#include "core/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool usable(const struct ifaddrs *item)
{
    if (item->ifa_addr == NULL || (item->ifa_flags & IFF_UP) == 0)
        return false;
    if (item->ifa_addr->sa_family == AF_INET)
        return true;
    /* a link-local address means nothing without the interface's number */
    return item->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)item->ifa_addr)->sin6_addr);
}

static void write_address(const struct sockaddr *address, char *out, size_t nbytes)
{
    const socklen_t length = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (getnameinfo(address, length, out, (socklen_t)nbytes, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(out, nbytes, "?");
}

/* "lo (127.0.0.1), eth0 (10.0.0.7)" */
static void list_interfaces(const struct ifaddrs *list, char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct ifaddrs *item = list; item != NULL && used < nbytes; item = item->ifa_next) {
        char address[64];
        if (!usable(item))
            continue;
        write_address(item->ifa_addr, address, sizeof address);
        used += (size_t)snprintf(text + used, nbytes - used, "%s%s (%s)", used > 0 ? ", " : "", item->ifa_name, address);
    }
}

static tdm_status address_of_interface(const char *name, char *out, size_t nbytes)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot list network interfaces");
    const struct ifaddrs *found = NULL;
    for (const struct ifaddrs *item = list; item != NULL; item = item->ifa_next)
        if (usable(item) && strcmp(item->ifa_name, name) == 0 && (found == NULL || found->ifa_addr->sa_family != AF_INET))
            found = item;
    tdm_status status = TDM_OK;
    if (found != NULL) {
        write_address(found->ifa_addr, out, nbytes);
    } else {
        char names[512];
        list_interfaces(list, names, sizeof names);
        status = tdmi_fail(TDM_ERR_INVALID, "TANDEM_IFNAME is \"%s\", which is no interface of this host that is up and has an "
                           "address; there are %s", name, names);
    }
    freeifaddrs(list);
    return status;
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

tdm_status tdmi_tcp_own_address(const char *toward, char *out, size_t nbytes)
{
    const char *name = tdmi_config_text(TDMI_CONFIG_IFNAME);
    if (name[0] != '\0')
        return address_of_interface(name, out, nbytes);
    return address_toward(toward[0] != '\0' ? toward : "127.0.0.1", out, nbytes);
}
