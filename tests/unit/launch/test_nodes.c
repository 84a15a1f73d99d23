/* test_nodes.c - launchers as threads of this process meet over the loopback. */
#include "launch/nodes.h"

#include "core/clock.h"
#include "store/socket.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NODES_MAX 4
static char address[64];

typedef struct node {
    tdmi_job_shape shape;
    double timeout_s;
    tdmi_nodes *nodes;
    tdm_status status;
    char text[TDMI_ERROR_TEXT_MAX];
} node;

static void *meet(void *arg)
{
    node *n = arg;
    n->status = tdmi_nodes_meet(address, n->timeout_s, &n->shape, &n->nodes);
    memcpy(n->text, tdm_error_text(), sizeof n->text);
    return NULL;
}

static void meet_all(node *nodes, int count)
{
    pthread_t threads[NODES_MAX];
    int fd, port;
    assert_int_equal(tdmi_socket_listen("127.0.0.1", 0, &fd, &port), TDM_OK);
    close(fd);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    for (int i = count - 1; i >= 0; i--) /* node 0 comes last */
        assert_int_equal(pthread_create(&threads[i], NULL, meet, &nodes[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static node make_node(int rank, int count, int local_size)
{
    node n = {.shape = {.node_rank = rank, .nodes = count, .local_size = local_size}, .timeout_s = 5};
    if (rank == 0) {
        n.shape.master_port = 4711;
        strcpy(n.shape.job_id, "job");
    }
    return n;
}

static void *leave(void *nodes)
{
    tdmi_nodes_leave(nodes);
    return NULL;
}

static void leave_all(node *nodes, int count)
{
    pthread_t threads[NODES_MAX];
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, leave, nodes[i].nodes), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static bool has_ended(const node *n, int timeout_ms)
{
    struct pollfd item = {.fd = tdmi_nodes_event(n->nodes), .events = POLLIN};
    return poll(&item, 1, timeout_ms) == 1;
}

static void ranks_are_numbered_in_the_order_of_nodes(void **state)
{
    (void)state;
    node n[3] = {make_node(0, 3, 2), make_node(1, 3, 1), make_node(2, 3, 4)};
    meet_all(n, 3);
    static const int first[] = {0, 2, 3};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(n[i].status, TDM_OK);
        assert_int_equal(n[i].shape.size, 7);
        assert_int_equal(n[i].shape.first_rank, first[i]);
        assert_int_equal(n[i].shape.master_port, 4711);
        assert_string_equal(n[i].shape.master_address, "127.0.0.1");
        assert_string_equal(n[i].shape.job_id, "job");
    }
    tdmi_nodes_done(n[0].nodes);
    tdmi_nodes_done(n[2].nodes);
    assert_false(has_ended(&n[1], 50)); /* one is not done */
    tdmi_nodes_done(n[1].nodes);
    for (int i = 0; i < 3; i++) {
        int code;
        bool ours;
        assert_true(has_ended(&n[i], 3000));
        tdmi_nodes_end(n[i].nodes, &code, &ours);
        assert_int_equal(code, 0);
    }
    leave_all(n, 3);
}

static void the_first_announcement_ends_all_nodes(void **state)
{
    (void)state;
    node n[2] = {make_node(0, 2, 1), make_node(1, 2, 1)};
    meet_all(n, 2);
    tdmi_nodes_announce(n[1].nodes, 9, "rank 1 failed");
    tdmi_nodes_announce(n[0].nodes, 5, "too late");
    for (int i = 0; i < 2; i++) {
        int code;
        bool ours;
        assert_true(has_ended(&n[i], 3000));
        assert_string_equal(tdmi_nodes_end(n[i].nodes, &code, &ours), "rank 1 failed");
        assert_int_equal(code, 9);
        assert_int_equal(ours, i == 1);
    }
    leave_all(n, 2);
}

static void two_nodes_of_one_number_are_an_error(void **state)
{
    (void)state;
    node n[3] = {make_node(0, 2, 1), make_node(1, 2, 1), make_node(1, 2, 1)};
    meet_all(n, 3);
    assert_int_equal(n[0].status, TDM_OK);
    int wrong = n[1].status != TDM_OK ? 1 : 2;
    assert_int_equal(n[wrong].status, TDM_ERR_INVALID);
    assert_int_equal(n[3 - wrong].status, TDM_OK);
    assert_non_null(strstr(n[wrong].text, "two nodes with --node-rank 1"));
    assert_false(has_ended(&n[0], 50)); /* the superfluous one disturbs nobody */
    n[1] = n[3 - wrong];
    tdmi_nodes_announce(n[0].nodes, 0, "enough");
    leave_all(n, 2);
}

static void different_counts_of_nodes_are_an_error(void **state)
{
    (void)state;
    node n[2] = {make_node(0, 2, 1), make_node(1, 3, 1)};
    n[1].timeout_s = n[0].timeout_s = 1;
    meet_all(n, 2);
    assert_int_equal(n[0].status, TDM_ERR_MISMATCH);
    assert_non_null(strstr(n[0].text, "--nnodes 3"));
    assert_int_not_equal(n[1].status, TDM_OK);
}

static void missing_nodes_are_all_named(void **state)
{
    (void)state;
    node n[2] = {make_node(0, 4, 1), make_node(2, 4, 1)};
    n[0].timeout_s = n[1].timeout_s = 0.5;
    meet_all(n, 2);
    assert_int_equal(n[0].status, TDM_ERR_TIMEOUT);
    assert_non_null(strstr(n[0].text, "nodes 1, 3 of 4 did not come"));
}

static void addresses_are_host_and_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {{"10.0.0.1:29400", "10.0.0.1", 29400}, {"node-1:1", "node-1", 1}, {"[fe80::1]:65535", "fe80::1", 65535}};
    static const char *const bad[] = {"", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "[]:5", "host:-1"};
    char host[256];
    int port;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(tdmi_nodes_parse_address(good[i].text, host, &port), TDM_OK);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tdmi_nodes_parse_address(bad[i], host, &port), TDM_ERR_INVALID);
}

int main(void)
{
    setenv("TANDEM_JOB_SECRET", "s3", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_numbered_in_the_order_of_nodes),
        cmocka_unit_test(the_first_announcement_ends_all_nodes),
        cmocka_unit_test(two_nodes_of_one_number_are_an_error),
        cmocka_unit_test(different_counts_of_nodes_are_an_error),
        cmocka_unit_test(missing_nodes_are_all_named),
        cmocka_unit_test(addresses_are_host_and_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
