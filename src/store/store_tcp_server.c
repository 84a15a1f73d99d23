/* store_tcp_server.c - the sockets of the TCP store's server.
 *
 * Threads: one thread runs serve() and owns everything here; the starter touches `wake` only, and joins. It sleeps in epoll:
 * waits of clients are parked requests (service.c), not threads. Whoever fails the handshake, or sends something that is no
 * frame, is dropped and logged; others do not notice. */
#include "store/store_tcp.h"

#include "core/clock.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/memory.h"
#include "store/service.h"
#include "store/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_LIMIT (4u << 20)   /* a client that does not read its answers is not read from either */
#define STRANGERS_LOGGED 16    /* a port scan must not fill the disk */
#define STOP_FLUSH_MS 1000

typedef struct connection {
    tdmi_member member; /* first: a member is its connection */
    struct connection *next;
    int fd;
    bool is_member, dead;
    uint32_t events;      /* what epoll watches */
    int64_t stranger_ns;  /* when the handshake must be done */
    tdmi_auth auth;
    uint8_t hello[TDMI_AUTH_BYTES_MAX];
    size_t hello_nbytes;
} connection;

struct tdmi_store_server {
    pthread_t thread;
    int wake; /* eventfd: stop */
    int listener, poller;
    int64_t listen_again_ns; /* 0: the listener is watched; else out of descriptors until then */
    tdmi_auth_key key;
    tdmi_service service;
    connection *connections;
    int strangers;
};

static void watch(const tdmi_store_server *server, connection *c)
{
    size_t held = tdmi_buffer_held(&c->member.out);
    uint32_t events = (held < OUT_LIMIT ? (uint32_t)EPOLLIN : 0) | (held > 0 ? (uint32_t)EPOLLOUT : 0);
    if (events == c->events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(server->poller, c->events == UINT32_MAX ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &event);
    c->events = events;
}

static void turn_away(tdmi_store_server *server, connection *c)
{
    c->dead = true;
    if (server->strangers++ < STRANGERS_LOGGED) {
        char address[64] = "?";
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        if (getpeername(c->fd, (struct sockaddr *)&peer, &length) != 0 ||
            getnameinfo((struct sockaddr *)&peer, length, address, sizeof address, NULL, 0, NI_NUMERICHOST) != 0)
            memcpy(address, "?", 2);
        log_warn(TDM_LOG_STORE, "dropped a connection from %s: %s%s", address, tdm_error_text(),
                 server->strangers == STRANGERS_LOGGED ? "; further ones are not reported" : "");
    }
}

static void flush(connection *c)
{
    tdmi_buffer *out = &c->member.out;
    while (tdmi_buffer_held(out) > 0 && !c->dead) {
        ssize_t sent = send(c->fd, tdmi_buffer_front(out), tdmi_buffer_held(out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            tdmi_buffer_take(out, (size_t)sent);
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            c->dead = true;
    }
}

/* Takes handshake bytes; gives how many it took. */
static size_t shake_hands(tdmi_store_server *server, connection *c, const uint8_t *bytes, size_t nbytes)
{
    size_t taken = c->auth.want - c->hello_nbytes < nbytes ? c->auth.want - c->hello_nbytes : nbytes;
    memcpy(c->hello + c->hello_nbytes, bytes, taken);
    c->hello_nbytes += taken;
    if (c->hello_nbytes < c->auth.want)
        return taken;
    c->hello_nbytes = 0;
    tdm_status status = tdmi_auth_step(&c->auth, c->hello);
    if (send(c->fd, c->auth.out, c->auth.out_nbytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)c->auth.out_nbytes)
        c->dead = true; /* a fresh socket that cannot take 48 bytes is gone */
    if (status != TDM_OK)
        turn_away(server, c);
    else if (c->auth.want == 0)
        c->is_member = true;
    return taken;
}

static void receive(tdmi_store_server *server, connection *c)
{
    uint8_t bytes[65536];
    ssize_t got = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        c->dead = true;
        return;
    }
    size_t taken = 0;
    while (!c->dead && !c->is_member && taken < (size_t)got)
        taken += shake_hands(server, c, bytes + taken, (size_t)got - taken);
    if (!c->dead && taken < (size_t)got &&
        tdmi_service_feed(&server->service, &c->member, bytes + taken, (size_t)got - taken) != TDM_OK)
        turn_away(server, c);
}

static connection *add_connection(tdmi_store_server *server, int fd)
{
    connection *c = tdmi_calloc(1, sizeof *c, "store connection");
    if (c == NULL)
        return NULL;
    c->fd = fd;
    c->events = UINT32_MAX;
    c->next = server->connections;
    server->connections = c;
    watch(server, c);
    return c;
}

static void accept_all(tdmi_store_server *server)
{
    for (;;) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                log_warn(TDM_LOG_STORE, "cannot take a connection now: %s", strerror(errno));
                server->listen_again_ns = tdmi_now_ns() + 200 * TDMI_NS_PER_MS;
                epoll_ctl(server->poller, EPOLL_CTL_DEL, server->listener, NULL);
            }
            if (errno != EINTR && errno != ECONNABORTED)
                return;
            continue;
        }
        tdmi_socket_notice_loss(fd);
        connection *c = add_connection(server, fd);
        if (c == NULL) {
            close(fd);
            continue;
        }
        tdmi_fork_hide(fd);
        c->stranger_ns = tdmi_now_ns() + TDMI_AUTH_STRANGER_MS * TDMI_NS_PER_MS;
        if (tdmi_auth_begin(&c->auth, &server->key, "store", true) != TDM_OK)
            turn_away(server, c);
    }
}

static void bury(tdmi_store_server *server, connection *c)
{
    tdmi_service_leave(&server->service, &c->member);
    tdmi_fork_close(c->fd);
    tdmi_free(c);
}

/* Sends new answers, drops the dead and the late, and gives the time of the next stranger's end. */
static int64_t tidy(tdmi_store_server *server)
{
    int64_t now_ns = tdmi_now_ns(), next_ns = INT64_MAX;
    for (connection **link = &server->connections; *link != NULL;) {
        connection *c = *link;
        if (!c->dead && !c->is_member && now_ns >= c->stranger_ns) {
            tdmi_fail(TDM_ERR_AUTH, "it did not prove the job's secret within %d ms", TDMI_AUTH_STRANGER_MS);
            turn_away(server, c);
        }
        if (c->dead) {
            *link = c->next;
            bury(server, c);
            continue;
        }
        if (!c->is_member && c->stranger_ns < next_ns)
            next_ns = c->stranger_ns;
        link = &c->next;
    }
    /* burying can make wills, which answer waits */
    for (tdmi_member *member; (member = tdmi_service_next_ready(&server->service)) != NULL;) {
        connection *c = (connection *)member;
        flush(c);
        if (c->dead)
            next_ns = now_ns; /* bury it on the next turn */
        else
            watch(server, c);
    }
    if (server->listen_again_ns != 0) {
        if (now_ns >= server->listen_again_ns) {
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->listener};
            epoll_ctl(server->poller, EPOLL_CTL_ADD, server->listener, &event);
            server->listen_again_ns = 0;
        } else if (server->listen_again_ns < next_ns) {
            next_ns = server->listen_again_ns;
        }
    }
    return next_ns;
}

static void last_words(tdmi_store_server *server)
{
    int64_t deadline_ns = tdmi_now_ns() + STOP_FLUSH_MS * TDMI_NS_PER_MS;
    for (connection *c = server->connections, *next; c != NULL; c = next) {
        next = c->next;
        for (flush(c); !c->dead && tdmi_buffer_held(&c->member.out) > 0 && !tdmi_deadline_passed(deadline_ns); flush(c)) {
            struct pollfd item = {.fd = c->fd, .events = POLLOUT};
            poll(&item, 1, 50);
        }
        bury(server, c);
    }
    tdmi_service_free(&server->service);
}

static void *serve(void *arg)
{
    tdmi_store_server *server = arg;
    int64_t next_ns = INT64_MAX;
    for (;;) {
        int timeout_ms = -1;
        if (next_ns != INT64_MAX) {
            int64_t left_ns = next_ns - tdmi_now_ns();
            timeout_ms = left_ns <= 0 ? 0 : (int)(left_ns / TDMI_NS_PER_MS) + 1;
        }
        struct epoll_event events[64];
        int count = epoll_wait(server->poller, events, 64, timeout_ms);
        bool stop = false;
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &server->wake) {
                stop = true;
            } else if (events[i].data.ptr == &server->listener) {
                accept_all(server);
            } else {
                connection *c = events[i].data.ptr;
                if (!c->dead && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                    receive(server, c);
                if (!c->dead && (events[i].events & EPOLLOUT)) {
                    flush(c);
                    watch(server, c);
                }
            }
        }
        next_ns = tidy(server);
        if (stop)
            break;
    }
    last_words(server);
    return NULL;
}

tdm_status tdmi_store_server_start(const char *host, int port, const tdmi_auth_key *key, tdmi_store_server **out,
                                   int *port_out, int *fd_out)
{
    int own[2] = {-1, -1};
    tdm_status status = TDM_ERR_NO_MEMORY;
    tdmi_store_server *server = tdmi_calloc(1, sizeof *server, "store server");
    if (server == NULL)
        return status;
    server->key = *key;
    server->listener = server->poller = server->wake = -1;
    status = tdmi_socket_listen(tdmi_socket_is_loopback(host) ? host : NULL, port, &server->listener, port_out);
    if (status != TDM_OK)
        goto fail;
    tdmi_fork_hide(server->listener);
    status = TDM_ERR_SYSTEM;
    server->poller = epoll_create1(EPOLL_CLOEXEC);
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->wake};
    struct epoll_event listen_event = {.events = EPOLLIN, .data.ptr = &server->listener};
    if (server->poller < 0 || server->wake < 0 || fcntl(server->listener, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(server->poller, EPOLL_CTL_ADD, server->wake, &event) != 0 ||
        epoll_ctl(server->poller, EPOLL_CTL_ADD, server->listener, &listen_event) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own) != 0) {
        status = tdmi_fail_errno(status, errno, "cannot set up the store's server");
        goto fail;
    }
    connection *c = add_connection(server, own[1]);
    if (c == NULL) {
        status = TDM_ERR_NO_MEMORY;
        goto fail;
    }
    own[1] = -1;
    c->is_member = true; /* our own end needs no proof */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads, not for this one */
    int error = pthread_create(&server->thread, NULL, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        bury(server, c);
        status = tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot start the store's thread");
        goto fail;
    }
    *fd_out = own[0];
    *out = server;
    return TDM_OK;
fail:
    for (int i = 0; i < 2; i++)
        if (own[i] >= 0)
            close(own[i]);
    if (server->listener >= 0)
        tdmi_fork_close(server->listener);
    if (server->poller >= 0)
        close(server->poller);
    if (server->wake >= 0)
        close(server->wake);
    tdmi_free(server);
    return status;
}

void tdmi_store_server_stop(tdmi_store_server *server)
{
    if (server == NULL)
        return;
    uint64_t one = 1;
    ssize_t written = write(server->wake, &one, sizeof one);
    (void)written; /* an eventfd takes it */
    pthread_join(server->thread, NULL);
    tdmi_fork_close(server->listener);
    close(server->poller);
    close(server->wake);
    tdmi_free(server);
}
