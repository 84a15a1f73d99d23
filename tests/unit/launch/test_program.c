/* test_program.c - which file a command line runs. */
#include "launch/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void programs_are_looked_up_in_the_path(void **state)
{
    (void)state;
    tdmi_program program;
    setenv("PATH", "/nowhere::/usr/bin:/bin", 1);
    assert_int_equal(tdmi_program_find((const char *const[]){"sh", "-c", "x", NULL}, &program), TDM_OK);
    assert_true(strcmp(program.path, "/usr/bin/sh") == 0 || strcmp(program.path, "/bin/sh") == 0);
    assert_string_equal(program.argv[0], "sh");
    assert_string_equal(program.argv[2], "x");
    assert_null(program.argv[3]);
    tdmi_program_free(&program);
}

static void a_python_file_becomes_an_argument_of_python3(void **state)
{
    (void)state;
    char folder[] = "/tmp/tandem-test-XXXXXX", script[64], python[64];
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/x.py", folder);
    snprintf(python, sizeof python, "%s/python3", folder);
    fclose(fopen(script, "w"));
    fclose(fopen(python, "w"));
    chmod(python, 0755);
    setenv("PATH", folder, 1);
    tdmi_program program;
    assert_int_equal(tdmi_program_find((const char *const[]){script, "a", NULL}, &program), TDM_OK);
    assert_string_equal(program.path, python);
    assert_string_equal(program.argv[0], "python3");
    assert_string_equal(program.argv[1], "-u");
    assert_string_equal(program.argv[2], script);
    assert_string_equal(program.argv[3], "a");
    assert_null(program.argv[4]);
    tdmi_program_free(&program);
    unlink(script);
    assert_int_equal(tdmi_program_find((const char *const[]){script, NULL}, &program), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "No such file"));
    unlink(python);
    rmdir(folder);
}

static void what_cannot_run_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *name, *reason;
    } bad[] = {{"no-such-program", "no such program in PATH"}, {"/etc/passwd", "Permission denied"}, {"/tmp", "Is a directory"}, {"", "no program"}};
    setenv("PATH", "/usr/bin:/bin", 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tdmi_program program;
        assert_int_equal(tdmi_program_find((const char *const[]){bad[i].name, NULL}, &program), TDM_ERR_INVALID);
        assert_non_null(strstr(tdm_error_text(), bad[i].reason));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_looked_up_in_the_path),
        cmocka_unit_test(a_python_file_becomes_an_argument_of_python3),
        cmocka_unit_test(what_cannot_run_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
