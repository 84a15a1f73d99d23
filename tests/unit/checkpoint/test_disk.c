/* test_disk.c - exact access, space, hashes. */
#include "checkpoint/disk.h"

#include "core/file.h"
#include "core/memory.h"
#include "files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static void a_file_is_written_once_and_read_back(void **state)
{
    (void)state;
    const char *path = files_path("whole");
    assert_int_equal(tdmi_disk_write_file(path, "hello", 5), TDM_OK);
    assert_int_equal(tdmi_disk_write_file(path, "other", 5), TDM_ERR_SYSTEM); /* never over what is there */
    assert_non_null(strstr(tdm_error_text(), path));
    char *text;
    size_t nbytes;
    assert_int_equal(tdmi_disk_read_file(path, 5, &text, &nbytes), TDM_OK);
    assert_int_equal(nbytes, 5);
    assert_string_equal(text, "hello");
    tdmi_free(text);
    assert_int_equal(tdmi_disk_read_file(path, 4, &text, &nbytes), TDM_ERR_BAD_FILE);
    assert_int_equal(tdmi_disk_read_file(files_path("none"), 4, &text, &nbytes), TDM_ERR_BAD_FILE);
    assert_int_equal(tdmi_disk_read_file(files_dir, 4, &text, &nbytes), TDM_ERR_BAD_FILE);
}

static void reading_beyond_the_end_names_the_byte(void **state)
{
    (void)state;
    const char *path = files_write("short", "12345", 5);
    int fd = open(path, O_RDONLY);
    char out[8];
    assert_int_equal(tdmi_file_read(path, fd, out, 4, 1), TDM_OK);
    assert_memory_equal(out, "2345", 4);
    assert_int_equal(tdmi_file_read(path, fd, out, 8, 2), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "ends at byte 5; 5 more were expected"));
    close(fd);
}

static void more_space_than_there_is_is_refused_with_both_numbers(void **state)
{
    (void)state;
    const char *path = files_write("huge", "", 0);
    int fd = open(path, O_RDWR);
    assert_int_equal(tdmi_disk_reserve(path, fd, (uint64_t)1 << 60), TDM_ERR_NO_SPACE);
    assert_non_null(strstr(tdm_error_text(), "it needs 1152921504606846976 bytes, "));
    assert_non_null(strstr(tdm_error_text(), " are free on its file system"));
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(tdmi_disk_reserve(path, fd, 100000), TDM_OK);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, 100000);
    close(fd);
}

static void a_full_device_is_no_space(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_RDWR);
    if (fd < 0)
        skip();
    assert_int_equal(tdmi_disk_write("/dev/full", fd, "x", 1, 0), TDM_ERR_NO_SPACE);
    close(fd);
}

static void a_hash_changes_with_every_byte(void **state)
{
    (void)state;
    uint64_t nbytes, hash, other;
    assert_int_equal(tdmi_disk_hash(files_write("empty", "", 0), &nbytes, &hash), TDM_OK);
    assert_int_equal(nbytes, 0);
    assert_true(hash == 0xef46db3751d8e999u); /* XXH64 of nothing */
    assert_int_equal(tdmi_disk_hash(files_write("abc", "abc", 3), &nbytes, &hash), TDM_OK);
    assert_true(hash == 0x44bc2cf5ad770999u);
    assert_int_equal(tdmi_disk_hash(files_write("abd", "abd", 3), &nbytes, &other), TDM_OK);
    assert_true(hash != other);
    assert_int_equal(tdmi_disk_hash(files_path("none"), &nbytes, &hash), TDM_ERR_BAD_FILE);
}

static void a_path_that_is_too_long_is_an_error(void **state)
{
    (void)state;
    char path[TDMI_PATH_MAX], longer[TDMI_PATH_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(tdmi_disk_path(path, "%s/%d", "dir", 7), TDM_OK);
    assert_string_equal(path, "dir/7");
    assert_int_equal(tdmi_disk_path(path, "%s/a", longer), TDM_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_written_once_and_read_back),
        cmocka_unit_test(reading_beyond_the_end_names_the_byte),
        cmocka_unit_test(more_space_than_there_is_is_refused_with_both_numbers),
        cmocka_unit_test(a_full_device_is_no_space),
        cmocka_unit_test(a_hash_changes_with_every_byte),
        cmocka_unit_test(a_path_that_is_too_long_is_an_error),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
