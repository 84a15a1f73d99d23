/* test_ranges.c - address ranges are handed out once, and join again. */
#include "transport/shm/ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void ranges_do_not_overlap_and_everything_comes_back(void **state)
{
    (void)state;
    enum { SIZE = 100000, BLOCKS = 200 };
    static unsigned char owner[SIZE];
    size_t offset[BLOCKS] = {0}, nbytes[BLOCKS] = {0};
    tdmi_ranges ranges;
    assert_int_equal(tdmi_ranges_init(&ranges, 128, SIZE - 128), TDM_OK);
    memset(owner, 0, sizeof owner);
    uint32_t seed = 7;
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1664525u + 1013904223u;
        const int b = (int)(seed >> 16) % BLOCKS;
        if (nbytes[b] > 0) {
            memset(owner + offset[b], 0, nbytes[b]);
            tdmi_ranges_give(&ranges, offset[b], nbytes[b]);
            nbytes[b] = 0;
            continue;
        }
        const size_t want = 1 + (seed >> 8) % 1500, alignment = (size_t)1 << (seed % 9), phase = (seed >> 4) & (alignment - 1);
        tdm_status status = tdmi_ranges_take(&ranges, want, alignment, phase, &offset[b]);
        if (status != TDM_OK) {
            assert_int_equal(status, TDM_ERR_NO_SPACE);
            assert_true(tdmi_ranges_largest(&ranges) < want + alignment);
            continue;
        }
        nbytes[b] = want;
        assert_true(offset[b] >= 128 && offset[b] + want <= SIZE && (offset[b] & (alignment - 1)) == phase);
        for (size_t i = 0; i < want; i++)
            assert_int_equal(owner[offset[b] + i], 0);
        memset(owner + offset[b], 1, want);
    }
    for (int b = 0; b < BLOCKS; b++)
        if (nbytes[b] > 0)
            tdmi_ranges_give(&ranges, offset[b], nbytes[b]);
    assert_int_equal(ranges.count, 1);
    assert_int_equal(tdmi_ranges_largest(&ranges), SIZE - 128);
    tdmi_ranges_clear(&ranges);
}

static void the_smallest_hole_that_fits_is_taken(void **state)
{
    (void)state;
    tdmi_ranges ranges;
    size_t a, b, c, at;
    assert_int_equal(tdmi_ranges_init(&ranges, 0, 1000), TDM_OK);
    assert_int_equal(tdmi_ranges_take(&ranges, 300, 1, 0, &a), TDM_OK);
    assert_int_equal(tdmi_ranges_take(&ranges, 100, 1, 0, &b), TDM_OK);
    assert_int_equal(tdmi_ranges_take(&ranges, 50, 1, 0, &c), TDM_OK);
    tdmi_ranges_give(&ranges, a, 300);
    assert_int_equal(tdmi_ranges_take(&ranges, 200, 1, 0, &at), TDM_OK);
    assert_int_equal(at, a); /* not from the 550 at the end */
    tdmi_ranges_clear(&ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_do_not_overlap_and_everything_comes_back),
        cmocka_unit_test(the_smallest_hole_that_fits_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
