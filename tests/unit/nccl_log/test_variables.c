/* test_variables.c - which release reads which variable. */
#include "nccl_log/nccl_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_name_is_found_by_itself(void **state)
{
    (void)state;
    const char *names[] = {"NCCL_AGG_ALLOC_MODE", "NCCL_ALGO", "NCCL_DEBUG", "NCCL_IB_TIMEOUT", "NCCL_SOCKET_IFNAME", "NCCL_WORK_FIFO_DEPTH", "NCCL_P2P_LEVEL"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tdmi_nccl_known_variable *known = tdmi_nccl_variable_known(names[i]);
        assert_non_null(known);
        assert_string_equal(known->name, names[i]);
    }
    assert_null(tdmi_nccl_variable_known("NCCL_SOCKET_IFNAMES"));
    assert_int_equal(tdmi_nccl_variable_known("NCCL_TREE_THRESHOLD")->until, TDMI_NCCL_VERSION(4, 8));
    assert_int_equal(tdmi_nccl_variable_known("NCCL_DEBUG")->until, 0);
    assert_int_equal(tdmi_nccl_variable_known("NCCL_NVLS_ENABLE")->since, TDMI_NCCL_VERSION(17, 1));
}

static void slips_of_the_pen_have_a_neighbour(void **state)
{
    (void)state;
    assert_string_equal(tdmi_nccl_variable_nearest("NCCL_SOCKET_IFNAMES")->name, "NCCL_SOCKET_IFNAME");
    assert_string_equal(tdmi_nccl_variable_nearest("NCCL_IB_TIMOUT")->name, "NCCL_IB_TIMEOUT");
    assert_null(tdmi_nccl_variable_nearest("NCCL_MAKE_IT_FASTER"));
}

static void others_variables_are_known_as_theirs(void **state)
{
    (void)state;
    assert_non_null(strstr(tdmi_nccl_variable_owner("NCCL_SHARP_GROUP_SIZE_THRESH"), "SHARP"));
    assert_non_null(strstr(tdmi_nccl_variable_owner("NCCL_ASYNC_ERROR_HANDLING"), "PyTorch"));
    assert_null(tdmi_nccl_variable_owner("NCCL_ALGO"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_name_is_found_by_itself), cmocka_unit_test(slips_of_the_pen_have_a_neighbour),
                                       cmocka_unit_test(others_variables_are_known_as_theirs)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
