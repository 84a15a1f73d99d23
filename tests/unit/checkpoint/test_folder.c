/* test_folder.c - names, listing and removing of a run's folders. */
#include "checkpoint/folder.h"
#include "core/memory.h"
#include "files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *made(const char *name)
{
    const char *path = files_path(name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

static void only_step_and_a_number_is_a_checkpoint(void **state)
{
    (void)state;
    uint64_t step;
    assert_true(tdmi_folder_step_of("step-0", &step) && step == 0);
    assert_true(tdmi_folder_step_of("step-18446744073709551615", &step) && step == UINT64_MAX);
    static const char *const others[] = {"step-", "step-01", "step-+1", "step- 1", "step--1", "step-1x", "step",
                                         ".step-1.tmp-new", "step-18446744073709551616", "Step-1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(tdmi_folder_step_of(others[i], &step));
}

static void steps_are_listed_newest_first(void **state)
{
    (void)state;
    made("run");
    static const int numbers[] = {9, 100, 0, 20};
    char name[64];
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "run/step-%d", numbers[i]);
        made(name);
    }
    made("run/tb");
    uint64_t *steps;
    size_t count;
    assert_int_equal(tdmi_folder_steps(files_path("run"), &steps, &count), TDM_OK);
    assert_int_equal(count, 4);
    assert_true(steps[0] == 100 && steps[1] == 20 && steps[2] == 9 && steps[3] == 0);
    tdmi_free(steps);
    assert_int_equal(tdmi_folder_steps(files_path("none"), &steps, &count), TDM_ERR_BAD_FILE);
}

static void cleaning_takes_temporaries_only(void **state)
{
    (void)state;
    made("mess");
    made("mess/.step-5.tmp-new");
    made("mess/.step-5.tmp-old");
    files_write("mess/.step-5.tmp-old/x", "x", 1);
    made("mess/.stepping");
    made("mess/step-5");
    files_write("mess/metrics.jsonl", "", 0);
    tdmi_folder_clean(files_path("mess"));
    assert_int_equal(access(files_path("mess/.step-5.tmp-new"), F_OK), -1);
    assert_int_equal(access(files_path("mess/.step-5.tmp-old"), F_OK), -1);
    assert_int_equal(access(files_path("mess/.stepping"), F_OK), 0);
    assert_int_equal(access(files_path("mess/step-5"), F_OK), 0);
    assert_int_equal(access(files_path("mess/metrics.jsonl"), F_OK), 0);
    tdmi_folder_retire(files_path("mess"), 5);
    assert_int_equal(access(files_path("mess/step-5"), F_OK), -1);
    assert_int_equal(access(files_path("mess/.step-5.tmp-old"), F_OK), -1);
    tdmi_folder_clean(files_path("nowhere")); /* nothing to do */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_step_and_a_number_is_a_checkpoint),
        cmocka_unit_test(steps_are_listed_newest_first),
        cmocka_unit_test(cleaning_takes_temporaries_only),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
