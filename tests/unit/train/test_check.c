/* test_check.c - what the launching process knows before its ranks start. */
#include "files.h"

#include <tandem/train.h>

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static tdm_train_options options_of(const char *model)
{
    tdm_train_options o;
    tdm_train_options_init(&o);
    o.model = model;
    return o;
}

static void a_wrong_option_is_found_without_ranks(void **state)
{
    (void)state;
    tdm_train_options o = options_of("gpt2");
    assert_int_equal(tdm_train_check(&o, 2, 2), TDM_OK);
    o.heads = 7;
    assert_int_equal(tdm_train_check(&o, 2, 2), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "width 768 is not divisible by heads 7"));
}

static void more_than_the_machine_has_is_refused_with_both_numbers(void **state)
{
    (void)state;
    tdm_train_options o = options_of("gpt2");
    o.width = 65536;
    o.heads = 16;
    o.layers = 40;
    assert_int_equal(tdm_train_check(&o, 4, 4), TDM_ERR_NO_MEMORY);
    assert_non_null(strstr(tdm_error_text(), "parameters with gradients and optimizer state of 4 ranks need "));
    assert_non_null(strstr(tdm_error_text(), " GiB of memory; choose a smaller model or fewer ranks"));
    assert_int_equal(tdm_train_check(&o, 1, 1), TDM_ERR_NO_MEMORY);
    assert_null(strstr(tdm_error_text(), "fewer ranks"));
}

static void a_run_without_checkpoints_has_no_newest(void **state)
{
    (void)state;
    char *folder = (char *)1;
    tdm_train_options o = options_of("gpt2");
    o.run_dir = files_path("nowhere");
    assert_int_equal(tdm_train_newest(&o, &folder), TDM_OK);
    assert_null(folder);
    mkdir(files_path("begun"), 0777);
    mkdir(files_path("begun/step-7"), 0777); /* holds nothing: no checkpoint */
    mkdir(files_path("begun/.step-8.tmp-new"), 0777);
    o.run_dir = files_path("begun");
    folder = (char *)1;
    assert_int_equal(tdm_train_newest(&o, &folder), TDM_OK);
    assert_null(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_option_is_found_without_ranks),
        cmocka_unit_test(more_than_the_machine_has_is_refused_with_both_numbers),
        cmocka_unit_test(a_run_without_checkpoints_has_no_newest),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
