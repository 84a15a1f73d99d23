/* socket.c - TCP sockets with deadlines: listen, connect with retries, exact sends and receives. */
#include "store/socket.h"

#include "core/clock.h"
#include "store/port_owner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void set_flag(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value); /* each is an improvement, none a condition */
}

/* 1: ready, 0: the deadline passed, -1: errno. */
static int wait_ready(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left_ns = deadline_ns - tdmi_now_ns();
        int64_t left_ms = left_ns <= 0 ? 0 : (left_ns + TDMI_NS_PER_MS - 1) / TDMI_NS_PER_MS;
        struct pollfd item = {.fd = fd, .events = events};
        int ready = poll(&item, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (tdmi_deadline_passed(deadline_ns))
            return 0;
    }
}

/* Numbers are used as given; only a name is looked up. */
static int resolve(const char *host, int port, struct addrinfo **out)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    int error = getaddrinfo(host, service, &hints, out);
    if (error != EAI_NONAME)
        return error;
    hints.ai_flags = AI_NUMERICSERV;
    return getaddrinfo(host, service, &hints, out);
}

static tdm_status check_port(const char *host, int port, int lowest)
{
    if (port < lowest || port > 65535)
        return tdmi_fail(TDM_ERR_INVALID, "%s:%d: a port is a number from %d to 65535", host, port, lowest);
    return TDM_OK;
}

/* -1 with errno when it does not work. */
static int listen_at(const struct sockaddr *address, socklen_t length)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* a port in TIME_WAIT, or held for us by a launcher, is no obstacle */
    if (address->sa_family == AF_INET6)
        set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* inherited by accepted sockets */
    if (bind(fd, address, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int listen_anywhere(int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons((uint16_t)port)};
    int fd = listen_at((struct sockaddr *)&six, sizeof six);
    if (fd >= 0 || errno == EADDRINUSE || errno == EACCES)
        return fd;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return listen_at((struct sockaddr *)&four, sizeof four);
}

tdm_status tdmi_socket_listen(const char *host, int port, int *fd_out, int *port_out)
{
    const char *shown = host != NULL ? host : "*";
    tdm_status status = check_port(shown, port, 0);
    if (status != TDM_OK)
        return status;
    int fd = -1;
    if (host == NULL) {
        fd = listen_anywhere(port);
    } else {
        struct addrinfo *list;
        int error = resolve(host, port, &list);
        if (error != 0)
            return tdmi_fail(TDM_ERR_INVALID, "cannot listen at %s:%d: %s", host, port, gai_strerror(error));
        for (struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next)
            fd = listen_at(at->ai_addr, at->ai_addrlen);
        int last = errno;
        freeaddrinfo(list);
        errno = last;
    }
    if (fd < 0 && errno == EADDRINUSE) {
        char owner[128];
        tdmi_port_owner(port, owner, sizeof owner);
        return tdmi_fail(TDM_ERR_ADDRESS_IN_USE, "port %d is taken%s; choose another port or end that process", port, owner);
    }
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot listen at %s:%d", shown, port);
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0) {
        int error = errno;
        close(fd);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot read the port of a socket");
    }
    *port_out = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                  : ((struct sockaddr_in *)&bound)->sin_port);
    *fd_out = fd;
    return TDM_OK;
}

/* Connecting to a free port of this host may, by chance, pick that very port as its own and connect to itself. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_length = sizeof here, there_length = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_length) == 0 && here_length == there_length &&
           memcmp(&here, &there, here_length) == 0;
}

/* One try. -1 with errno; ETIMEDOUT at the deadline. */
static int connect_once(const struct addrinfo *to, int64_t deadline_ns)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int error = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        int ready = wait_ready(fd, POLLOUT, deadline_ns);
        socklen_t length = sizeof error;
        if (ready == 0)
            error = ETIMEDOUT;
        else if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
            error = errno;
    }
    if (error == 0 && is_self_connected(fd))
        error = ECONNREFUSED;
    if (error == 0 && fcntl(fd, F_SETFL, 0) != 0)
        error = errno;
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static bool may_pass(int error) /* whether waiting can help */
{
    return error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == ECONNRESET || error == EADDRNOTAVAIL || error == EINTR || error == ENETDOWN || error == EAGAIN;
}

tdm_status tdmi_socket_connect(const char *host, int port, int64_t deadline_ns, int *fd_out)
{
    tdm_status status = check_port(host, port, 1);
    if (status != TDM_OK)
        return status;
    const int64_t start_ns = tdmi_now_ns();
    int64_t pause_ns = TDMI_NS_PER_MS;
    for (;;) {
        struct addrinfo *list = NULL;
        int error = resolve(host, port, &list);
        const char *why = error != 0 ? gai_strerror(error) : NULL;
        if (error != 0 && error != EAI_AGAIN)
            return tdmi_fail(TDM_ERR_INVALID, "cannot connect to %s:%d: %s", host, port, why);
        for (struct addrinfo *at = list; at != NULL; at = at->ai_next) {
            int fd = connect_once(at, deadline_ns);
            if (fd >= 0) {
                freeaddrinfo(list);
                *fd_out = fd;
                return TDM_OK;
            }
            if (!may_pass(errno)) {
                int last = errno;
                freeaddrinfo(list);
                return tdmi_fail_errno(TDM_ERR_SYSTEM, last, "cannot connect to %s:%d", host, port);
            }
            why = strerror(errno);
        }
        if (list != NULL)
            freeaddrinfo(list);
        int64_t left_ns = deadline_ns - tdmi_now_ns();
        if (left_ns <= 0)
            return tdmi_fail(TDM_ERR_TIMEOUT, "nobody answers at %s:%d after %.1f s (%s); is the process that listens there running?",
                             host, port, (double)(tdmi_now_ns() - start_ns) * 1e-9, why);
        int64_t sleep_ns = pause_ns < left_ns ? pause_ns : left_ns;
        nanosleep(&(struct timespec){.tv_sec = sleep_ns / TDMI_NS_PER_S, .tv_nsec = sleep_ns % TDMI_NS_PER_S}, NULL);
        if (pause_ns < 200 * TDMI_NS_PER_MS)
            pause_ns += pause_ns / 2;
    }
}

void tdmi_socket_notice_loss(int fd)
{
    set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_flag(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
    set_flag(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_flag(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_flag(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000); /* ms; for when bytes are under way */
}

tdm_status tdmi_socket_send_all(int fd, const void *data, size_t nbytes, int64_t deadline_ns, const char *peer)
{
    const uint8_t *from = data;
    for (size_t done = 0; done < nbytes;) {
        ssize_t sent = send(fd, from + done, nbytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            done += (size_t)sent;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return tdmi_fail(TDM_ERR_PEER_LOST, "%s is gone after %zu of %zu bytes: %s", peer, done, nbytes, strerror(errno));
        int ready = wait_ready(fd, POLLOUT, deadline_ns);
        if (ready == 0)
            return tdmi_fail(TDM_ERR_TIMEOUT, "%s took only %zu of %zu bytes before the deadline", peer, done, nbytes);
        if (ready < 0)
            return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot wait for %s", peer);
    }
    return TDM_OK;
}

tdm_status tdmi_socket_receive_all(int fd, void *data, size_t nbytes, int64_t deadline_ns, const char *peer)
{
    uint8_t *to = data;
    for (size_t done = 0; done < nbytes;) {
        ssize_t got = recv(fd, to + done, nbytes - done, MSG_DONTWAIT);
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got == 0)
            return tdmi_fail(TDM_ERR_PEER_LOST, "%s closed the connection after %zu of %zu bytes", peer, done, nbytes);
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return tdmi_fail(TDM_ERR_PEER_LOST, "%s is gone after %zu of %zu bytes: %s", peer, done, nbytes, strerror(errno));
        int ready = wait_ready(fd, POLLIN, deadline_ns);
        if (ready == 0)
            return tdmi_fail(TDM_ERR_TIMEOUT, "%s sent only %zu of %zu bytes before the deadline", peer, done, nbytes);
        if (ready < 0)
            return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot wait for %s", peer);
    }
    return TDM_OK;
}

tdm_status tdmi_socket_local_address(int fd, char *text, size_t nbytes)
{
    struct sockaddr_storage here;
    socklen_t length = sizeof here;
    if (getsockname(fd, (struct sockaddr *)&here, &length) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot read the address of a socket");
    int error = getnameinfo((struct sockaddr *)&here, length, text, (socklen_t)nbytes, NULL, 0, NI_NUMERICHOST);
    if (error != 0)
        return tdmi_fail(TDM_ERR_SYSTEM, "cannot write the address of a socket as text: %s", gai_strerror(error));
    if (strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.') != NULL) /* IPv4 seen through an IPv6 socket */
        memmove(text, text + 7, strlen(text + 7) + 1);
    return TDM_OK;
}

bool tdmi_socket_is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
    return strcmp(host, "localhost") == 0 || strcmp(host, "ip6-localhost") == 0;
}
