/* fuzz_link_frame.c - any bytes, from a peer: over a data link, over a control connection, as its hello, and as its record in the
 * store. */
#include "group/group.h"
#include "memory_link.h"
#include "transport/channel.h"
#include "transport/tcp/hello.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tdm_status send_nothing(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    (void)base, (void)parts, (void)count;
    *moved = 0;
    return TDM_OK;
}

static const tdmi_link_ops ops = {.name = "memory", .send = send_nothing, .receive = memory_link_receive, .fd = memory_link_fd,
                                  .close = memory_link_close};

static void read_link(const uint8_t *data, size_t size, size_t most)
{
    memory_link link = {.base.ops = &ops, .data = data, .size = size, .most = most};
    tdmi_channel *channel;
    static char out[300000];
    if (tdmi_channel_create(&link.base, &channel) != TDM_OK)
        abort();
    for (uint64_t call = 1; call < 4; call++) {
        bool came = false;
        size_t moved = 1;
        tdm_status status = tdmi_channel_hear(channel, call, &came);
        while (status == TDM_OK && moved > 0) {
            status = tdmi_channel_receive(channel, call, out, sizeof out, &moved);
            if (moved > sizeof out)
                abort();
        }
        if (status != TDM_OK)
            break;
    }
    tdmi_channel_destroy(channel);
}

static void read_control(const uint8_t *data, size_t size)
{
    int fd[2], world_rank[2] = {0, 1}, pid[2] = {0};
    bool is_local[2] = {false, false};
    char host_name[2][72] = {{0}};
    uint64_t arrived[2] = {0};
    static tdmi_control control[2];
    static tdm_group group;
    tdmi_world world = {.kick = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
        abort();
    memset(control, 0, sizeof control);
    memset(&group, 0, sizeof group);
    control[0].fd = -1;
    control[1].fd = fd[0];
    group.world = &world;
    group.size = 2;
    group.world_rank = world_rank;
    group.is_local = is_local;
    group.host_name = host_name[0];
    group.pid = pid;
    group.control = control;
    group.team.arrived = arrived;
    pthread_mutex_init(&group.lock, NULL);
    pthread_mutex_init(&group.control_lock, NULL);
    pthread_mutex_init(&group.failure_lock, NULL);
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd[1], data + at, size - at < 777 ? size - at : 777, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0)
            break;
        at += (size_t)sent;
        tdmi_control_hear(&group);
    }
    close(fd[1]);
    tdmi_control_hear(&group);
    if (!control[1].closed)
        abort();
    close(fd[0]);
}

static void read_hello(const uint8_t *data)
{
    tdmi_tcp_hello hello;
    uint8_t again[TDMI_TCP_HELLO_BYTES];
    if (tdmi_tcp_hello_read(data, &hello) != TDM_OK)
        return;
    tdmi_tcp_hello_write(&hello, again);
    if (hello.from < 0 || hello.to < 0 || hello.stream < 0 || hello.stream >= TDMI_TCP_STREAMS_MAX ||
        hello.purpose >= TDMI_TCP_PURPOSES || memcmp(data, again, sizeof again) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_record record;
    if (size >= TDMI_TCP_HELLO_BYTES)
        read_hello(data);
    read_link(data, size, size + 1);
    read_link(data, size, 3);
    read_control(data, size);
    if (tdmi_record_read(data, size, 0, &record) == TDM_OK && (strlen(record.host_id) >= sizeof record.host_id ||
                                                               strlen(record.door) >= sizeof record.door))
        abort();
    return 0;
}
