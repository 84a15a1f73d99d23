/* test_safetensors_write.c - one file written by several ranks, in any order, also transposed. */
#include "checkpoint/safetensors.h"
#include "files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { ROWS = 7, COLUMNS = 5 };

static tdmi_layout *layout_of_three(void)
{
    tdmi_layout *layout;
    assert_int_equal(tdmi_layout_create(&layout), TDM_OK);
    assert_int_equal(tdmi_layout_add(layout, "h.0.weight", 2, (uint64_t[]){COLUMNS, ROWS}), TDM_OK);
    assert_int_equal(tdmi_layout_add(layout, "scale", 0, NULL), TDM_OK);
    assert_int_equal(tdmi_layout_add(layout, "b\"i\\as", 1, (uint64_t[]){10}), TDM_OK);
    return layout;
}

static void ranks_write_slices_of_one_file_in_any_order(void **state)
{
    (void)state;
    const char *path = files_path("model.safetensors");
    tdmi_layout *layout = layout_of_three();
    tdmi_safetensors_writer *one, *two;
    assert_int_equal(tdmi_safetensors_create(path, layout, &one), TDM_OK);
    assert_int_equal(tdmi_safetensors_join(path, layout, &two), TDM_OK);
    float weight[ROWS * COLUMNS], bias[10], scale = 0.5f;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        weight[i] = (float)i;
    for (int i = 0; i < 10; i++)
        bias[i] = (float)-i;
    assert_int_equal(tdmi_safetensors_write(two, 2, 4, 6, bias + 4), TDM_OK);
    assert_int_equal(tdmi_safetensors_write_transposed(two, 0, 17, 18, weight + 17), TDM_OK); /* begins inside a row */
    assert_int_equal(tdmi_safetensors_write(one, 1, 0, 1, &scale), TDM_OK);
    assert_int_equal(tdmi_safetensors_write_transposed(one, 0, 0, 17, weight), TDM_OK);
    assert_int_equal(tdmi_safetensors_write(one, 2, 0, 4, bias), TDM_OK);
    assert_int_equal(tdmi_safetensors_sync(one), TDM_OK);
    assert_int_equal(tdmi_safetensors_sync(two), TDM_OK);
    tdmi_safetensors_end(one);
    tdmi_safetensors_end(two);
    tdmi_layout_destroy(layout);

    tdmi_safetensors *file;
    assert_int_equal(tdmi_safetensors_open(path, &file), TDM_OK);
    assert_int_equal(tdmi_safetensors_count(file), 3);
    const tdmi_file_tensor *t = tdmi_safetensors_find(file, "h.0.weight");
    assert_int_equal(t->offset % 64, 0);
    float raw[ROWS * COLUMNS], back[ROWS * COLUMNS];
    assert_int_equal(tdmi_safetensors_read(file, t, 0, ROWS * COLUMNS, raw), TDM_OK);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            assert_true(raw[c * ROWS + r] == weight[r * COLUMNS + c]);
    assert_int_equal(tdmi_safetensors_read_transposed(file, t, 0, ROWS * COLUMNS, back), TDM_OK);
    assert_memory_equal(back, weight, sizeof weight);
    assert_int_equal(tdmi_safetensors_read(file, tdmi_safetensors_find(file, "b\"i\\as"), 0, 10, back), TDM_OK);
    assert_memory_equal(back, bias, sizeof bias);
    assert_int_equal(tdmi_safetensors_read(file, tdmi_safetensors_find(file, "scale"), 0, 1, back), TDM_OK);
    assert_true(back[0] == 0.5f);
    tdmi_safetensors_close(file);
}

static void a_large_matrix_is_written_in_several_runs(void **state)
{
    (void)state;
    enum { R = 700, C = 300 };
    static float weight[R * C], back[R * C];
    for (int i = 0; i < R * C; i++)
        weight[i] = (float)i * 0.25f;
    tdmi_layout *layout;
    assert_int_equal(tdmi_layout_create(&layout), TDM_OK);
    assert_int_equal(tdmi_layout_add(layout, "w", 2, (uint64_t[]){C, R}), TDM_OK);
    const char *path = files_path("large.safetensors");
    tdmi_safetensors_writer *writer;
    assert_int_equal(tdmi_safetensors_create(path, layout, &writer), TDM_OK);
    assert_int_equal(tdmi_safetensors_write_transposed(writer, 0, 0, R * C, weight), TDM_OK);
    tdmi_safetensors_end(writer);
    tdmi_layout_destroy(layout);
    tdmi_safetensors *file;
    assert_int_equal(tdmi_safetensors_open(path, &file), TDM_OK);
    assert_int_equal(tdmi_safetensors_read_transposed(file, tdmi_safetensors_at(file, 0), 0, R * C, back), TDM_OK);
    assert_memory_equal(back, weight, sizeof weight);
    tdmi_safetensors_close(file);
}

static void a_file_without_tensors_is_a_file(void **state)
{
    (void)state;
    const char *path = files_path("empty.safetensors");
    tdmi_layout *layout;
    assert_int_equal(tdmi_layout_create(&layout), TDM_OK);
    tdmi_safetensors_writer *writer;
    assert_int_equal(tdmi_safetensors_create(path, layout, &writer), TDM_OK);
    tdmi_safetensors_end(writer);
    tdmi_layout_destroy(layout);
    tdmi_safetensors *file;
    assert_int_equal(tdmi_safetensors_open(path, &file), TDM_OK);
    assert_int_equal(tdmi_safetensors_count(file), 0);
    tdmi_safetensors_close(file);
}

static void a_rank_with_other_tensors_does_not_join(void **state)
{
    (void)state;
    const char *path = files_path("other.safetensors");
    tdmi_layout *layout = layout_of_three(), *other = layout_of_three();
    assert_int_equal(tdmi_layout_add(other, "more", 1, (uint64_t[]){1}), TDM_OK);
    tdmi_safetensors_writer *writer, *again;
    assert_int_equal(tdmi_safetensors_create(path, layout, &writer), TDM_OK);
    assert_int_equal(tdmi_safetensors_join(path, other, &again), TDM_ERR_MISMATCH);
    assert_non_null(strstr(tdm_error_text(), "was begun by a rank with other tensors"));
    assert_int_equal(tdmi_safetensors_create(path, layout, &again), TDM_ERR_EXISTS);
    assert_int_equal(tdmi_safetensors_join(files_path("nowhere"), layout, &again), TDM_ERR_SYSTEM);
    tdmi_safetensors_end(writer);
    tdmi_layout_destroy(layout);
    tdmi_layout_destroy(other);
}

static void wrong_ranges_and_names_are_refused(void **state)
{
    (void)state;
    tdmi_layout *layout = layout_of_three();
    assert_int_equal(tdmi_layout_add(layout, "scale", 0, NULL), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "\"scale\" is in the layout already"));
    assert_int_equal(tdmi_layout_add(layout, "\xff\xfe", 0, NULL), TDM_ERR_INVALID);
    assert_int_equal(tdmi_layout_add(layout, "__metadata__", 0, NULL), TDM_ERR_INVALID);
    assert_int_equal(tdmi_layout_add(layout, "huge", 2, (uint64_t[]){(uint64_t)1 << 40, (uint64_t)1 << 40}), TDM_ERR_INVALID);
    assert_int_equal(tdmi_layout_add(layout, "deep", 9, (uint64_t[9]){1}), TDM_ERR_INVALID);
    assert_int_equal(tdmi_layout_count(layout), 3);
    assert_string_equal(tdmi_layout_at(layout, 1)->name, "scale");
    tdmi_safetensors_writer *writer;
    assert_int_equal(tdmi_safetensors_create(files_path("ranges"), layout, &writer), TDM_OK);
    float data[64] = {0};
    assert_int_equal(tdmi_safetensors_write(writer, 3, 0, 1, data), TDM_ERR_INVALID);
    assert_int_equal(tdmi_safetensors_write(writer, 2, 5, 6, data), TDM_ERR_INVALID);
    assert_int_equal(tdmi_safetensors_write_transposed(writer, 2, 0, 10, data), TDM_ERR_INVALID);
    assert_int_equal(tdmi_safetensors_write_transposed(writer, 0, 30, 6, data), TDM_ERR_INVALID);
    tdmi_safetensors_end(writer);
    tdmi_safetensors_end(NULL);
    tdmi_layout_destroy(layout);
    tdmi_layout_destroy(NULL);
}

static void without_space_the_file_is_removed_again(void **state)
{
    (void)state;
    tdmi_layout *layout;
    assert_int_equal(tdmi_layout_create(&layout), TDM_OK);
    assert_int_equal(tdmi_layout_add(layout, "giant", 1, (uint64_t[]){(uint64_t)1 << 58}), TDM_OK);
    const char *path = files_path("giant.safetensors");
    tdmi_safetensors_writer *writer;
    assert_int_equal(tdmi_safetensors_create(path, layout, &writer), TDM_ERR_NO_SPACE);
    assert_non_null(strstr(tdm_error_text(), "giant.safetensors: it needs 1152921504606847"));
    assert_int_equal(access(path, F_OK), -1);
    tdmi_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_write_slices_of_one_file_in_any_order),
        cmocka_unit_test(a_large_matrix_is_written_in_several_runs),
        cmocka_unit_test(a_file_without_tensors_is_a_file),
        cmocka_unit_test(a_rank_with_other_tensors_does_not_join),
        cmocka_unit_test(wrong_ranges_and_names_are_refused),
        cmocka_unit_test(without_space_the_file_is_removed_again),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
