/* door.c - abstract unix sockets, SO_PEERCRED, SCM_RIGHTS. */
#include "transport/shm/door.h"

#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PURPOSE "node"

static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(out->sun_path + 1, name, length); /* a zero in front: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int milliseconds_left(int64_t deadline_ns)
{
    int64_t left = deadline_ns - tdmi_now_ns();
    if (left <= 0)
        return 0;
    left = (left + TDMI_NS_PER_MS - 1) / TDMI_NS_PER_MS;
    return left > INT_MAX ? INT_MAX : (int)left;
}

tdm_status tdmi_door_open(int *fd_out, char name[TDMI_DOOR_NAME_MAX])
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a unix socket");
    uint64_t random[2] = {0};
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        int error = errno;
        close(fd);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot draw a random number");
    }
    snprintf(name, TDMI_DOOR_NAME_MAX, "tandem-%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, SOMAXCONN) != 0) {
        int error = errno;
        close(fd);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot listen at the unix socket @%s", name);
    }
    *fd_out = fd;
    return TDM_OK;
}

static bool same_user(int fd, int *pid_out)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid())
        return false;
    *pid_out = peer.pid;
    return true;
}

tdm_status tdmi_door_accept(int door, const tdmi_auth_key *key, int64_t deadline_ns, int *fd_out, int *pid_out)
{
    for (;;) {
        struct pollfd item = {.fd = door, .events = POLLIN};
        int ready = poll(&item, 1, milliseconds_left(deadline_ns));
        if (ready == 0 && tdmi_deadline_passed(deadline_ns))
            return tdmi_fail(TDM_ERR_TIMEOUT, "no peer connected in time");
        if (ready <= 0)
            continue;
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot accept a peer's connection; raise `ulimit -n`");
            continue;
        }
        if (same_user(fd, pid_out) && tdmi_auth_accept(fd, key, PURPOSE, deadline_ns) == TDM_OK) {
            *fd_out = fd;
            return TDM_OK;
        }
        log_debug(TDM_LOG_TRANSPORT, "dropped a stranger at the node's door: %s", tdm_error_text());
        close(fd);
    }
}

tdm_status tdmi_door_connect(const char *name, const tdmi_auth_key *key, int64_t deadline_ns, int *fd_out, int *pid_out)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a unix socket");
    tdm_status status = TDM_OK;
    if (connect(fd, (struct sockaddr *)&address, length) != 0)
        status = tdmi_fail_errno(TDM_ERR_PEER_LOST, errno, "cannot connect to the unix socket @%s", name);
    else if (!same_user(fd, pid_out))
        status = tdmi_fail(TDM_ERR_AUTH, "the unix socket @%s belongs to another user", name);
    else
        status = tdmi_auth_connect(fd, key, PURPOSE, deadline_ns);
    if (status != TDM_OK) {
        close(fd);
        return status;
    }
    *fd_out = fd;
    return TDM_OK;
}

tdm_status tdmi_door_send(int fd, const uint8_t message[TDMI_DOOR_MESSAGE], int passed)
{
    uint8_t copy[TDMI_DOOR_MESSAGE];
    memcpy(copy, message, sizeof copy);
    struct iovec part = {.iov_base = copy, .iov_len = sizeof copy};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    if (passed >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *item = CMSG_FIRSTHDR(&header);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(item), &passed, sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == TDMI_DOOR_MESSAGE)
        return TDM_OK;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return tdmi_fail(TDM_ERR_PEER_LOST, "the peer closed its unix socket");
    return tdmi_fail_errno(TDM_ERR_SYSTEM, sent < 0 ? errno : EAGAIN, "a peer of this node does not read its unix socket");
}

tdmi_door_event tdmi_door_receive(int fd, uint8_t message[TDMI_DOOR_MESSAGE], int *passed)
{
    *passed = -1;
    struct iovec part = {.iov_base = message, .iov_len = TDMI_DOOR_MESSAGE};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t got;
    do
        got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? TDMI_DOOR_EMPTY : TDMI_DOOR_CLOSED;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&header); item != NULL; item = CMSG_NXTHDR(&header, item))
        if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS)
            memcpy(passed, CMSG_DATA(item), sizeof(int));
    /* Messages are sent whole and are all of one size, so a piece of one can only mean that the other end broke. */
    if (got == TDMI_DOOR_MESSAGE)
        return TDMI_DOOR_MESSAGE_CAME;
    if (*passed >= 0)
        close(*passed);
    *passed = -1;
    return TDMI_DOOR_CLOSED;
}
