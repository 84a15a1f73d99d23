/* connect.c - connections between ranks: the handshake of auth.h, then a hello that says which group, who and what for.
 *
 *     hello (32 bytes)   magic "TNDL", version 4, group 8, from 4, to 4, purpose 4, zero 4; answered with the same bytes */
#include "transport/tcp/tcp.h"

#include "core/clock.h"
#include "core/log.h"
#include "store/socket.h"
#include "transport/bytes.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_BYTES 32
#define MAGIC 0x4c444e54u
#define VERSION 1u
#define PURPOSE "link"

static void write_hello(uint8_t out[HELLO_BYTES], uint64_t group, int from, int to, tdmi_tcp_purpose purpose)
{
    tdmi_put_u32(out, MAGIC);
    tdmi_put_u32(out + 4, VERSION);
    tdmi_put_u64(out + 8, group);
    tdmi_put_u32(out + 16, (uint32_t)from);
    tdmi_put_u32(out + 20, (uint32_t)to);
    tdmi_put_u32(out + 24, (uint32_t)purpose);
    tdmi_put_u32(out + 28, 0);
}

/* A host that vanishes without a word is noticed after three unanswered seconds. */
static void watch(int fd)
{
    const int one = 1, probes = 3, lost_ms = 4000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof lost_ms);
}

tdm_status tdmi_tcp_connect(const char *host, int port, const tdmi_auth_key *key, uint64_t group, int from, int to,
                            tdmi_tcp_purpose purpose, int64_t deadline_ns, int *fd_out)
{
    uint8_t hello[HELLO_BYTES], answer[HELLO_BYTES];
    int fd;
    tdm_status status = tdmi_socket_connect(host, port, deadline_ns, &fd);
    if (status != TDM_OK)
        return status;
    write_hello(hello, group, from, to, purpose);
    status = tdmi_auth_connect(fd, key, PURPOSE, deadline_ns);
    if (status == TDM_OK)
        status = tdmi_socket_send_all(fd, hello, sizeof hello, deadline_ns, "the peer");
    if (status == TDM_OK)
        status = tdmi_socket_receive_all(fd, answer, sizeof answer, deadline_ns, "the peer");
    if (status == TDM_OK && memcmp(hello, answer, sizeof hello) != 0)
        status = tdmi_fail(TDM_ERR_PEER_LOST, "%s:%d answered, but not for this group", host, port);
    if (status != TDM_OK) {
        close(fd);
        return status;
    }
    watch(fd);
    *fd_out = fd;
    return TDM_OK;
}

static bool hear_hello(int fd, const tdmi_auth_key *key, uint64_t group, int to, int64_t deadline_ns, int *from_out,
                       tdmi_tcp_purpose *purpose_out)
{
    uint8_t hello[HELLO_BYTES];
    if (tdmi_auth_accept(fd, key, PURPOSE, deadline_ns) != TDM_OK ||
        tdmi_socket_receive_all(fd, hello, sizeof hello, tdmi_deadline_in(1), "the connecting rank") != TDM_OK)
        return false;
    if (tdmi_get_u32(hello) != MAGIC || tdmi_get_u32(hello + 4) != VERSION || tdmi_get_u64(hello + 8) != group ||
        tdmi_get_u32(hello + 20) != (uint32_t)to || tdmi_get_u32(hello + 24) >= TDMI_TCP_PURPOSES)
        return false;
    *from_out = (int)tdmi_get_u32(hello + 16);
    *purpose_out = (tdmi_tcp_purpose)tdmi_get_u32(hello + 24);
    return tdmi_socket_send_all(fd, hello, sizeof hello, deadline_ns, "the connecting rank") == TDM_OK;
}

tdm_status tdmi_tcp_accept(int listener, const tdmi_auth_key *key, uint64_t group, int to, int64_t deadline_ns, int *from_out,
                           tdmi_tcp_purpose *purpose_out, int *fd_out)
{
    for (;;) {
        const int64_t left_ms = (deadline_ns - tdmi_now_ns() + TDMI_NS_PER_MS - 1) / TDMI_NS_PER_MS;
        struct pollfd item = {.fd = listener, .events = POLLIN};
        if (left_ms <= 0)
            return tdmi_fail(TDM_ERR_TIMEOUT, "no peer connected in time");
        if (poll(&item, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms) <= 0)
            continue;
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot accept a peer's connection; raise `ulimit -n`");
            continue;
        }
        if (hear_hello(fd, key, group, to, deadline_ns, from_out, purpose_out)) {
            watch(fd);
            *fd_out = fd;
            return TDM_OK;
        }
        log_debug(TDM_LOG_TRANSPORT, "dropped a stranger: %s", tdm_error_text());
        close(fd);
    }
}
