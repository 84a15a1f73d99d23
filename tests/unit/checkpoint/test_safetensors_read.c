/* test_safetensors_read.c - good files, and every way a header can lie. */
#include "checkpoint/safetensors.h"
#include "files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Writes header length, header and `data_bytes` bytes counting up. */
static const char *file_of(const char *json, uint64_t length, size_t data_bytes)
{
    static char bytes[70000];
    size_t n = strlen(json);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i));
    memcpy(bytes + 8, json, n);
    for (size_t i = 0; i < data_bytes; i++)
        bytes[8 + n + i] = (char)i;
    return files_write("x.safetensors", bytes, 8 + n + data_bytes);
}

static void assert_refused(const char *path, const char *tensor, const char *reason)
{
    tdmi_safetensors *file = NULL;
    assert_int_equal(tdmi_safetensors_open(path, &file), TDM_ERR_BAD_FILE);
    assert_null(file);
    char named[80] = "";
    if (tensor != NULL)
        snprintf(named, sizeof named, "tensor \"%s\"", tensor);
    if (strstr(tdm_error_text(), reason) == NULL || strstr(tdm_error_text(), named) == NULL)
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", tdm_error_text(), named, reason);
    assert_non_null(strstr(tdm_error_text(), path));
}

static void refuse(const char *json, size_t data_bytes, const char *tensor, const char *reason)
{
    assert_refused(file_of(json, strlen(json), data_bytes), tensor, reason);
}

static void tensors_are_found_with_shape_and_values(void **state)
{
    (void)state;
    static const char json[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                               "\"a\":{\"shape\":[2,2],\"data_offsets\":[0,16],\"dtype\":\"F32\"},"
                               "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[22,22]},"
                               "\"h\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[22,24]},"
                               "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[1,1],\"data_offsets\":[24,25]}}   ";
    const size_t n = sizeof json - 1;
    static uint8_t bytes[8 + sizeof json + 25] = {0};
    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    memcpy(bytes + 8, json, n);
    const float a[] = {1.5f, -2, 3, 1e-30f};
    const uint16_t halves[] = {0x3f80, 0xc040, 0x0000, 0x3c00};
    memcpy(bytes + 8 + n, a, 16);
    memcpy(bytes + 8 + n + 16, halves, 8);
    tdmi_safetensors *file;
    assert_int_equal(tdmi_safetensors_open(files_write("good.safetensors", bytes, 8 + n + 25), &file), TDM_OK);
    assert_int_equal(tdmi_safetensors_count(file), 5);
    const tdmi_file_tensor *t = tdmi_safetensors_find(file, "a");
    assert_ptr_equal(t, tdmi_safetensors_at(file, 0));
    assert_true(t->ndim == 2 && t->shape[0] == 2 && t->shape[1] == 2 && t->count == 4);
    float out[4], swapped[4];
    assert_int_equal(tdmi_safetensors_read(file, t, 0, 4, out), TDM_OK);
    assert_memory_equal(out, a, sizeof a);
    assert_int_equal(tdmi_safetensors_read(file, t, 2, 1, out), TDM_OK);
    assert_true(out[0] == 3);
    assert_int_equal(tdmi_safetensors_read_transposed(file, t, 0, 4, swapped), TDM_OK);
    assert_true(swapped[0] == 1.5f && swapped[1] == 3 && swapped[2] == -2 && swapped[3] == 1e-30f);
    assert_int_equal(tdmi_safetensors_read_transposed(file, t, 1, 2, swapped), TDM_OK);
    assert_true(swapped[0] == 3 && swapped[1] == -2);
    assert_int_equal(tdmi_safetensors_read(file, t, 3, 2, out), TDM_ERR_INVALID);
    t = tdmi_safetensors_find(file, "b");
    assert_int_equal(tdmi_safetensors_read(file, t, 0, 3, out), TDM_OK);
    assert_true(out[0] == 1 && out[1] == -3 && out[2] == 0);
    assert_int_equal(tdmi_safetensors_read_transposed(file, t, 0, 3, out), TDM_ERR_INVALID);
    t = tdmi_safetensors_find(file, "h");
    assert_true(t->ndim == 0 && t->count == 1);
    assert_int_equal(tdmi_safetensors_read(file, t, 0, 1, out), TDM_OK);
    assert_true(out[0] == 1);
    assert_int_equal(tdmi_safetensors_find(file, "none")->count, 0);
    t = tdmi_safetensors_find(file, "mask");
    assert_int_equal(tdmi_safetensors_read(file, t, 0, 1, out), TDM_ERR_UNSUPPORTED);
    assert_non_null(strstr(tdm_error_text(), "tensor \"mask\" is of type BOOL"));
    assert_null(tdmi_safetensors_find(file, "c"));
    tdmi_safetensors_close(file);
    tdmi_safetensors_close(NULL);
}

static void shapes_and_ranges_that_do_not_agree_are_refused(void **state)
{
    (void)state;
    refuse("{\"big\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4, "big",
           "its F32 shape needs 4000000 bytes, its data_offsets hold 4");
    refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8, "w", "begin at 8, behind their end at 4");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"I64\",\"shape\":[1],"
           "\"data_offsets\":[0,8]}}", 8, "b", "begin at 0, inside those of \"a\"");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
           "\"data_offsets\":[4,12]}}", 12, "b", "begin at 4, inside those of \"a\"");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
           "\"data_offsets\":[6,10]}}", 10, "b", "leaves a hole of 2 bytes");
    refuse("{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "b", "leaves a hole of 4 bytes");
    refuse("{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 7, NULL, "3 bytes behind its last tensor");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[90],\"data_offsets\":[0,90]}}", 89, "w",
           "end at 90, but the file has 89 bytes of data");
}

static void numbers_that_are_no_sizes_are_refused(void **state)
{
    (void)state;
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[-4,0]}}", 8, "w", "are not two whole numbers");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,9223372036854775808]}}", 8, "w", "too big integer");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,9223372036854775807]}}", 8, "w", "but the file has 8");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[\"0\",\"4\"]}}", 8, "w", "are not two whole numbers");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0.0,4.0]}}", 8, "w", "are not two whole numbers");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,8]}}", 8, "w", "are not two whole numbers");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[4]}}", 8, "w", "are not two whole numbers");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 8, "w", "its shape has a size");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[null],\"data_offsets\":[0,4]}}", 8, "w", "its shape has a size");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", 8, "w", "no shape, or one that is no list");
    refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 8, "w", "overflows");
    refuse("{\"w\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 8, "w", "overflows");
    refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0, "w", "overflows");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "w", "more than 8 dimensions");
}

static void other_kinds_of_headers_are_refused(void **state)
{
    (void)state;
    refuse("{\"w\":{\"dtype\":\"Q7\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "w", "unknown dtype \"Q7\"");
    refuse("{\"w\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "w", "it has no dtype");
    refuse("{\"w\":[1,2]}", 4, "w", "it has no dtype");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"w\":{\"dtype\":\"U8\",\"shape\":[2],"
           "\"data_offsets\":[2,4]}}", 4, "w", "duplicate object key");
    refuse("[1,2,3]", 4, NULL, "its header is not a JSON object");
    refuse(" {}", 0, NULL, "its header is not a JSON object");
    refuse("{\"ok\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"broken\":{\"dtype\":}}", 0, "broken", "damaged at byte");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__", "not a text");
    refuse("{\"__metadata__\":[]}", 0, "__metadata__", "not an object");
    refuse("{\"ev\\nil\":{\"dtype\":\"U8\"}}", 0, "ev?il", "no shape"); /* nothing that moves the cursor */
    refuse("{\"\\u0000\":{}}", 0, NULL, "damaged");
    refuse("{\"\xff\":{}}", 0, NULL, "damaged");
    refuse("{} x", 0, NULL, "damaged");
}

static void header_lengths_are_checked_before_memory_is_taken(void **state)
{
    (void)state;
    assert_refused(files_write("five", "12345", 5), NULL, "has 5 bytes");
    assert_refused(files_write("nothing", "", 0), NULL, "has 0 bytes");
    assert_refused(file_of("{}", 0, 0), NULL, "a header of 0 bytes");
    assert_refused(file_of("{}", 1, 0), NULL, "a header of 1 bytes");
    assert_refused(file_of("{}", 7, 0), NULL, "would have 7 bytes, but only 2 follow");
    assert_refused(file_of("{}", (uint64_t)1 << 40, 0), NULL, "1099511627776 bytes, more than the 100000000");
    assert_refused(file_of("{}", UINT64_MAX, 0), NULL, "more than the 100000000");
    assert_refused(file_of("{}", 100000001, 0), NULL, "more than the 100000000");
    assert_refused(file_of("{}", 100000000, 0), NULL, "but only 2 follow");
    assert_refused(files_path("missing"), NULL, "No such file");
    assert_refused(files_dir, NULL, "not a regular file");
}

static void a_long_name_is_cut_in_messages(void **state)
{
    (void)state;
    static char json[60000];
    memset(json, 'n', sizeof json - 1);
    memcpy(json, "{\"", 2);
    strcpy(json + 50000, "\":{\"dtype\":\"U8\"}}");
    refuse(json, 0, NULL, "nnn...\": it has no shape");
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    const char *path = file_of(json, sizeof json - 1, 11);
    for (off_t nbytes = 8 + (off_t)sizeof json - 1 + 10; nbytes >= 0; nbytes--) {
        tdmi_safetensors *file;
        assert_int_equal(truncate(path, nbytes), 0);
        assert_int_equal(tdmi_safetensors_open(path, &file), TDM_ERR_BAD_FILE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found_with_shape_and_values),
        cmocka_unit_test(shapes_and_ranges_that_do_not_agree_are_refused),
        cmocka_unit_test(numbers_that_are_no_sizes_are_refused),
        cmocka_unit_test(other_kinds_of_headers_are_refused),
        cmocka_unit_test(header_lengths_are_checked_before_memory_is_taken),
        cmocka_unit_test(a_long_name_is_cut_in_messages),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
