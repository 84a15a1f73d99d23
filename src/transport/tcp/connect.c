/* connect.c - the connecting end: the handshake of auth.h, then a hello that says which group, who and what for.
 *
 *     hello (32 bytes)   magic "TNDL", version 4, group 8, from 4, to 4, purpose 4, stream 4; answered with the same bytes */
#include "transport/tcp/hello.h"

#include "store/socket.h"
#include "transport/bytes.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x4c444e54u
#define VERSION 1u

void tdmi_tcp_hello_write(const tdmi_tcp_hello *hello, uint8_t out[TDMI_TCP_HELLO_BYTES])
{
    tdmi_put_u32(out, MAGIC);
    tdmi_put_u32(out + 4, VERSION);
    tdmi_put_u64(out + 8, hello->group);
    tdmi_put_u32(out + 16, (uint32_t)hello->from);
    tdmi_put_u32(out + 20, (uint32_t)hello->to);
    tdmi_put_u32(out + 24, (uint32_t)hello->purpose);
    tdmi_put_u32(out + 28, (uint32_t)hello->stream);
}

tdm_status tdmi_tcp_hello_read(const uint8_t in[TDMI_TCP_HELLO_BYTES], tdmi_tcp_hello *out)
{
    const uint32_t from = tdmi_get_u32(in + 16), to = tdmi_get_u32(in + 20), purpose = tdmi_get_u32(in + 24),
                   stream = tdmi_get_u32(in + 28);
    if (tdmi_get_u32(in) != MAGIC || tdmi_get_u32(in + 4) != VERSION || from > INT_MAX || to > INT_MAX ||
        purpose >= TDMI_TCP_PURPOSES || stream >= TDMI_TCP_STREAMS_MAX)
        return tdmi_fail(TDM_ERR_AUTH, "it knows the job's secret, but says no hello of a rank of this version");
    *out = (tdmi_tcp_hello){.group = tdmi_get_u64(in + 8), .from = (int)from, .to = (int)to, .purpose = (tdmi_tcp_purpose)purpose,
                            .stream = (int)stream};
    return TDM_OK;
}

void tdmi_tcp_watch(int fd, tdmi_tcp_purpose purpose)
{
    const int one = 1, probes = 3, lost_ms = 4000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    if (purpose == TDMI_TCP_CONTROL)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof lost_ms);
}

tdm_status tdmi_tcp_connect(const char *host, int port, const tdmi_auth_key *key, const tdmi_tcp_hello *hello, int64_t deadline_ns,
                            int *fd_out)
{
    uint8_t own[TDMI_TCP_HELLO_BYTES], answer[TDMI_TCP_HELLO_BYTES];
    int fd;
    tdm_status status = tdmi_socket_connect(host, port, deadline_ns, &fd);
    if (status != TDM_OK)
        return status;
    tdmi_tcp_hello_write(hello, own);
    status = tdmi_auth_connect(fd, key, TDMI_TCP_AUTH_PURPOSE, deadline_ns);
    if (status == TDM_OK)
        status = tdmi_socket_send_all(fd, own, sizeof own, deadline_ns, "the peer");
    if (status == TDM_OK)
        status = tdmi_socket_receive_all(fd, answer, sizeof answer, deadline_ns, "the peer");
    if (status == TDM_OK && memcmp(own, answer, sizeof own) != 0)
        status = tdmi_fail(TDM_ERR_PEER_LOST, "%s:%d answered, but not for this group", host, port);
    if (status != TDM_OK) {
        close(fd);
        return status;
    }
    tdmi_tcp_watch(fd, hello->purpose);
    *fd_out = fd;
    return TDM_OK;
}
