/* tcp.c - a non-blocking socket as a link. */
#include "transport/tcp/tcp.h"

#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct tcp_link {
    tdmi_link base;
    int fd;
} tcp_link;

static tdm_status lost(int error)
{
    return tdmi_fail(TDM_ERR_PEER_LOST, "the connection broke: %s", strerror(error));
}

static tdm_status send_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)count};
    ssize_t sent;
    do
        sent = sendmsg(((tcp_link *)base)->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    *moved = sent > 0 ? (size_t)sent : 0;
    return sent >= 0 || errno == EAGAIN || errno == EWOULDBLOCK ? TDM_OK : lost(errno);
}

static tdm_status receive_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)count};
    ssize_t got;
    do
        got = recvmsg(((tcp_link *)base)->fd, &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    *moved = got > 0 ? (size_t)got : 0;
    if (got == 0)
        return tdmi_fail(TDM_ERR_PEER_LOST, "the other end closed the connection");
    return got > 0 || errno == EAGAIN || errno == EWOULDBLOCK ? TDM_OK : lost(errno);
}

static int fd_of(const tdmi_link *base)
{
    return ((const tcp_link *)base)->fd;
}

/* What the peer sent and nobody read would turn the close into a reset, which can overtake our last bytes. */
static void close_link(tdmi_link *base)
{
    tcp_link *link = (tcp_link *)base;
    char unread[4096];
    shutdown(link->fd, SHUT_WR);
    while (recv(link->fd, unread, sizeof unread, MSG_DONTWAIT) > 0)
        ;
    close(link->fd);
    tdmi_free(link);
}

static const tdmi_link_ops ops = {
    .name = "tcp", .send = send_parts, .receive = receive_parts, .fd = fd_of, .close = close_link};

tdm_status tdmi_tcp_link_create(int fd, tdmi_link **out)
{
    tcp_link *link = tdmi_calloc(1, sizeof *link, "tcp link");
    if (link == NULL || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        tdm_status status = link == NULL ? TDM_ERR_NO_MEMORY : tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot set up a socket");
        tdmi_free(link);
        close(fd);
        return status;
    }
    link->base.ops = &ops;
    link->fd = fd;
    *out = &link->base;
    return TDM_OK;
}
