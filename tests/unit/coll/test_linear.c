/* test_linear.c - gather and scatter, each part once between its rank and the root, even and uneven. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void parts_go_to_the_root_and_come_from_it(void **state)
{
    (void)state;
    check_sizes(&tdmi_linear_parts, TDMI_COLL_GATHER, 33, false);
    check_sizes(&tdmi_linear_parts, TDMI_COLL_SCATTER, 33, false);
    check_types(&tdmi_linear_parts, TDMI_COLL_GATHER, false);
    check_types(&tdmi_linear_parts, TDMI_COLL_SCATTER, false);
}

static void any_root_may_have_uneven_parts(void **state)
{
    (void)state;
    for (int root = 0; root < 5; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const check_options options = {.root = root + 1, .uneven = true, .in_place = in_place != 0};
            check_collective(&tdmi_linear_parts, TDMI_COLL_GATHER, TDM_U8, TDM_SUM, 5, 3, options);
            check_collective(&tdmi_linear_parts, TDMI_COLL_SCATTER, TDM_F64, TDM_SUM, 5, 3, options);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_go_to_the_root_and_come_from_it),
        cmocka_unit_test(any_root_may_have_uneven_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
