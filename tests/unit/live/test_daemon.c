/* test_daemon.c - a client at the daemon's socket: answers, requests, strangers, files left behind. */
#include "live/daemon.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static int asked;

static bool rank_3_belongs(const tdmi_poll *poll, int *rank_out, void *arg)
{
    (void)arg;
    asked++;
    *rank_out = 3;
    return poll->pids[1] != 666;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-daemon-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder); /* nothing may be left in it */
}

static tdmi_daemon opened(void)
{
    tdmi_daemon daemon;
    assert_int_equal(tdmi_daemon_open(folder, &daemon), TDM_OK);
    daemon.belongs = rank_3_belongs;
    asked = 0;
    return daemon;
}

static int client_socket(const char *name)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX}, theirs = {.sun_family = AF_UNIX};
    snprintf(own.sun_path, sizeof own.sun_path, "%s/%s", folder, name);
    snprintf(theirs.sun_path, sizeof theirs.sun_path, "%s/dynolog", folder);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&theirs, sizeof theirs), 0);
    return fd;
}

static void send_poll(int fd, int mask, pid_t pid, pid_t parent)
{
    uint8_t bytes[64] = {24, 0, 0, 0, 0, 0, 0, 0, 'r', 'e', 'q'};
    const int32_t words[] = {mask, 2, 0, 0, pid, parent};
    memcpy(bytes + 40, words, sizeof words);
    assert_int_equal(send(fd, bytes, sizeof bytes, 0), sizeof bytes);
}

/* The text of the answer; NULL: there is none. */
static const char *answer(int fd)
{
    static char bytes[8192];
    const ssize_t got = recv(fd, bytes, sizeof bytes - 1, 0);
    if (got < 0)
        return NULL;
    assert_true(got >= TDMI_MESSAGE_HEAD);
    bytes[got] = '\0';
    return bytes + TDMI_MESSAGE_HEAD;
}

static void every_poll_is_answered_and_a_request_is_given_once(void **state)
{
    (void)state;
    tdmi_daemon daemon = opened();
    const int fd = client_socket("dynoconfigclient1");
    send_poll(fd, 3, getpid(), 1);
    tdmi_daemon_serve(&daemon);
    assert_string_equal(answer(fd), "");
    tdmi_client *client = tdmi_clients_find(&daemon.clients, getpid());
    assert_non_null(client);
    assert_int_equal(client->rank, 3);
    client->request = "A=1\n";
    send_poll(fd, 1, getpid(), 1); /* it traces: held back */
    tdmi_daemon_serve(&daemon);
    assert_string_equal(answer(fd), "");
    assert_int_equal(client->taken_ns, 0);
    send_poll(fd, 3, getpid(), 1);
    tdmi_daemon_serve(&daemon);
    assert_string_equal(answer(fd), "A=1\n");
    assert_true(client->taken_ns > 0);
    send_poll(fd, 3, getpid(), 1);
    tdmi_daemon_serve(&daemon);
    assert_string_equal(answer(fd), "");
    assert_int_equal(asked, 1);
    close(fd);
    tdmi_daemon_close(&daemon);
}

static void polls_that_waited_too_long_are_noted_and_not_answered(void **state)
{
    (void)state;
    tdmi_daemon daemon = opened();
    const int fd = client_socket("dynoconfigclient1");
    send_poll(fd, 3, getpid(), 1);
    nanosleep(&(struct timespec){.tv_nsec = 90000000}, NULL);
    tdmi_daemon_serve(&daemon);
    assert_null(answer(fd));
    assert_int_equal(daemon.clients.count, 1);
    close(fd);
    tdmi_daemon_close(&daemon);
}

static void who_says_to_be_another_process_is_not_heard(void **state)
{
    (void)state;
    tdmi_daemon daemon = opened();
    const int fd = client_socket("dynoconfigclient1");
    send_poll(fd, 3, getppid(), 1);
    tdmi_daemon_serve(&daemon);
    assert_null(answer(fd));
    assert_int_equal(daemon.clients.count, 0);
    close(fd);
    tdmi_daemon_close(&daemon);
}

static void processes_of_other_jobs_are_answered_and_not_kept(void **state)
{
    (void)state;
    tdmi_daemon daemon = opened();
    const int fd = client_socket("dynoconfigclient1");
    send_poll(fd, 3, getpid(), 666);
    tdmi_daemon_serve(&daemon);
    assert_string_equal(answer(fd), "");
    assert_int_equal(daemon.clients.count, 0);
    close(fd);
    tdmi_daemon_close(&daemon);
}

static void a_client_that_reads_nothing_keeps_its_request(void **state)
{
    (void)state;
    tdmi_daemon daemon = opened();
    const int fd = client_socket("dynoconfigclient1");
    send_poll(fd, 3, getpid(), 1);
    tdmi_daemon_serve(&daemon);
    for (int sent = 0; sent < 2000; sent++) { /* until its queue is full */
        send_poll(fd, 3, getpid(), 1);
        tdmi_daemon_serve(&daemon);
    }
    tdmi_client *client = tdmi_clients_find(&daemon.clients, getpid());
    client->request = "A=1\n";
    send_poll(fd, 3, getpid(), 1);
    tdmi_daemon_serve(&daemon);
    assert_non_null(client->request);
    assert_int_equal(client->taken_ns, 0);
    close(fd);
    tdmi_daemon_close(&daemon);
}

static void a_second_daemon_is_told_of_the_first(void **state)
{
    (void)state;
    tdmi_daemon daemon = opened(), second;
    assert_int_equal(tdmi_daemon_open(folder, &second), TDM_ERR_EXISTS);
    assert_non_null(strstr(tdm_error_text(), folder));
    tdmi_daemon_close(&daemon);
}

static void the_socket_of_a_daemon_that_was_killed_is_taken_over(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        tdmi_daemon left;
        _exit(tdmi_daemon_open(folder, &left) == TDM_OK ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    tdmi_daemon daemon = opened();
    tdmi_daemon_close(&daemon);
}

static void folders_that_are_too_long_for_the_profiler_are_refused(void **state)
{
    (void)state;
    tdmi_daemon daemon;
    assert_int_equal(tdmi_daemon_open("/tmp/a-folder-with-a-name-that-has-55-bytes-in-it-altogether", &daemon), TDM_ERR_INVALID);
}

static void socket_files_of_clients_that_live_stay(void **state)
{
    (void)state;
    char path[128];
    tdmi_daemon daemon = opened();
    const int fd = client_socket("dynoconfigclient1"), dead = client_socket("dynoconfigclient2");
    close(dead);
    tdmi_daemon_close(&daemon);
    snprintf(path, sizeof path, "%s/dynoconfigclient1", folder);
    assert_int_equal(unlink(path), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_poll_is_answered_and_a_request_is_given_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(polls_that_waited_too_long_are_noted_and_not_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_says_to_be_another_process_is_not_heard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(processes_of_other_jobs_are_answered_and_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_reads_nothing_keeps_its_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_daemon_is_told_of_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_socket_of_a_daemon_that_was_killed_is_taken_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_that_are_too_long_for_the_profiler_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(socket_files_of_clients_that_live_stay, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
