/* test_transpose.c - every range of small matrices, element by element. */
#include "checkpoint/transpose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LARGEST = 6 };

static void every_range_lands_on_its_transpose(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows <= LARGEST; rows++)
        for (uint64_t columns = 1; columns <= LARGEST; columns++)
            for (uint64_t first = 0; first <= rows * columns; first++)
                for (size_t count = 0; count <= rows * columns - first; count++)
                    for (size_t max = 1; max <= 9; max += 4) {
                        float memory[LARGEST * LARGEST], file[LARGEST * LARGEST], back[LARGEST * LARGEST], part[9];
                        for (size_t i = 0; i < count; i++)
                            memory[i] = (float)(first + i);
                        memset(back, 0, sizeof back);
                        for (size_t i = 0; i < rows * columns; i++)
                            file[i] = -1;
                        size_t moved = 0;
                        tdmi_transpose walk = tdmi_transpose_begin(rows, columns, first, count);
                        for (tdmi_transpose_run run; tdmi_transpose_next(&walk, max, &run);) {
                            assert_in_range(run.count, 1, max);
                            tdmi_transpose_gather(&walk, &run, memory, file + run.position);
                            memcpy(part, file + run.position, run.count * sizeof *part);
                            tdmi_transpose_scatter(&walk, &run, part, back);
                            moved += run.count;
                        }
                        assert_int_equal(moved, count);
                        assert_memory_equal(back, memory, count * sizeof *back);
                        for (uint64_t r = 0; r < rows; r++)
                            for (uint64_t c = 0; c < columns; c++) {
                                uint64_t e = r * columns + c;
                                bool inside = e >= first && e < first + count;
                                assert_true(file[c * rows + r] == (inside ? (float)e : -1.0f));
                            }
                    }
}

static void whole_matrices_and_whole_rows_make_long_runs(void **state)
{
    (void)state;
    tdmi_transpose_run run;
    tdmi_transpose walk = tdmi_transpose_begin(100, 50, 0, 5000);
    assert_true(tdmi_transpose_next(&walk, 1 << 16, &run));
    assert_int_equal(run.count, 5000);
    assert_false(tdmi_transpose_next(&walk, 1 << 16, &run));
    walk = tdmi_transpose_begin(100, 50, 20 * 50, 30 * 50); /* rows 20 to 49: a run a column */
    int runs = 0;
    for (; tdmi_transpose_next(&walk, 1 << 16, &run); runs++)
        assert_int_equal(run.count, 30);
    assert_int_equal(runs, 50);
}

static void many_whole_columns_move_like_single_ones(void **state)
{
    (void)state;
    enum { R = 5, C = 37 };
    float memory[R * C], file[R * C], back[R * C];
    for (int i = 0; i < R * C; i++)
        memory[i] = (float)i;
    for (size_t max = 1; max <= R * C; max++) { /* runs that begin and end anywhere in a column */
        memset(file, 0, sizeof file);
        memset(back, 0, sizeof back);
        tdmi_transpose walk = tdmi_transpose_begin(R, C, 0, R * C);
        for (tdmi_transpose_run run; tdmi_transpose_next(&walk, max, &run);) {
            tdmi_transpose_gather(&walk, &run, memory, file + run.position);
            tdmi_transpose_scatter(&walk, &run, file + run.position, back);
        }
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++)
                assert_true(file[c * R + r] == memory[r * C + c]);
        assert_memory_equal(back, memory, sizeof back);
    }
}

static void empty_matrices_have_no_runs(void **state)
{
    (void)state;
    tdmi_transpose_run run;
    tdmi_transpose walk = tdmi_transpose_begin(0, 5, 0, 0);
    assert_false(tdmi_transpose_next(&walk, 10, &run));
    walk = tdmi_transpose_begin(5, 0, 0, 0);
    assert_false(tdmi_transpose_next(&walk, 10, &run));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_range_lands_on_its_transpose),
        cmocka_unit_test(whole_matrices_and_whole_rows_make_long_runs),
        cmocka_unit_test(many_whole_columns_move_like_single_ones),
        cmocka_unit_test(empty_matrices_have_no_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
