/* test_store_tcp.c - connections to the TCP store: secrets, strangers, servers and clients that go. */
#include "store/store.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "store/socket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static atomic_int warnings;

static void count_warning(tdmi_area area, tdmi_level level, const char *line, void *arg)
{
    (void)line, (void)arg;
    if (area == TDM_LOG_STORE && level == TDMI_LEVEL_WARN)
        atomic_fetch_add(&warnings, 1);
}

static tdm_store *open_server(void)
{
    tdm_store *server;
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", 0, true, "secret", 5, &server), TDM_OK);
    return server;
}

static void a_client_with_another_secret_is_told_so_at_once(void **state)
{
    (void)state;
    tdm_store *server = open_server(), *client;
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", tdm_store_port(server), false, "other", 30, &client), TDM_ERR_AUTH);
    assert_true(tdmi_now_ns() - start_ns < 2 * TDMI_NS_PER_S);
    assert_non_null(strstr(tdm_error_text(), "TANDEM_JOB_SECRET"));
    tdm_store_close(server);
}

static void an_empty_secret_is_refused_off_the_loopback(void **state)
{
    (void)state;
    tdm_store *store;
    unsetenv("TANDEM_JOB_SECRET");
    assert_int_equal(tdm_store_open_tcp("10.1.2.3", 1234, false, NULL, 1, &store), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "TANDEM_JOB_SECRET"));
    assert_int_equal(tdm_store_open_tcp("0.0.0.0", 0, true, "", 1, &store), TDM_ERR_INVALID);
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", 0, true, NULL, 1, &store), TDM_OK);
    tdm_store_close(store);
    setenv("TANDEM_JOB_SECRET", "from the environment", 1);
    tdm_store *client;
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", 0, true, "from the environment", 1, &store), TDM_OK);
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", tdm_store_port(store), false, NULL, 1, &client), TDM_OK);
    unsetenv("TANDEM_JOB_SECRET");
    tdm_store_close(client);
    tdm_store_close(store);
}

static void strangers_are_dropped_and_members_notice_nothing(void **state)
{
    (void)state;
    tdm_store *server = open_server(), *client;
    int port = tdm_store_port(server);
    atomic_store(&warnings, 0);
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", port, false, "secret", 5, &client), TDM_OK);
    int silent, noisy;
    assert_int_equal(tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(5), &silent), TDM_OK);
    assert_int_equal(tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(5), &noisy), TDM_OK);
    static const char garbage[4096] = "\x16\x03\x01 no handshake of ours";
    assert_int_equal(tdmi_socket_send_all(noisy, garbage, sizeof garbage, tdmi_deadline_in(5), "server"), TDM_OK);
    char *value, byte;
    size_t nbytes;
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdmi_store_set(client, "k", "v", 1), TDM_OK); /* nobody waits for the strangers */
    assert_int_equal(tdmi_store_get(server, "k", tdmi_deadline_in(5), &value, &nbytes), TDM_OK);
    assert_true(tdmi_now_ns() - start_ns < 800 * TDMI_NS_PER_MS);
    tdmi_free(value);
    assert_int_equal(tdmi_socket_receive_all(silent, &byte, 1, tdmi_deadline_in(3), "server"), TDM_ERR_PEER_LOST);
    assert_int_equal(tdmi_socket_receive_all(noisy, &byte, 1, tdmi_deadline_in(3), "server"), TDM_ERR_PEER_LOST);
    close(silent);
    close(noisy);
    tdm_store_close(client);
    tdm_store_close(server);
    assert_int_equal(atomic_load(&warnings), 2);
}

static void *close_soon(void *arg)
{
    usleep(50000);
    tdm_store_close(arg);
    return NULL;
}

static void waits_end_at_once_when_the_server_goes(void **state)
{
    (void)state;
    tdm_store *server = open_server(), *client;
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", tdm_store_port(server), false, "secret", 5, &client), TDM_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_soon, server), 0);
    char *value;
    size_t nbytes;
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdmi_store_get(client, "k", tdmi_deadline_in(30), &value, &nbytes), TDM_ERR_PEER_LOST);
    assert_true(tdmi_now_ns() - start_ns < 2 * TDMI_NS_PER_S);
    assert_int_equal(tdmi_store_set(client, "k", "v", 1), TDM_ERR_PEER_LOST);
    assert_non_null(strstr(tdm_error_text(), "the store at 127.0.0.1"));
    pthread_join(thread, NULL);
    tdm_store_close(client);
}

static void a_will_tells_others_that_its_client_went(void **state)
{
    (void)state;
    tdm_store *server = open_server(), *client;
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", tdm_store_port(server), false, "secret", 5, &client), TDM_OK);
    assert_int_equal(tdmi_store_will(client, "end", "node 1 went", 11), TDM_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_soon, client), 0);
    char *value;
    size_t nbytes;
    assert_int_equal(tdmi_store_get(server, "end", tdmi_deadline_in(5), &value, &nbytes), TDM_OK);
    assert_string_equal(value, "node 1 went");
    tdmi_free(value);
    pthread_join(thread, NULL);
    tdm_store_close(server);
}

static void a_server_that_nobody_asks_uses_no_processor_time(void **state)
{
    (void)state;
    tdm_store *server = open_server(), *client;
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", tdm_store_port(server), false, "secret", 5, &client), TDM_OK);
    struct rusage before, after;
    char *value;
    size_t nbytes;
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(tdmi_store_get(client, "never", tdmi_deadline_in(0.5), &value, &nbytes), TDM_ERR_TIMEOUT);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_nvcsw - before.ru_nvcsw < 30); /* sleeps, not polls */
    tdm_store_close(client);
    tdm_store_close(server);
}

typedef struct burst {
    int port, wrong;
} burst;

static void *join_and_count(void *arg)
{
    burst *b = arg;
    tdm_store *client;
    int64_t sum;
    b->wrong = tdm_store_open_tcp("127.0.0.1", b->port, false, "secret", 10, &client) != TDM_OK;
    if (b->wrong)
        return NULL;
    b->wrong = tdmi_store_add(client, "n", 1, &sum) != TDM_OK;
    tdm_store_close(client);
    return NULL;
}

static void many_clients_join_at_once(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    tdm_store *server = open_server();
    burst bursts[COUNT];
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++) {
        bursts[i] = (burst){.port = tdm_store_port(server)};
        assert_int_equal(pthread_create(&threads[i], NULL, join_and_count, &bursts[i]), 0);
    }
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        wrong += bursts[i].wrong;
    }
    assert_int_equal(wrong, 0);
    int64_t sum;
    assert_int_equal(tdmi_store_add(server, "n", 0, &sum), TDM_OK);
    assert_int_equal(sum, COUNT);
    tdm_store_close(server);
}

static void stores_leave_no_memory_behind(void **state)
{
    (void)state;
    size_t held = tdmi_memory_held();
    tdm_store *server = open_server(), *client;
    char *value;
    size_t nbytes;
    assert_int_equal(tdm_store_open_tcp("127.0.0.1", tdm_store_port(server), false, "secret", 5, &client), TDM_OK);
    assert_int_equal(tdmi_store_set(client, "k", "v", 1), TDM_OK);
    assert_int_equal(tdmi_store_get(client, "missing", tdmi_deadline_in(0.01), &value, &nbytes), TDM_ERR_TIMEOUT);
    tdm_store_close(client);
    tdm_store_close(server);
    assert_int_equal(tdmi_memory_held(), held);
}

int main(void)
{
    tdmi_log_set_sink(count_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_with_another_secret_is_told_so_at_once),
        cmocka_unit_test(an_empty_secret_is_refused_off_the_loopback),
        cmocka_unit_test(strangers_are_dropped_and_members_notice_nothing),
        cmocka_unit_test(waits_end_at_once_when_the_server_goes),
        cmocka_unit_test(a_will_tells_others_that_its_client_went),
        cmocka_unit_test(a_server_that_nobody_asks_uses_no_processor_time),
        cmocka_unit_test(many_clients_join_at_once),
        cmocka_unit_test(stores_leave_no_memory_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
