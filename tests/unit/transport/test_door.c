/* test_door.c - who gets in where ranks connect, and what happens to all others: nothing, and it is logged. */
#include "transport/tcp/hello.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "store/socket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GROUP 77u
#define SILENT 70 /* more than a door serves at once */

static tdmi_auth_key key, other_key;
static int lines;
static char last_line[1024];

static void note(tdmi_area area, tdmi_level level, const char *line, void *arg)
{
    (void)area, (void)arg;
    assert_int_equal(level, TDMI_LEVEL_WARN);
    snprintf(last_line, sizeof last_line, "%s", line);
    lines++;
}

static tdmi_tcp_door *open_door(void)
{
    tdmi_tcp_door *door;
    lines = 0;
    assert_int_equal(tdmi_tcp_door_open("127.0.0.1", &key, GROUP, 1, &door), TDM_OK);
    return door;
}

static int visit(const tdmi_tcp_door *door)
{
    int fd;
    assert_int_equal(tdmi_socket_connect("127.0.0.1", tdmi_tcp_door_port(door), tdmi_deadline_in(5), &fd), TDM_OK);
    return fd;
}

/* A rank that connects as it should, in a thread of its own. */
typedef struct peer {
    pthread_t thread;
    int port, fd;
    tdmi_tcp_hello hello;
    const tdmi_auth_key *key;
    tdm_status status;
    char text[256];
} peer;

static void *connect_peer(void *arg)
{
    peer *p = arg;
    p->status = tdmi_tcp_connect("127.0.0.1", p->port, p->key, &p->hello, tdmi_deadline_in(10), &p->fd);
    if (p->status != TDM_OK)
        snprintf(p->text, sizeof p->text, "%s", tdm_error_text());
    return NULL;
}

static void start_peer(peer *p, const tdmi_tcp_door *door, const tdmi_auth_key *with, uint64_t group, int to)
{
    *p = (peer){.port = tdmi_tcp_door_port(door), .fd = -1, .key = with};
    p->hello = (tdmi_tcp_hello){.group = group, .from = 0, .to = to, .purpose = TDMI_TCP_DATA, .stream = 3};
    assert_int_equal(pthread_create(&p->thread, NULL, connect_peer, p), 0);
}

static void expect_peer(peer *p, tdmi_tcp_door *door)
{
    tdmi_tcp_hello hello;
    int fd;
    assert_int_equal(tdmi_tcp_door_next(door, tdmi_deadline_in(10), &hello, &fd), TDM_OK);
    pthread_join(p->thread, NULL);
    assert_int_equal(p->status, TDM_OK);
    assert_int_equal(hello.from, 0);
    assert_int_equal(hello.purpose, TDMI_TCP_DATA);
    assert_int_equal(hello.stream, 3);
    assert_int_equal(write(p->fd, "x", 1), 1);
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    close(p->fd);
}

static void a_rank_gets_in_and_says_what_for(void **state)
{
    (void)state;
    tdmi_tcp_door *door = open_door();
    peer p;
    start_peer(&p, door, &key, GROUP, 1);
    expect_peer(&p, door);
    tdmi_tcp_door_close(door);
    assert_int_equal(lines, 0);
    assert_int_equal(tdmi_memory_held(), 0);
}

static void garbage_is_dropped_and_logged(void **state)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: some scanner of networks\r\n\r\n";
    char many[100000];
    memset(many, 0xa5, sizeof many);
    tdmi_tcp_door *door = open_door();
    int fd[4];
    for (int i = 0; i < 4; i++)
        fd[i] = visit(door);
    assert_true(write(fd[0], http, sizeof http) > 0);
    assert_true(send(fd[1], many, sizeof many, MSG_NOSIGNAL) > 0);
    shutdown(fd[2], SHUT_RDWR);
    assert_true(write(fd[3], "TNDM", 4) == 4); /* and hangs up in the middle */
    shutdown(fd[3], SHUT_WR);
    peer p;
    start_peer(&p, door, &key, GROUP, 1);
    expect_peer(&p, door);
    tdmi_tcp_hello hello;
    int none;
    for (int i = 0; i < 100 && lines < 4; i++)
        assert_int_equal(tdmi_tcp_door_next(door, tdmi_deadline_in(0.1), &hello, &none), TDM_ERR_TIMEOUT);
    assert_int_equal(lines, 4);
    assert_non_null(strstr(last_line, "dropped a connection from 127.0.0.1 to rank 1"));
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    tdmi_tcp_door_close(door);
}

static void those_who_say_nothing_hold_up_nobody(void **state)
{
    (void)state;
    tdmi_tcp_door *door = open_door();
    int fd[SILENT];
    for (int i = 0; i < 20; i++)
        fd[i] = visit(door);
    peer p;
    const int64_t start_ns = tdmi_now_ns();
    start_peer(&p, door, &key, GROUP, 1);
    expect_peer(&p, door);
    assert_true(tdmi_now_ns() - start_ns < TDMI_AUTH_STRANGER_MS * TDMI_NS_PER_MS * 10); /* not 20 seconds */
    for (int i = 20; i < SILENT; i++)
        fd[i] = visit(door);
    start_peer(&p, door, &key, GROUP, 1); /* its turn comes when the time of the first is over */
    expect_peer(&p, door);
    assert_true(lines > 0 && lines <= 16);
    assert_non_null(strstr(last_line, "did not prove within 1000 ms"));
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);
    tdmi_tcp_door_close(door);
}

static void another_secret_group_or_rank_is_refused(void **state)
{
    (void)state;
    tdmi_tcp_door *door = open_door();
    peer wrong[3], right;
    start_peer(&wrong[0], door, &other_key, GROUP, 1);
    start_peer(&wrong[1], door, &key, GROUP + 1, 1);
    start_peer(&wrong[2], door, &key, GROUP, 2);
    tdmi_tcp_hello hello;
    int none;
    for (int i = 0; i < 100 && lines < 3; i++)
        assert_int_equal(tdmi_tcp_door_next(door, tdmi_deadline_in(0.1), &hello, &none), TDM_ERR_TIMEOUT);
    for (int i = 0; i < 3; i++) {
        pthread_join(wrong[i].thread, NULL);
        assert_int_equal(wrong[i].status, i == 0 ? TDM_ERR_AUTH : TDM_ERR_PEER_LOST);
    }
    assert_int_equal(lines, 3);
    start_peer(&right, door, &key, GROUP, 1);
    expect_peer(&right, door);
    tdmi_tcp_door_close(door);
}

static void hellos_out_of_range_are_refused(void **state)
{
    (void)state;
    const tdmi_tcp_hello good = {.group = GROUP, .from = 5, .to = 1, .purpose = TDMI_TCP_CONTROL, .stream = TDMI_TCP_STREAMS_MAX - 1};
    uint8_t bytes[TDMI_TCP_HELLO_BYTES];
    tdmi_tcp_hello read;
    tdmi_tcp_hello_write(&good, bytes);
    assert_int_equal(tdmi_tcp_hello_read(bytes, &read), TDM_OK);
    assert_true(read.group == GROUP && read.from == 5 && read.to == 1 && read.purpose == TDMI_TCP_CONTROL &&
                read.stream == TDMI_TCP_STREAMS_MAX - 1);
    static const int at[] = {0, 4, 19, 23, 24, 27, 28, 31}; /* magic, version, the signs of the ranks, purpose, stream */
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        tdmi_tcp_hello_write(&good, bytes);
        bytes[at[i]] = 0xff;
        assert_int_equal(tdmi_tcp_hello_read(bytes, &read), TDM_ERR_AUTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_gets_in_and_says_what_for),
        cmocka_unit_test(garbage_is_dropped_and_logged),
        cmocka_unit_test(those_who_say_nothing_hold_up_nobody),
        cmocka_unit_test(another_secret_group_or_rank_is_refused),
        cmocka_unit_test(hellos_out_of_range_are_refused),
    };
    tdmi_auth_key_init(&key, "one");
    tdmi_auth_key_init(&other_key, "another");
    tdmi_log_set_sink(note, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
