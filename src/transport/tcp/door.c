/* door.c - the listening end. All who come are served at once, so that one who says nothing holds up nobody:
 *
 *     accepted -> handshake of auth.h, step by step -> hello -> answered and handed out
 *                 \__________ more than a second, or a wrong word: dropped and logged __/
 *
 * Runs in the owner's thread, while a group forms. */
#include "transport/tcp/hello.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "store/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STRANGERS_MOST 64   /* at once; further ones wait in the kernel's queue */
#define STRANGERS_LOGGED 16 /* a port scan must not fill the disk */

/* One whose hello has not come yet. */
typedef struct stranger {
    int fd;
    int64_t end_ns;
    tdmi_auth auth;
    uint8_t in[TDMI_AUTH_BYTES_MAX];
    size_t in_nbytes;
} stranger;

struct tdmi_tcp_door {
    int listener, port, rank;
    uint64_t group;
    tdmi_auth_key key;
    stranger strangers[STRANGERS_MOST];
    int count, dropped;
};

_Static_assert(TDMI_TCP_HELLO_BYTES <= TDMI_AUTH_BYTES_MAX, "one buffer takes both");

tdm_status tdmi_tcp_door_open(const char *host, const tdmi_auth_key *key, uint64_t group, int rank, tdmi_tcp_door **out)
{
    tdmi_tcp_door *door = tdmi_calloc(1, sizeof *door, "tcp door");
    if (door == NULL)
        return TDM_ERR_NO_MEMORY;
    *door = (tdmi_tcp_door){.group = group, .rank = rank, .key = *key};
    tdm_status status = tdmi_socket_listen(host, 0, &door->listener, &door->port);
    if (status != TDM_OK) {
        tdmi_free(door);
        return status;
    }
    fcntl(door->listener, F_SETFL, O_NONBLOCK);
    *out = door;
    return TDM_OK;
}

int tdmi_tcp_door_port(const tdmi_tcp_door *door)
{
    return door->port;
}

void tdmi_tcp_door_close(tdmi_tcp_door *door)
{
    if (door == NULL)
        return;
    for (int i = 0; i < door->count; i++)
        close(door->strangers[i].fd);
    close(door->listener);
    tdmi_free(door);
}

static void forget(tdmi_tcp_door *door, stranger *s)
{
    *s = door->strangers[--door->count];
}

/* With this thread's error text as the reason. */
static void drop(tdmi_tcp_door *door, stranger *s)
{
    if (door->dropped++ < STRANGERS_LOGGED) {
        char address[TDMI_TCP_HOST_MAX] = "?";
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        if (getpeername(s->fd, (struct sockaddr *)&peer, &length) != 0 ||
            getnameinfo((struct sockaddr *)&peer, length, address, sizeof address, NULL, 0, NI_NUMERICHOST) != 0)
            memcpy(address, "?", 2);
        log_warn(TDM_LOG_TRANSPORT, "dropped a connection from %s to rank %d: %s%s", address, door->rank, tdm_error_text(),
                 door->dropped == STRANGERS_LOGGED ? "; further ones are not reported" : "");
    }
    close(s->fd);
    forget(door, s);
}

static tdm_status let_in(tdmi_tcp_door *door)
{
    const int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE
                   ? tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot accept a peer's connection; raise `ulimit -n`")
                   : TDM_OK;
    stranger *s = &door->strangers[door->count];
    *s = (stranger){.fd = fd, .end_ns = tdmi_now_ns() + TDMI_AUTH_STRANGER_MS * TDMI_NS_PER_MS};
    tdm_status status = tdmi_auth_begin(&s->auth, &door->key, TDMI_TCP_AUTH_PURPOSE, true);
    if (status != TDM_OK) {
        close(fd);
        return status;
    }
    door->count++;
    return TDM_OK;
}

static tdm_status hear_hello(const tdmi_tcp_door *door, const stranger *s, tdmi_tcp_hello *out)
{
    tdm_status status = tdmi_tcp_hello_read(s->in, out);
    if (status == TDM_OK && (out->group != door->group || out->to != door->rank))
        status = tdmi_fail(TDM_ERR_AUTH, "it knows the job's secret, but means another group or rank %d", out->to);
    if (status == TDM_OK && send(s->fd, s->in, TDMI_TCP_HELLO_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) != TDMI_TCP_HELLO_BYTES)
        status = tdmi_fail(TDM_ERR_AUTH, "it was gone before its hello was answered"); /* a fresh socket has room for it */
    return status;
}

/* *known: its hello is in *out. An error is the stranger's. */
static tdm_status listen_to(tdmi_tcp_door *door, stranger *s, tdmi_tcp_hello *out, bool *known)
{
    for (;;) {
        const size_t want = s->auth.want > 0 ? s->auth.want : TDMI_TCP_HELLO_BYTES;
        const ssize_t got = recv(s->fd, s->in + s->in_nbytes, want - s->in_nbytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TDM_OK;
        if (got <= 0)
            return tdmi_fail(TDM_ERR_AUTH, "it hung up before it had proved that it knows the job's secret");
        s->in_nbytes += (size_t)got;
        if (s->in_nbytes < want)
            continue;
        s->in_nbytes = 0;
        if (s->auth.want == 0) {
            *known = true;
            return hear_hello(door, s, out);
        }
        tdm_status status = tdmi_auth_step(&s->auth, s->in);
        if (send(s->fd, s->auth.out, s->auth.out_nbytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)s->auth.out_nbytes &&
            status == TDM_OK)
            status = tdmi_fail(TDM_ERR_AUTH, "it hung up during the handshake");
        if (status != TDM_OK)
            return status;
    }
}

/* Waits until something comes, a stranger's time is over, or the deadline. */
static void wait_for_any(tdmi_tcp_door *door, int64_t deadline_ns, struct pollfd items[STRANGERS_MOST + 1])
{
    int64_t until_ns = deadline_ns;
    items[door->count] = (struct pollfd){.fd = door->count < STRANGERS_MOST ? door->listener : -1, .events = POLLIN};
    for (int i = 0; i < door->count; i++) {
        items[i] = (struct pollfd){.fd = door->strangers[i].fd, .events = POLLIN};
        if (door->strangers[i].end_ns < until_ns)
            until_ns = door->strangers[i].end_ns;
    }
    const int64_t left_ms = (until_ns - tdmi_now_ns() + TDMI_NS_PER_MS - 1) / TDMI_NS_PER_MS;
    if (poll(items, (nfds_t)door->count + 1, left_ms < 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms) <= 0)
        for (int i = 0; i <= door->count; i++)
            items[i].revents = 0;
}

tdm_status tdmi_tcp_door_next(tdmi_tcp_door *door, int64_t deadline_ns, tdmi_tcp_hello *hello_out, int *fd_out)
{
    struct pollfd items[STRANGERS_MOST + 1];
    while (!tdmi_deadline_passed(deadline_ns)) {
        wait_for_any(door, deadline_ns, items);
        const bool someone = items[door->count].revents != 0;
        for (int i = door->count - 1; i >= 0; i--) { /* from behind: one that goes is replaced by the last */
            stranger *s = &door->strangers[i];
            bool known = false;
            tdm_status status = items[i].revents != 0 ? listen_to(door, s, hello_out, &known) : TDM_OK;
            if (status == TDM_OK && known) {
                *fd_out = s->fd;
                forget(door, s);
                tdmi_tcp_watch(*fd_out, hello_out->purpose);
                return TDM_OK;
            }
            if (status == TDM_OK && tdmi_deadline_passed(s->end_ns))
                status = tdmi_fail(TDM_ERR_AUTH, "it did not prove within %d ms that it knows the job's secret", TDMI_AUTH_STRANGER_MS);
            if (status != TDM_OK)
                drop(door, s);
        }
        tdm_status status = someone ? let_in(door) : TDM_OK;
        if (status != TDM_OK)
            return status;
    }
    return tdmi_fail(TDM_ERR_TIMEOUT, "no peer connected in time");
}
