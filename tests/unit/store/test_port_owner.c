/* test_port_owner.c - the process that listens on a port is found. */
#include "store/port_owner.h"

#include "store/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_listener_of_this_process_is_named_with_its_pid(void **state)
{
    (void)state;
    int fd, port;
    assert_int_equal(tdmi_socket_listen("127.0.0.1", 0, &fd, &port), TDM_OK);
    char text[128], pid[32];
    tdmi_port_owner(port, text, sizeof text);
    snprintf(pid, sizeof pid, " by pid %d (", (int)getpid());
    assert_ptr_equal(strstr(text, pid), text);
    close(fd);
    tdmi_port_owner(port, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_of_this_process_is_named_with_its_pid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
