/* tcp.c - non-blocking sockets as a link. Several streams are one: the link's bytes go over them in stripes, in turn.
 *
 *     bytes of the link    0        S        2S       3S       4S       5S        S = TDMI_TCP_STRIPE, three streams
 *     stream               |   0    |   1    |   2    |   0    |   1    |
 *
 * A stream whose turn has come and that is full stops the others only until it has room for a stripe: each has the kernel's
 * buffers behind it, which hold many. */
#include "transport/tcp/tcp.h"

#include "core/fork.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PARTS_MAX 2 /* what channel.c gives at once */

typedef struct tcp_link {
    tdmi_link base;
    uint64_t sent, received; /* bytes of the link */
    int count;
    int fd[];
} tcp_link;

static tdm_status lost(int error)
{
    return tdmi_fail(TDM_ERR_PEER_LOST, "the connection broke: %s", strerror(error));
}

/* The parts without their first `skip` bytes, at most `most` bytes of them. Returns how many parts that is. */
static int cut(const struct iovec *parts, int count, size_t skip, size_t most, struct iovec out[PARTS_MAX], size_t *nbytes)
{
    int n = 0;
    *nbytes = 0;
    for (int i = 0; i < count && *nbytes < most; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
            continue;
        }
        const size_t left = parts[i].iov_len - skip, room = most - *nbytes;
        out[n] = (struct iovec){(char *)parts[i].iov_base + skip, left < room ? left : room};
        *nbytes += out[n++].iov_len;
        skip = 0;
    }
    return n;
}

typedef ssize_t (*mover)(int fd, struct msghdr *message);

static ssize_t send_once(int fd, struct msghdr *message)
{
    return sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* 0 bytes of a stream are its end. */
static ssize_t receive_once(int fd, struct msghdr *message)
{
    return recvmsg(fd, message, MSG_DONTWAIT);
}

static tdm_status move_parts(tcp_link *link, mover move, const struct iovec *parts, int count, uint64_t *position, size_t *moved)
{
    *moved = 0;
    for (;;) {
        struct iovec now[PARTS_MAX];
        const size_t most = link->count == 1 ? SIZE_MAX : TDMI_TCP_STRIPE - (size_t)(*position % TDMI_TCP_STRIPE);
        const int stream = link->count == 1 ? 0 : (int)(*position / TDMI_TCP_STRIPE % (uint64_t)link->count);
        size_t wanted;
        struct msghdr message = {.msg_iov = now, .msg_iovlen = (size_t)cut(parts, count, *moved, most, now, &wanted)};
        if (wanted == 0)
            return TDM_OK;
        ssize_t n;
        do
            n = move(link->fd[stream], &message);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TDM_OK;
        if (n <= 0 && *moved > 0)
            return TDM_OK; /* the next call says so */
        if (n <= 0)
            return n == 0 ? tdmi_fail(TDM_ERR_PEER_LOST, "the other end closed the connection") : lost(errno);
        *moved += (size_t)n;
        *position += (uint64_t)n;
        if ((size_t)n < wanted || link->count == 1)
            return TDM_OK;
    }
}

static tdm_status send_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    tcp_link *link = (tcp_link *)base;
    return move_parts(link, send_once, parts, count, &link->sent, moved);
}

static tdm_status receive_parts(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    tcp_link *link = (tcp_link *)base;
    return move_parts(link, receive_once, parts, count, &link->received, moved);
}

static int fd_of(const tdmi_link *base, int index)
{
    const tcp_link *link = (const tcp_link *)base;
    return index < link->count ? link->fd[index] : -1;
}

static void close_all(const int *fd, int count)
{
    for (int i = 0; i < count; i++)
        tdmi_fork_close(fd[i]);
}

/* What the peer sent and nobody read would turn the close into a reset, which can overtake our last bytes. */
static void close_link(tdmi_link *base)
{
    tcp_link *link = (tcp_link *)base;
    char unread[4096];
    for (int i = 0; i < link->count; i++)
        shutdown(link->fd[i], SHUT_WR);
    for (int i = 0; i < link->count; i++)
        while (recv(link->fd[i], unread, sizeof unread, MSG_DONTWAIT) > 0)
            ;
    close_all(link->fd, link->count);
    tdmi_free(link);
}

static const tdmi_link_ops ops = {
    .name = "tcp", .send = send_parts, .receive = receive_parts, .fd = fd_of, .close = close_link};

tdm_status tdmi_tcp_link_create(const int *fd, int count, tdmi_link **out)
{
    tcp_link *link = tdmi_calloc(1, sizeof *link + (size_t)count * sizeof *fd, "tcp link");
    tdm_status status = link == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    for (int i = 0; i < count && status == TDM_OK; i++)
        if (fcntl(fd[i], F_SETFL, O_NONBLOCK) != 0)
            status = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot set up a socket");
    if (status != TDM_OK) {
        tdmi_free(link);
        close_all(fd, count);
        return status;
    }
    link->base.ops = &ops;
    link->count = count;
    memcpy(link->fd, fd, (size_t)count * sizeof *fd);
    for (int i = 0; i < count; i++)
        tdmi_fork_hide(fd[i]);
    *out = &link->base;
    return TDM_OK;
}
