/* test_tuning.c - the text of measured choices: written, read again, and refused when damaged. */
#include "coll/algorithm.h"
#include "coll/tuning.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *sample(size_t *nbytes)
{
    tdmi_tuning t = {.host = 0x1234567890abcdefull};
    char setting[32], *text;
    tdmi_tuning_setting(4, 2, "tcp", "any", setting);
    assert_string_equal(setting, "4x2/tcp/any");
    tdmi_tuning_set_costs(&t, &(tdmi_costs){"tcp", 12000, 0.9, 0.1});
    tdmi_tuning_set_costs(&t, &(tdmi_costs){"tcp", 11000.123456789, 0.8, 0.1});
    assert_int_equal(tdmi_tuning_add(&t, setting, &(tdmi_choice){&tdmi_recursive_doubling, TDMI_COLL_ALLREDUCE, 0, 4096, ""}), TDM_OK);
    assert_int_equal(tdmi_tuning_add(&t, setting, &(tdmi_choice){&tdmi_halving_doubling, TDMI_COLL_ALLREDUCE, 4096, SIZE_MAX, ""}), TDM_OK);
    assert_true(tdmi_tuning_costs(&t, "tcp")->alpha == 11000.1); /* as those who read it will reckon */
    assert_int_equal(tdmi_tuning_write(&t, &text, nbytes), TDM_OK);
    tdmi_tuning_free(&t);
    return text;
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    size_t nbytes;
    char *text = sample(&nbytes), *again;
    tdmi_tuning t;
    assert_int_equal(tdmi_tuning_read(text, nbytes, &t), TDM_OK);
    assert_true(t.host == 0x1234567890abcdefull);
    assert_int_equal(t.best_count, 2);
    assert_int_equal(t.best[1].choice.min, 4096);
    assert_true(t.best[1].choice.max == SIZE_MAX);
    assert_ptr_equal(t.best[0].choice.algorithm, &tdmi_recursive_doubling);
    assert_true(tdmi_tuning_costs(&t, "tcp")->alpha == 11000.1);
    assert_null(tdmi_tuning_costs(&t, "ucx"));
    assert_int_equal(tdmi_tuning_write(&t, &again, &nbytes), TDM_OK);
    assert_string_equal(text, again);
    tdmi_tuning_forget(&t, "4x2/tcp/any", TDMI_COLL_ALLREDUCE);
    assert_int_equal(t.best_count, 0);
    tdmi_tuning_free(&t);
    tdmi_free(text);
    tdmi_free(again);
}

static void every_changed_byte_and_every_cut_is_noticed(void **state)
{
    (void)state;
    size_t nbytes;
    char *text = sample(&nbytes);
    tdmi_tuning t;
    for (size_t i = 0; i < nbytes; i++) {
        text[i] ^= 1;
        assert_int_equal(tdmi_tuning_read(text, nbytes, &t), TDM_ERR_INVALID);
        text[i] ^= 1;
        assert_int_equal(tdmi_tuning_read(text, i, &t), TDM_ERR_INVALID);
    }
    tdmi_free(text);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    tdmi_tuning t;
    const char *const texts[][2] = {
        {"tandem-tuning 2\n", "line 1: no tuning of version 1"},
        {"tandem-tuning 1\nhost 1\n", "line 2: the host is no 16 hex digits"},
        {"tandem-tuning 1\nhost 0000000000000000\nbest 2x1/shm/any barrier 0 - ring\n", "line 3: no such operation, or no such"},
        {"tandem-tuning 1\nhost 0000000000000000\nbest 2x1/shm/any allreduce 9 9 ring\n", "line 3: the range of sizes is no range"},
        {"tandem-tuning 1\nhost 0000000000000000\nlinks tcp 1 nan 1\n", "line 3: costs are"},
        {"tandem-tuning 1\nhost 0000000000000000\nend 0000000000000000\n", "the text is damaged"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(tdmi_tuning_read(texts[i][0], strlen(texts[i][0]), &t), TDM_ERR_INVALID);
        if (strstr(tdm_error_text(), texts[i][1]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", tdm_error_text(), texts[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(every_changed_byte_and_every_cut_is_noticed),
        cmocka_unit_test(errors_name_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
