/* door.c - abstract unix sockets, SO_PEERCRED, SCM_RIGHTS. */
#include "transport/shm/door.h"

#include "core/log.h"

#include <errno.h>
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

/* What the handshake has to say; it is short, and the socket empty. */
static tdm_status speak(tdmi_knock *knock)
{
    const tdmi_auth *auth = &knock->auth;
    const ssize_t sent = auth->out_nbytes > 0 ? send(knock->fd, auth->out, auth->out_nbytes, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (sent == (ssize_t)auth->out_nbytes)
        return TDM_OK;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return tdmi_fail(TDM_ERR_PEER_LOST, "the peer closed its unix socket");
    return tdmi_fail_errno(TDM_ERR_SYSTEM, sent < 0 ? errno : EAGAIN, "a peer of this node does not read its unix socket");
}

static tdm_status begin(tdmi_knock *knock, const tdmi_auth_key *key, bool is_acceptor)
{
    const tdm_status status = tdmi_auth_begin(&knock->auth, key, PURPOSE, is_acceptor);
    return status == TDM_OK ? speak(knock) : status;
}

tdm_status tdmi_door_answer(int door, const tdmi_auth_key *key, tdmi_knock *out)
{
    *out = (tdmi_knock){.fd = accept4(door, NULL, NULL, SOCK_CLOEXEC)};
    if (out->fd < 0 && (errno == EMFILE || errno == ENFILE))
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot accept a peer's connection; raise `ulimit -n`");
    if (out->fd < 0)
        return TDM_OK;
    const bool known = same_user(out->fd, &out->pid);
    const tdm_status status = known ? begin(out, key, true) : TDM_OK;
    if (!known || status != TDM_OK) {
        log_debug(TDM_LOG_TRANSPORT, "dropped a stranger at the node's door: %s", known ? tdm_error_text() : "of another user");
        close(out->fd);
        out->fd = -1;
    }
    return TDM_OK;
}

tdm_status tdmi_door_knock(const char *name, const tdmi_auth_key *key, tdmi_knock *out)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(name, &address);
    *out = (tdmi_knock){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (out->fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a unix socket");
    if (connect(out->fd, (struct sockaddr *)&address, length) != 0)
        return tdmi_fail_errno(TDM_ERR_PEER_LOST, errno, "cannot connect to the unix socket @%s", name);
    if (!same_user(out->fd, &out->pid))
        return tdmi_fail(TDM_ERR_AUTH, "the unix socket @%s belongs to another user", name);
    return begin(out, key, false);
}

tdm_status tdmi_knock_step(tdmi_knock *knock, bool *proved)
{
    tdmi_auth *auth = &knock->auth;
    while (auth->want > 0) {
        const ssize_t got = recv(knock->fd, knock->in + knock->held, auth->want - knock->held, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TDM_OK;
        if (got <= 0)
            return tdmi_fail(TDM_ERR_PEER_LOST, "the peer closed its unix socket before it had proved the job's secret");
        knock->held += (size_t)got;
        if (knock->held < auth->want)
            continue;
        knock->held = 0;
        tdm_status status = tdmi_auth_step(auth, knock->in);
        if (status != TDM_OK) {
            char text[TDMI_ERROR_TEXT_MAX];
            snprintf(text, sizeof text, "%s", tdm_error_text());
            (void)!speak(knock); /* the last word */
            tdmi_error_set_text(text);
            return status;
        }
        status = speak(knock);
        if (status != TDM_OK)
            return status;
    }
    *proved = true;
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
