/* test_port.c - a port is held for rank 0: nobody is given it, and rank 0 can still listen. */
#include "launch/port.h"

#include "core/clock.h"
#include "store/socket.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void rank_0_can_listen_on_a_held_port(void **state)
{
    (void)state;
    static const char *const hosts[] = {NULL, "127.0.0.1", "localhost"};
    int holder, port, listener, same, fd;
    assert_int_equal(tdmi_port_hold(0, &holder, &port), TDM_OK);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        assert_int_equal(tdmi_socket_listen(hosts[i], port, &listener, &same), TDM_OK);
        assert_int_equal(same, port);
        assert_int_equal(tdmi_socket_connect(hosts[i] != NULL ? hosts[i] : "127.0.0.1", port, tdmi_deadline_in(5), &fd), TDM_OK);
        close(fd);
        close(listener);
    }
    close(holder);
}

static void nobody_who_asks_for_a_free_port_gets_a_held_one(void **state)
{
    (void)state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    int holder, port, fds[3000], count = 0;
    assert_int_equal(tdmi_port_hold(0, &holder, &port), TDM_OK);
    /* The kernel proposes ports at random: a wrong rule would be hit by one of some thousand with fair chance, and a port next
     * to a held one (odd or even, as the kernel prefers) is as likely as any. */
    for (; count < 3000; count++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t length = sizeof address;
        int on = 1;
        fds[count] = socket(AF_INET, SOCK_STREAM, 0);
        if (fds[count] < 0)
            break;
        setsockopt(fds[count], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fds[count], (struct sockaddr *)&address, length) != 0 || getsockname(fds[count], (struct sockaddr *)&address, &length) != 0) {
            close(fds[count]);
            break;
        }
        assert_int_not_equal(ntohs(address.sin_port), port);
    }
    while (count > 0)
        close(fds[--count]);
    close(holder);
}

static void a_port_somebody_listens_on_is_refused_with_its_owner(void **state)
{
    (void)state;
    int listener, port, holder, held;
    char expected[64];
    assert_int_equal(tdmi_socket_listen(NULL, 0, &listener, &port), TDM_OK);
    assert_int_equal(tdmi_port_hold(port, &holder, &held), TDM_ERR_ADDRESS_IN_USE);
    snprintf(expected, sizeof expected, "port %d is taken by pid %d", port, (int)getpid());
    assert_ptr_equal(strstr(tdm_error_text(), expected), tdm_error_text());
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_can_listen_on_a_held_port),
        cmocka_unit_test(nobody_who_asks_for_a_free_port_gets_a_held_one),
        cmocka_unit_test(a_port_somebody_listens_on_is_refused_with_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
