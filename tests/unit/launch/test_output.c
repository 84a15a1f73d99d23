/* test_output.c - bytes from pipes become lines on stdout and stderr. */
#include "launch/output.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* While a test runs, fd 1 and 2 are these files. */
static FILE *files[2];
static int saved[2];
static tdmi_output *output;

static int redirect(void **state)
{
    (void)state;
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        files[i] = tmpfile();
        saved[i] = dup(1 + i);
        dup2(fileno(files[i]), 1 + i);
    }
    return tdmi_output_create("launcher", &output) == TDM_OK ? 0 : -1;
}

static void put_back(void)
{
    for (int i = 0; i < 2; i++)
        if (saved[i] >= 0) {
            dup2(saved[i], 1 + i);
            close(saved[i]);
            saved[i] = -1;
        }
}

static int restore(void **state)
{
    (void)state;
    put_back();
    tdmi_output_destroy(output);
    fclose(files[0]);
    fclose(files[1]);
    return 0;
}

static int add(bool is_stderr, const char *prefix, bool shown, int log_fd, int *stream)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || tdmi_output_add(output, ends[0], is_stderr, prefix, shown, log_fd, stream) != TDM_OK)
        abort();
    return ends[1];
}

static void put(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
}

static void pump(void)
{
    struct pollfd items[16];
    size_t count = tdmi_output_prepare(output, items);
    poll(items, count, 0);
    tdmi_output_pump(output, items, count);
}

static const char *written(int which)
{
    static char text[2][4096];
    text[which][pread(fileno(files[which]), text[which], 4095, 0)] = '\0';
    return text[which];
}

/* Collects first, asserts after fd 1 and 2 are back. */
#define EXPECT(which, expected)                                                                                        \
    do {                                                                                                               \
        char got[4096];                                                                                                \
        snprintf(got, sizeof got, "%s", written(which));                                                               \
        if (strcmp(got, expected) != 0) {                                                                              \
            put_back();                                                                                                \
            fail_msg("stream %d: \"%s\" instead of \"%s\"", which, got, expected);                                     \
        }                                                                                                              \
    } while (0)

static void a_line_appears_when_it_ends_and_not_before(void **state)
{
    (void)state;
    int a, b, fd_a = add(false, "[0] ", true, -1, &a), fd_b = add(false, "[1] ", true, -1, &b);
    put(fd_a, "one");
    put(fd_b, "two\nth");
    pump();
    EXPECT(0, "[1] two\n");
    put(fd_a, " line\n\nx");
    pump();
    EXPECT(0, "[1] two\n[0] one line\n[0] \n");
    close(fd_a);
    pump();
    EXPECT(0, "[1] two\n[0] one line\n[0] \n[0] x\n");
    tdmi_output_finish(output); /* somebody still holds the other pipe */
    EXPECT(0, "[1] two\n[0] one line\n[0] \n[0] x\n[1] th\n");
    close(fd_b);
}

static void the_last_line_that_says_something_is_remembered(void **state)
{
    (void)state;
    int s, fd = add(true, "", true, -1, &s);
    put(fd, "Traceback\nValueError: \tbad\n  \n\n");
    tdmi_output_drain(output, s);
    bool good = strcmp(tdmi_output_last_line(output, s), "ValueError:  bad") == 0; /* no control characters */
    char longer[600];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    put(fd, longer);
    put(fd, "\n");
    tdmi_output_drain(output, s);
    size_t length = strlen(tdmi_output_last_line(output, s));
    close(fd);
    put_back();
    assert_true(good);
    assert_int_equal(length, 403); /* cut, with dots */
}

static void hidden_streams_go_to_their_log_only(void **state)
{
    (void)state;
    FILE *log = tmpfile();
    int s, fd = add(false, "[0] ", false, dup(fileno(log)), &s);
    put(fd, "half");
    pump();
    close(fd);
    tdmi_output_finish(output);
    EXPECT(0, "");
    char text[16] = "";
    rewind(log);
    size_t got = fread(text, 1, sizeof text, log);
    fclose(log);
    put_back();
    assert_int_equal(got, 4);
    assert_memory_equal(text, "half", 4); /* bytes as they are */
}

static void the_launchers_own_lines_follow_what_is_there(void **state)
{
    (void)state;
    int s, fd = add(true, "[0] ", true, -1, &s);
    put(fd, "last words\n");
    tdmi_output_drain(output, s);
    tdmi_output_say(output, "rank %d died", 0);
    EXPECT(1, "[0] last words\nlauncher: rank 0 died\n");
    close(fd);
}

static void a_reader_that_is_gone_costs_nothing_but_its_output(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    int ends[2], s, fd = add(false, "[0] ", true, -1, &s);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 1);
    close(ends[1]);
    close(ends[0]);
    for (int i = 0; i < 100; i++) {
        put(fd, "some line that nobody reads\n");
        pump();
    }
    bool flushed = tdmi_output_is_flushed(output);
    close(fd);
    put_back();
    assert_true(flushed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_appears_when_it_ends_and_not_before, redirect, restore),
        cmocka_unit_test_setup_teardown(the_last_line_that_says_something_is_remembered, redirect, restore),
        cmocka_unit_test_setup_teardown(hidden_streams_go_to_their_log_only, redirect, restore),
        cmocka_unit_test_setup_teardown(the_launchers_own_lines_follow_what_is_there, redirect, restore),
        cmocka_unit_test_setup_teardown(a_reader_that_is_gone_costs_nothing_but_its_output, redirect, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
