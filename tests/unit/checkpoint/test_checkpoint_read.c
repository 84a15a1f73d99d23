/* test_checkpoint_read.c - every file cut at every byte, every byte changed, files mixed up; finding the newest whole one. */
#include "core/log.h"
#include "core/memory.h"
#include "saved.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *const all_files[] = {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"};
enum { FILES = 4 };
static int warnings;

static void count_warnings(tdmi_area area, tdmi_level level, const char *line, void *arg)
{
    (void)area, (void)line, (void)arg;
    warnings += level <= TDMI_LEVEL_WARN;
}

static const char *path_in(const char *run, uint64_t step, const char *file)
{
    static char path[TDMI_PATH_MAX];
    assert_int_equal(tdmi_disk_path(path, "%s/step-%llu/%s", run, (unsigned long long)step, file), TDM_OK);
    return path;
}

static const char *run_with(const char *name, uint64_t last)
{
    const char *run = files_path(name);
    assert_int_equal(mkdir(run, 0777), 0);
    for (uint64_t step = 1; step <= last; step++)
        assert_int_equal(saved_write(run, step, 0), TDM_OK);
    return run;
}

static void overwrite(const char *path, const char *data, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
}

static tdm_status open_step(const char *run, uint64_t step, bool verify)
{
    tdmi_checkpoint *c = NULL;
    tdm_status st = tdmi_checkpoint_open(path_in(run, step, ""), verify, &c);
    tdmi_checkpoint_close(c);
    return st;
}

static void a_file_cut_at_any_byte_is_found_without_reading_it_all(void **state)
{
    (void)state;
    const char *run = run_with("cut", 1);
    for (int i = 0; i < FILES; i++) {
        char *whole;
        size_t nbytes;
        assert_int_equal(tdmi_disk_read_file(path_in(run, 1, all_files[i]), 1 << 20, &whole, &nbytes), TDM_OK);
        assert_true(nbytes > 10);
        for (size_t cut = nbytes; cut-- > 0;) {
            assert_int_equal(truncate(path_in(run, 1, all_files[i]), (off_t)cut), 0);
            assert_int_equal(open_step(run, 1, false), TDM_ERR_BAD_FILE);
            assert_non_null(strstr(tdm_error_text(), all_files[i]));
        }
        overwrite(path_in(run, 1, all_files[i]), whole, nbytes);
        tdmi_free(whole);
        assert_int_equal(open_step(run, 1, true), TDM_OK);
    }
}

static void a_changed_byte_is_found(void **state)
{
    (void)state;
    const char *run = run_with("changed", 1);
    for (int i = 0; i < FILES; i++) {
        char *whole;
        size_t nbytes;
        assert_int_equal(tdmi_disk_read_file(path_in(run, 1, all_files[i]), 1 << 20, &whole, &nbytes), TDM_OK);
        int fd = open(path_in(run, 1, all_files[i]), O_WRONLY);
        for (size_t at = 0; at < nbytes; at++) {
            char changed = (char)(whole[at] ^ 4);
            assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
            assert_int_equal(open_step(run, 1, true), TDM_ERR_BAD_FILE);
            assert_non_null(strstr(tdm_error_text(), all_files[i]));
            assert_int_equal(pwrite(fd, whole + at, 1, (off_t)at), 1);
        }
        close(fd);
        tdmi_free(whole);
        assert_int_equal(open_step(run, 1, true), TDM_OK);
    }
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    const char *run = run_with("missing", 1);
    for (int i = 0; i < FILES; i++) {
        char aside[TDMI_PATH_MAX];
        assert_int_equal(tdmi_disk_path(aside, "%s/aside", run), TDM_OK);
        assert_int_equal(rename(path_in(run, 1, all_files[i]), aside), 0);
        assert_int_equal(open_step(run, 1, true), TDM_ERR_BAD_FILE);
        assert_non_null(strstr(tdm_error_text(), all_files[i]));
        assert_int_equal(rename(aside, path_in(run, 1, all_files[i])), 0);
    }
}

static void files_of_another_checkpoint_are_found(void **state)
{
    (void)state;
    const char *run = run_with("mixed", 2);
    for (int i = 0; i < FILES; i++) {
        char *mine, *other;
        size_t nbytes, other_nbytes;
        assert_int_equal(tdmi_disk_read_file(path_in(run, 1, all_files[i]), 1 << 20, &mine, &nbytes), TDM_OK);
        assert_int_equal(tdmi_disk_read_file(path_in(run, 2, all_files[i]), 1 << 20, &other, &other_nbytes), TDM_OK);
        overwrite(path_in(run, 1, all_files[i]), other, other_nbytes);
        const bool equal = nbytes == other_nbytes && memcmp(mine, other, nbytes) == 0; /* config.json is */
        assert_int_equal(open_step(run, 1, true), equal ? TDM_OK : TDM_ERR_BAD_FILE);
        overwrite(path_in(run, 1, all_files[i]), mine, nbytes);
        tdmi_free(mine);
        tdmi_free(other);
    }
    char renamed[TDMI_PATH_MAX];
    assert_int_equal(tdmi_disk_path(renamed, "%s/step-9", run), TDM_OK);
    assert_int_equal(rename(path_in(run, 2, ""), renamed), 0);
    assert_int_equal(open_step(run, 9, true), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "holds a checkpoint of step 2"));
    assert_int_equal(tdmi_disk_path(renamed, "%s/best", run), TDM_OK);
    assert_int_equal(rename(path_in(run, 9, ""), renamed), 0);
    tdmi_checkpoint *c;
    assert_int_equal(tdmi_checkpoint_open(renamed, true, &c), TDM_OK); /* a name of the user's own */
    tdmi_checkpoint_close(c);
    tdmi_checkpoint_close(NULL);
}

static void the_newest_whole_checkpoint_is_found(void **state)
{
    (void)state;
    const char *run = run_with("find", 12); /* step-9 sorts behind step-12 by name, not by number */
    uint64_t step = 0;
    bool found = false;
    assert_int_equal(tdmi_checkpoint_find(run, &step, &found), TDM_OK);
    assert_true(found && step == 12);
    char other[TDMI_PATH_MAX];
    assert_int_equal(tdmi_disk_path(other, "%s/.step-99.tmp-new", run), TDM_OK);
    assert_int_equal(rename(path_in(run, 7, ""), other), 0); /* unfinished */
    assert_int_equal(tdmi_disk_path(other, "%s/step-0099", run), TDM_OK);
    assert_int_equal(rename(path_in(run, 8, ""), other), 0); /* not a name of ours */
    assert_int_equal(tdmi_checkpoint_find(run, &step, &found), TDM_OK);
    assert_true(found && step == 12);
    assert_int_equal(warnings, 0);
    assert_int_equal(truncate(path_in(run, 12, "optimizer.safetensors"), 100), 0);
    assert_int_equal(tdmi_checkpoint_find(run, &step, &found), TDM_OK);
    assert_true(found && step == 11);
    assert_int_equal(warnings, 1);
}

static void no_checkpoint_and_no_whole_checkpoint_are_different(void **state)
{
    (void)state;
    const char *run = run_with("none", 0);
    uint64_t step;
    bool found = true;
    assert_int_equal(tdmi_checkpoint_find(run, &step, &found), TDM_OK);
    assert_false(found);
    assert_int_equal(tdmi_checkpoint_find(files_path("nowhere"), &step, &found), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "cannot open run directory"));
    run = run_with("damaged", 2);
    assert_int_equal(truncate(path_in(run, 1, "state.json"), 100), 0);
    assert_int_equal(truncate(path_in(run, 2, "model.safetensors"), 100), 0);
    assert_int_equal(tdmi_checkpoint_find(run, &step, &found), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "is whole; the newest: "));
    assert_non_null(strstr(tdm_error_text(), "step-2/model.safetensors has 100 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_at_any_byte_is_found_without_reading_it_all),
        cmocka_unit_test(a_changed_byte_is_found),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(files_of_another_checkpoint_are_found),
        cmocka_unit_test(the_newest_whole_checkpoint_is_found),
        cmocka_unit_test(no_checkpoint_and_no_whole_checkpoint_are_different),
    };
    tdmi_log_set_sink(count_warnings, NULL);
    return cmocka_run_group_tests(tests, saved_begin, saved_end) != 0;
}
