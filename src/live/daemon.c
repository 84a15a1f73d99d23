/* daemon.c - Unix datagrams: whoever asks is who the kernel says, or is not heard. */
#include "live/daemon.h"

#include "core/clock.h"
#include "live/request.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAEMON_NAME "dynolog" /* libkineto asks dynolog's daemon */
#define CLIENT_PREFIX "dynoconfigclient"
#define FRESH_NS (60 * TDMI_NS_PER_MS) /* so old may a poll be that is answered */

static socklen_t address_of(const char *folder, const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (*folder != '\0') {
        snprintf(out->sun_path, sizeof out->sun_path, "%s/%s", folder, name);
        return sizeof *out;
    }
    snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "%s", name); /* abstract, and the closing NUL is part of the name */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name) + 1);
}

/* Whether a socket file has nobody behind it. */
static bool is_abandoned(const struct sockaddr_un *address, socklen_t length)
{
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, length) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

tdm_status tdmi_daemon_open(const char *folder, tdmi_daemon *out)
{
    *out = (tdmi_daemon){.fd = -1};
    if (strlen(folder) > TDMI_SOCKET_FOLDER_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "KINETO_IPC_SOCKET_DIR=%s has %zu bytes; PyTorch's profiler works with %d at most: set a shorter one",
                         folder, strlen(folder), TDMI_SOCKET_FOLDER_MAX);
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    struct sockaddr_un address;
    const socklen_t length = address_of(folder, DAEMON_NAME, &address);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a socket");
    int error = bind(fd, (struct sockaddr *)&address, length) == 0 ? 0 : errno;
    if (error == EADDRINUSE && *folder != '\0' && is_abandoned(&address, length)) {
        unlink(address.sun_path);
        error = bind(fd, (struct sockaddr *)&address, length) == 0 ? 0 : errno;
    }
    if (error == 0 && (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0))
        error = errno;
    if (error == 0 && *folder != '\0' && chmod(address.sun_path, 0666) != 0) /* the folder's own mode says who comes near */
        error = errno;
    if (error == 0) {
        out->fd = fd;
        return TDM_OK;
    }
    close(fd);
    if (error == EADDRINUSE)
        return tdmi_fail(TDM_ERR_EXISTS, "somebody else answers PyTorch's profiler at %s%s%s (dynolog, or another tandem doctor): end it, or start "
                         "the job as `tandem doctor -- COMMAND`", *folder != '\0' ? folder : "the abstract socket", *folder != '\0' ? "/" : " ",
                         DAEMON_NAME);
    return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot answer PyTorch's profiler at %s/%s", folder, DAEMON_NAME);
}

/* A datagram, with what the kernel says of it. */
typedef struct letter {
    uint8_t bytes[TDMI_MESSAGE_MAX + 1];
    struct sockaddr_un peer;
    socklen_t peer_bytes;
    pid_t sender;  /* 0: not known */
    bool is_fresh;
} letter;

static bool is_fresh(const struct timespec *sent)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (now.tv_sec - sent->tv_sec) * TDMI_NS_PER_S + now.tv_nsec - sent->tv_nsec < FRESH_NS;
}

/* Gives its bytes, or -1. */
static ssize_t receive(int fd, letter *out)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec part = {out->bytes, sizeof out->bytes};
    struct msghdr message = {.msg_name = &out->peer, .msg_namelen = sizeof out->peer, .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    out->sender = 0;
    out->is_fresh = false;
    out->peer_bytes = message.msg_namelen;
    if (got < 0)
        return got;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at != NULL; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(at), sizeof sender);
            out->sender = sender.pid;
        } else if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec sent;
            memcpy(&sent, CMSG_DATA(at), sizeof sent);
            out->is_fresh = is_fresh(&sent);
        }
    }
    return got;
}

static void answer_poll(tdmi_daemon *daemon, const tdmi_poll *poll, const letter *from)
{
    uint8_t answer[TDMI_MESSAGE_HEAD + TDMI_REQUEST_MAX];
    const tdmi_client *known = tdmi_clients_find(&daemon->clients, poll->pids[0]);
    int rank = known != NULL ? known->rank : -1;
    tdmi_client *client = NULL;
    if (known != NULL || daemon->belongs(poll, &rank, daemon->arg))
        client = tdmi_clients_heard(&daemon->clients, poll, rank, tdmi_now_ns());
    if (!from->is_fresh)
        return;
    const char *request = client != NULL && poll->idle ? client->request : NULL;
    const size_t nbytes = tdmi_message_answer_poll(request != NULL ? request : "", answer, sizeof answer);
    const ssize_t sent = sendto(daemon->fd, answer, nbytes, MSG_DONTWAIT, (const struct sockaddr *)&from->peer, from->peer_bytes);
    if (request != NULL && sent == (ssize_t)nbytes) { /* else it gets it at its next poll */
        client->request = NULL;
        client->taken_ns = client->last_ns;
    }
}

void tdmi_daemon_serve(tdmi_daemon *daemon)
{
    letter from;
    uint8_t answer[TDMI_MESSAGE_HEAD + 4];
    for (int handled = 0; handled < 1024; handled++) { /* then the caller's other business has its turn */
        tdmi_poll poll;
        const ssize_t got = receive(daemon->fd, &from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return;
        if (from.peer_bytes <= offsetof(struct sockaddr_un, sun_path))
            continue; /* it has no address to answer to */
        switch (tdmi_message_read(from.bytes, (size_t)got, &poll)) {
        case TDMI_MESSAGE_POLL:
            if (poll.pids[0] == from.sender)
                answer_poll(daemon, &poll, &from);
            break;
        case TDMI_MESSAGE_CONTEXT: {
            const size_t nbytes = tdmi_message_answer_context((int32_t)daemon->clients.count, answer, sizeof answer);
            (void)!sendto(daemon->fd, answer, nbytes, MSG_DONTWAIT, (struct sockaddr *)&from.peer, from.peer_bytes);
            break;
        }
        case TDMI_MESSAGE_OTHER:
            break;
        }
    }
}

static void sweep(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        struct sockaddr_un address;
        if (strncmp(entry->d_name, CLIENT_PREFIX, strlen(CLIENT_PREFIX)) != 0)
            continue;
        const socklen_t length = address_of(folder, entry->d_name, &address);
        if (is_abandoned(&address, length))
            unlink(address.sun_path);
    }
    if (dir != NULL)
        closedir(dir);
}

void tdmi_daemon_close(tdmi_daemon *daemon)
{
    if (daemon->fd < 0)
        return;
    close(daemon->fd);
    daemon->fd = -1;
    if (daemon->folder[0] != '\0') {
        struct sockaddr_un address;
        address_of(daemon->folder, DAEMON_NAME, &address);
        unlink(address.sun_path);
        sweep(daemon->folder);
    }
    tdmi_clients_free(&daemon->clients);
}
