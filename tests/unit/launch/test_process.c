/* test_process.c - what /proc says about processes. */
#include "launch/process.h"

#include "core/memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void nothing(int sig)
{
    (void)sig;
}

/* A child that starts a child in a POSIX session of its own, then both wait. Gives the child's pid; *grandchild its child's. */
static pid_t start_family(pid_t *grandchild)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t inner = fork();
        if (inner == 0)
            setsid();
        else if (write(ends[1], &inner, sizeof inner) != sizeof inner)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], grandchild, sizeof *grandchild), sizeof *grandchild);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static bool contains(const tdmi_process *list, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].pid == pid)
            return true;
    return false;
}

static void descendants_are_found_across_sessions(void **state)
{
    (void)state;
    pid_t grandchild, child = start_family(&grandchild);
    tdmi_process *list;
    size_t count;
    assert_int_equal(tdmi_process_descendants(getpid(), 0, &list, &count), TDM_OK);
    bool both = contains(list, count, child) && contains(list, count, grandchild), self = contains(list, count, getpid());
    tdmi_free(list);
    assert_int_equal(tdmi_process_descendants(getpid(), child, &list, &count), TDM_OK);
    bool spared = !contains(list, count, child) && !contains(list, count, grandchild); /* with all below it */
    tdmi_free(list);
    kill(grandchild, SIGKILL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(both);
    assert_false(self);
    assert_true(spared);
    assert_int_equal(tdmi_process_descendants(getpid(), 0, &list, &count), TDM_OK);
    tdmi_free(list);
    assert_int_equal(count, 0);
}

static void a_handler_is_told_from_default_and_ignored(void **state)
{
    (void)state;
    signal(SIGUSR1, nothing);
    signal(SIGUSR2, SIG_IGN);
    assert_true(tdmi_process_catches(getpid(), SIGUSR1));
    assert_false(tdmi_process_catches(getpid(), SIGUSR2));
    assert_false(tdmi_process_catches(getpid(), SIGTERM));
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
}

static void an_environment_is_searched_for_whole_entries(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        setenv("TANDEM_TEST_A", "one", 1);
        setenv("TANDEM_TEST_B", "two", 1);
        execl("/bin/sleep", "sleep", "30", NULL);
        _exit(1);
    }
    static const char *const both[] = {"TANDEM_TEST_A=one", "TANDEM_TEST_B=two"}, *const part[] = {"TANDEM_TEST_A=on"};
    bool found = false;
    for (int i = 0; i < 400 && !found; i++, usleep(5000)) /* until it has become the program */
        found = tdmi_process_has_environment(child, both, 2);
    bool found_part = tdmi_process_has_environment(child, part, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(found);
    assert_false(found_part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descendants_are_found_across_sessions),
        cmocka_unit_test(a_handler_is_told_from_default_and_ignored),
        cmocka_unit_test(an_environment_is_searched_for_whole_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
