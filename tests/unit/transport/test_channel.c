/* test_channel.c - calls over links: tcp sockets and rings, in pieces of any size, and what broken ends do. */
#include "transport/channel.h"

#include "core/memory.h"
#include "transport/shm/ring.h"
#include "transport/tcp/tcp.h"
#include "transport/ucx/ucx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define STREAMS 3

static const tdmi_label no_label;

/* Two ends of one link in this process. */
typedef struct ends {
    tdmi_channel *a, *b;
    int raw; /* tcp: end a is this socket instead of a channel; -1 */
    tdmi_node *node;
    tdmi_ucx_port *port[2];
} ends;

static void open_tcp(ends *e, int streams, bool raw)
{
    int a[STREAMS], b[STREAMS];
    tdmi_link *link;
    *e = (ends){.raw = -1};
    for (int i = 0; i < streams; i++) {
        int fd[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        a[i] = fd[0];
        b[i] = fd[1];
    }
    if (raw) {
        e->raw = a[0];
    } else {
        assert_int_equal(tdmi_tcp_link_create(a, streams, &link), TDM_OK);
        assert_int_equal(tdmi_channel_create(link, &e->a), TDM_OK);
    }
    assert_int_equal(tdmi_tcp_link_create(b, streams, &link), TDM_OK);
    assert_int_equal(tdmi_channel_create(link, &e->b), TDM_OK);
}

static void open_ring(ends *e)
{
    void *space;
    tdmi_link *link;
    *e = (ends){.raw = -1};
    assert_int_equal(tdmi_node_create(0, 1, 64 << 20, &e->node), TDM_OK);
    assert_int_equal(tdmi_arena_reserve(tdmi_node_arena(e->node, 0), 2 * TDMI_RING_BYTES, &space), TDM_OK);
    char *first = space, *second = first + TDMI_RING_BYTES;
    tdmi_ring_clear(first);
    tdmi_ring_clear(second);
    assert_int_equal(tdmi_ring_link_create(e->node, 0, first, second, &link), TDM_OK);
    assert_int_equal(tdmi_channel_create(link, &e->a), TDM_OK);
    assert_int_equal(tdmi_ring_link_create(e->node, 0, second, first, &link), TDM_OK);
    assert_int_equal(tdmi_channel_create(link, &e->b), TDM_OK);
}

#ifdef TDMI_HAVE_UCX
static void open_ucx(ends *e)
{
    tdmi_link *link[2];
    bool missing[2], greeted[2] = {false, false};
    *e = (ends){.raw = -1};
    for (int i = 0; i < 2; i++)
        assert_int_equal(tdmi_ucx_port_open(i, 2, &e->port[i]), TDM_OK);
    for (int i = 0; i < 2; i++) {
        size_t nbytes;
        const void *address = tdmi_ucx_port_address(e->port[1 - i], &nbytes);
        assert_int_equal(tdmi_ucx_link_create(e->port[i], 1 - i, TDMI_UCX_MESSAGES, address, nbytes, &link[i]), TDM_OK);
    }
    for (int i = 0; !greeted[0] || !greeted[1]; i = 1 - i)
        assert_int_equal(tdmi_ucx_port_greet(e->port[i], missing, &greeted[i]), TDM_OK);
    assert_int_equal(tdmi_channel_create(link[0], &e->a), TDM_OK);
    assert_int_equal(tdmi_channel_create(link[1], &e->b), TDM_OK);
}
#endif

static void close_ends(ends *e)
{
    tdmi_channel_destroy(e->a);
    tdmi_channel_destroy(e->b);
    tdmi_ucx_port_close(e->port[0]);
    tdmi_ucx_port_close(e->port[1]);
    if (e->raw >= 0)
        close(e->raw);
    tdmi_node_destroy(e->node);
    assert_int_equal(tdmi_memory_held(), 0);
}

/* Moves nbytes of call `number` from one end to the other, the receiver asking for at most `step` bytes at a time. */
static void move(tdmi_channel *from, tdmi_channel *to, uint64_t number, size_t nbytes, size_t step)
{
    uint8_t signature[TDMI_CHANNEL_SIGNATURE];
    char *out = malloc(nbytes + 1), *in = malloc(nbytes + 1);
    size_t sent = 0, got = 0, idle = 0;
    bool flushed = false, came = false;
    memset(signature, (int)number, sizeof signature);
    for (size_t i = 0; i < nbytes; i++)
        out[i] = (char)(i * 31 + number);
    char text[2 * TDMI_LABEL_BYTES];
    memset(text, (int)('a' + number % 26), sizeof text);
    text[number * 11 % (TDMI_LABEL_BYTES + 10)] = '\0';
    tdmi_label label = {0};
    tdmi_label_set(&label, text);
    tdmi_channel_sign(from, number, signature, &label);
    while (got < nbytes || !came || !flushed) {
        size_t moved = 0, more = 0;
        assert_int_equal(tdmi_channel_send(from, number, out + sent, nbytes - sent, &moved), TDM_OK);
        sent += moved;
        assert_int_equal(tdmi_channel_flush(from, &flushed), TDM_OK);
        assert_int_equal(tdmi_channel_hear(to, number, &came), TDM_OK);
        if (came) {
            size_t left = nbytes - got;
            assert_int_equal(tdmi_channel_receive(to, number, in + got, left < step ? left : step, &more), TDM_OK);
            got += more;
        }
        idle = moved + more > 0 ? 0 : idle + 1;
        assert_true(idle < (from->link->ops->flush != NULL ? 1000000 : 100)); /* what is on its way in a kernel takes its time */
    }
    assert_memory_equal(in, out, nbytes);
    assert_memory_equal(to->signature, signature, sizeof signature);
    assert_string_equal(to->label, label.text);
    free(out);
    free(in);
}

static void move_all(ends *e)
{
    static const size_t sizes[] = {0, 1, 15, 16, 4095, 4096, 4097, 8192, 100000, 262144, 262145, 1500000};
    uint64_t number = 0, payload = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t step = 7; step < 10000000; step *= 113) {
            if (sizes[i] / step > 20000)
                continue;
            number++;
            move(e->a, e->b, number, sizes[i], step);
            move(e->b, e->a, number, sizes[i], step);
            payload += sizes[i];
        }
    assert_int_equal(e->a->payload_sent, payload);
    assert_int_equal(e->b->payload_sent, payload);
}

static void bytes_arrive_whole_over_sockets_and_rings(void **state)
{
    (void)state;
    ends e;
    open_tcp(&e, 1, false);
    move_all(&e);
    close_ends(&e);
    for (int streams = 2; streams <= STREAMS; streams++) {
        open_tcp(&e, streams, false);
        for (int i = 0; i < streams; i++)
            assert_true(e.a->link->ops->fd(e.a->link, i) >= 0);
        assert_int_equal(e.a->link->ops->fd(e.a->link, streams), -1);
        move_all(&e);
        close_ends(&e);
    }
    open_ring(&e);
    move_all(&e);
    close_ends(&e);
}

#ifdef TDMI_HAVE_UCX
static void bytes_arrive_whole_over_ucx(void **state)
{
    (void)state;
    ends e;
    open_ucx(&e);
    move_all(&e);
    close_ends(&e);
}

static void what_ucx_took_before_a_close_still_arrives(void **state)
{
    (void)state;
    ends e;
    uint8_t signature[TDMI_CHANNEL_SIGNATURE] = {9};
    static char out[60000], in[60000];
    bool came = false;
    size_t moved, got = 0;
    memset(out, 'x', sizeof out);
    open_ucx(&e);
    tdmi_channel_sign(e.a, 1, signature, &no_label);
    assert_int_equal(tdmi_channel_send(e.a, 1, out, sizeof out, &moved), TDM_OK);
    assert_int_equal(moved, sizeof out);
    tdmi_channel_destroy(e.a);
    tdmi_ucx_port_close(e.port[0]);
    e.a = NULL;
    e.port[0] = NULL;
    while (!came)
        assert_int_equal(tdmi_channel_hear(e.b, 1, &came), TDM_OK);
    for (; got < sizeof in; got += moved)
        assert_int_equal(tdmi_channel_receive(e.b, 1, in + got, sizeof in - got, &moved), TDM_OK);
    assert_memory_equal(in, out, sizeof in);
    tdm_status status = TDM_OK;
    while (status == TDM_OK)
        status = tdmi_channel_receive(e.b, 1, in, 1, &moved);
    assert_int_equal(status, TDM_ERR_PEER_LOST);
    close_ends(&e);
}
#endif

static void a_signature_of_a_later_call_waits_its_turn(void **state)
{
    (void)state;
    ends e;
    uint8_t one[TDMI_CHANNEL_SIGNATURE] = {1}, two[TDMI_CHANNEL_SIGNATURE] = {2};
    bool flushed, came;
    size_t moved;
    char byte;
    open_tcp(&e, 1, false);
    tdmi_channel_sign(e.a, 1, one, &no_label);
    assert_int_equal(tdmi_channel_send(e.a, 1, "x", 1, &moved), TDM_OK);
    tdmi_channel_sign(e.a, 2, two, &no_label);
    assert_int_equal(tdmi_channel_flush(e.a, &flushed), TDM_OK);
    assert_int_equal(tdmi_channel_hear(e.b, 1, &came), TDM_OK);
    assert_true(came && e.b->signature[0] == 1);
    assert_int_equal(tdmi_channel_receive(e.b, 1, &byte, 1, &moved), TDM_OK);
    assert_true(moved == 1 && byte == 'x');
    assert_int_equal(tdmi_channel_receive(e.b, 1, &byte, 1, &moved), TDM_OK);
    assert_true(moved == 0 && e.b->signature[0] == 1);
    assert_int_equal(tdmi_channel_hear(e.b, 2, &came), TDM_OK);
    assert_true(came && e.b->signature[0] == 2);
    close_ends(&e);
}

static void what_was_sent_before_a_close_still_arrives(void **state)
{
    (void)state;
    for (int streams = 1; streams <= STREAMS; streams++) {
        const size_t nbytes = TDMI_TCP_STRIPE * 2; /* ends on the last of three streams */
        char *out = calloc(1, nbytes), *in = malloc(nbytes + 1);
        uint8_t signature[TDMI_CHANNEL_SIGNATURE] = {9};
        bool came = false;
        size_t sent = 0, got = 0, moved;
        ends e;
        open_tcp(&e, streams, false);
        for (size_t i = 0; i < nbytes; i++)
            out[i] = (char)(i * 7);
        tdmi_channel_sign(e.a, 1, signature, &no_label);
        while (sent < nbytes) { /* the last bytes are in the kernel when the sender closes */
            assert_int_equal(tdmi_channel_send(e.a, 1, out + sent, nbytes - sent, &moved), TDM_OK);
            sent += moved;
            assert_int_equal(tdmi_channel_hear(e.b, 1, &came), TDM_OK);
            if (sent == nbytes)
                break;
            assert_int_equal(tdmi_channel_receive(e.b, 1, in + got, nbytes - got, &moved), TDM_OK);
            got += moved;
        }
        tdmi_channel_destroy(e.a);
        e.a = NULL;
        assert_true(got < nbytes);
        while (got < nbytes) {
            assert_int_equal(tdmi_channel_receive(e.b, 1, in + got, nbytes - got, &moved), TDM_OK);
            got += moved;
        }
        assert_memory_equal(in, out, nbytes);
        assert_int_equal(tdmi_channel_receive(e.b, 1, in, 1, &moved), TDM_ERR_PEER_LOST);
        close_ends(&e);
        free(out);
        free(in);
    }
}

static void bytes_that_are_no_frame_are_an_error(void **state)
{
    (void)state;
    static const uint8_t bad[][TDMI_FRAME_HEAD] = {
        {0}, {99}, {TDMI_FRAME_DATA, 1, 0, 0, 5}, {TDMI_FRAME_DATA, 0, 0, 0, 0}, {TDMI_FRAME_DATA, 0, 0, 0, 0, 0, 0, 1},
        {TDMI_FRAME_SIGNATURE, 0, 0, 0, 15}, {TDMI_FRAME_GOODBYE}, {TDMI_FRAME_FAILURE, 0, 0, 0, 4}, {TDMI_FRAME_ARRIVED},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ends e;
        bool came;
        open_tcp(&e, 1, true);
        assert_int_equal(write(e.raw, bad[i], sizeof bad[i]), sizeof bad[i]);
        assert_int_equal(tdmi_channel_hear(e.b, 1, &came), TDM_ERR_PEER_LOST);
        close_ends(&e);
    }
}

static void data_of_another_call_is_an_error(void **state)
{
    (void)state;
    ends e;
    uint8_t signature[TDMI_CHANNEL_SIGNATURE] = {0};
    bool came;
    size_t moved;
    char byte;
    open_tcp(&e, 1, false);
    tdmi_channel_sign(e.a, 1, signature, &no_label);
    assert_int_equal(tdmi_channel_send(e.a, 2, "x", 1, &moved), TDM_OK);
    assert_int_equal(tdmi_channel_hear(e.b, 1, &came), TDM_OK);
    assert_int_equal(tdmi_channel_receive(e.b, 1, &byte, 1, &moved), TDM_ERR_INTERNAL);
    close_ends(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_whole_over_sockets_and_rings),
#ifdef TDMI_HAVE_UCX
        cmocka_unit_test(bytes_arrive_whole_over_ucx),
        cmocka_unit_test(what_ucx_took_before_a_close_still_arrives),
#endif
        cmocka_unit_test(a_signature_of_a_later_call_waits_its_turn),
        cmocka_unit_test(what_was_sent_before_a_close_still_arrives),
        cmocka_unit_test(bytes_that_are_no_frame_are_an_error),
        cmocka_unit_test(data_of_another_call_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
