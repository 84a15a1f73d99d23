/* test_socket.c - listening, connecting and moving bytes under deadlines. */
#include "store/socket.h"

#include "core/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void both_ends_of_a_connection_move_exact_counts(void **state)
{
    (void)state;
    int listener, port, a;
    assert_int_equal(tdmi_socket_listen(NULL, 0, &listener, &port), TDM_OK);
    assert_int_equal(tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(5), &a), TDM_OK);
    int b = accept(listener, NULL, NULL);
    assert_int_equal(tdmi_socket_send_all(a, "hello", 5, tdmi_deadline_in(5), "b"), TDM_OK);
    char got[6] = "";
    assert_int_equal(tdmi_socket_receive_all(b, got, 5, tdmi_deadline_in(5), "a"), TDM_OK);
    assert_string_equal(got, "hello");
    assert_int_equal(tdmi_socket_receive_all(b, got, 1, tdmi_deadline_in(0.05), "rank 7"), TDM_ERR_TIMEOUT);
    assert_non_null(strstr(tdm_error_text(), "rank 7"));
    close(a);
    assert_int_equal(tdmi_socket_receive_all(b, got, 1, tdmi_deadline_in(5), "rank 7"), TDM_ERR_PEER_LOST);
    close(b);
    close(listener);
}

static void a_full_connection_times_out_instead_of_blocking(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    size_t nbytes = 16u << 20;
    void *bytes = calloc(1, nbytes);
    assert_int_equal(tdmi_socket_send_all(pair[0], bytes, nbytes, tdmi_deadline_in(0.1), "rank 3"), TDM_ERR_TIMEOUT);
    free(bytes);
    close(pair[0]);
    close(pair[1]);
}

static void a_taken_port_is_one_line_with_port_and_pid(void **state)
{
    (void)state;
    int fd, port, other, other_port;
    assert_int_equal(tdmi_socket_listen(NULL, 0, &fd, &port), TDM_OK);
    assert_int_equal(tdmi_socket_listen(NULL, port, &other, &other_port), TDM_ERR_ADDRESS_IN_USE);
    char expected[64];
    snprintf(expected, sizeof expected, "port %d is taken by pid %d (", port, (int)getpid());
    assert_ptr_equal(strstr(tdm_error_text(), expected), tdm_error_text());
    assert_null(strchr(tdm_error_text(), '\n'));
    close(fd);
}

static void a_port_can_be_used_again_at_once(void **state)
{
    (void)state;
    int listener, port, a;
    assert_int_equal(tdmi_socket_listen(NULL, 0, &listener, &port), TDM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(5), &a), TDM_OK);
        int b = accept(listener, NULL, NULL);
        close(b); /* the listening side closes first: its end goes to TIME_WAIT */
        close(listener);
        close(a);
        assert_int_equal(tdmi_socket_listen(NULL, port, &listener, &port), TDM_OK);
    }
    close(listener);
}

static void nobody_listening_is_a_timeout_that_names_the_address(void **state)
{
    (void)state;
    int fd, port;
    assert_int_equal(tdmi_socket_listen(NULL, 0, &fd, &port), TDM_OK);
    close(fd);
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(0.2), &fd), TDM_ERR_TIMEOUT);
    assert_in_range(tdmi_now_ns() - start_ns, 190 * TDMI_NS_PER_MS, 1500 * TDMI_NS_PER_MS);
    assert_non_null(strstr(tdm_error_text(), "127.0.0.1"));
}

static void *listen_later(void *arg)
{
    int port = *(int *)arg, fd;
    usleep(100000);
    if (tdmi_socket_listen("127.0.0.1", port, &fd, &port) != TDM_OK)
        return NULL;
    int b = accept(fd, NULL, NULL);
    close(b);
    close(fd);
    return arg;
}

static void connecting_waits_for_a_listener_that_comes_late(void **state)
{
    (void)state;
    int fd, port;
    assert_int_equal(tdmi_socket_listen("127.0.0.1", 0, &fd, &port), TDM_OK);
    close(fd);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, listen_later, &port), 0);
    tdm_status status = tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(10), &fd);
    void *listened;
    pthread_join(thread, &listened);
    assert_non_null(listened);
    assert_int_equal(status, TDM_OK);
    close(fd);
}

static void numbers_are_used_as_given_and_ports_are_checked(void **state)
{
    (void)state;
    int fd, port;
    assert_int_equal(tdmi_socket_connect("127.0.0.1", 0, tdmi_deadline_in(1), &fd), TDM_ERR_INVALID);
    assert_int_equal(tdmi_socket_connect("127.0.0.1", 70000, tdmi_deadline_in(1), &fd), TDM_ERR_INVALID);
    assert_int_equal(tdmi_socket_listen(NULL, -5, &fd, &port), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "-5"));
}

static void loopback_addresses_are_known_without_a_look_up(void **state)
{
    (void)state;
    static const char *const yes[] = {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "localhost"};
    static const char *const no[] = {"10.0.0.1", "::", "0.0.0.0", "node1", "128.0.0.1", "fe80::1"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(tdmi_socket_is_loopback(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(tdmi_socket_is_loopback(no[i]));
}

static void the_local_address_is_written_as_plain_ipv4(void **state)
{
    (void)state;
    int listener, port, a;
    assert_int_equal(tdmi_socket_listen(NULL, 0, &listener, &port), TDM_OK);
    assert_int_equal(tdmi_socket_connect("127.0.0.1", port, tdmi_deadline_in(5), &a), TDM_OK);
    int b = accept(listener, NULL, NULL); /* an IPv6 socket where there is IPv6 */
    char text[64];
    assert_int_equal(tdmi_socket_local_address(b, text, sizeof text), TDM_OK);
    assert_string_equal(text, "127.0.0.1");
    close(a);
    close(b);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_of_a_connection_move_exact_counts),
        cmocka_unit_test(a_full_connection_times_out_instead_of_blocking),
        cmocka_unit_test(a_taken_port_is_one_line_with_port_and_pid),
        cmocka_unit_test(a_port_can_be_used_again_at_once),
        cmocka_unit_test(nobody_listening_is_a_timeout_that_names_the_address),
        cmocka_unit_test(connecting_waits_for_a_listener_that_comes_late),
        cmocka_unit_test(numbers_are_used_as_given_and_ports_are_checked),
        cmocka_unit_test(loopback_addresses_are_known_without_a_look_up),
        cmocka_unit_test(the_local_address_is_written_as_plain_ipv4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
