/* test_folder.c - private folders, those of the dead, and what is not entered. */
#include "live/folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(base, "/tmp/test-folder-XXXXXX");
    if (mkdtemp(base) == NULL)
        return 1;
    return setenv("TMPDIR", base, 1);
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(base); /* nothing may be left in it */
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void touch(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void only_its_owner_may_enter_and_it_goes_with_its_files(void **state)
{
    (void)state;
    tdmi_folder folder;
    struct stat info;
    char path[128];
    assert_int_equal(tdmi_folder_make(&folder), TDM_OK);
    assert_memory_equal(folder.path, base, strlen(base));
    assert_int_equal(stat(folder.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    tdmi_folder_trace(&folder, "rank0.pt.trace.json", path, sizeof path);
    touch(path);
    tdmi_folder_remove(&folder);
    assert_false(exists(path));
    tdmi_folder_remove(&folder); /* twice is fine */
}

static void the_folder_of_a_killed_owner_goes_and_that_of_a_living_one_stays(void **state)
{
    (void)state;
    tdmi_folder living, next;
    assert_int_equal(tdmi_folder_make(&living), TDM_OK);
    int names[2];
    assert_int_equal(pipe(names), 0);
    const pid_t child = fork();
    if (child == 0) {
        tdmi_folder left;
        if (tdmi_folder_make(&left) != TDM_OK || write(names[1], left.path, sizeof left.path) != (ssize_t)sizeof left.path)
            _exit(1);
        _exit(0); /* as after a kill: it does not remove it */
    }
    char dead[sizeof living.path];
    assert_int_equal(read(names[0], dead, sizeof dead), sizeof dead);
    waitpid(child, NULL, 0);
    assert_true(exists(dead));
    assert_int_equal(tdmi_folder_make(&next), TDM_OK);
    assert_false(exists(dead));
    assert_true(exists(living.path));
    tdmi_folder_remove(&next);
    tdmi_folder_remove(&living);
    close(names[0]);
    close(names[1]);
}

static void a_folder_that_is_only_called_so_stays(void **state)
{
    (void)state;
    tdmi_folder folder;
    char others[96], kept[128];
    snprintf(others, sizeof others, "%s/tandem-doctor-page.1", base);
    snprintf(kept, sizeof kept, "%s/results", others);
    assert_int_equal(mkdir(others, 0700), 0);
    touch(kept);
    assert_int_equal(tdmi_folder_make(&folder), TDM_OK);
    assert_true(exists(kept));
    tdmi_folder_remove(&folder);
    assert_int_equal(unlink(kept) | rmdir(others), 0);
}

static void links_and_folders_in_it_lead_nowhere(void **state)
{
    (void)state;
    tdmi_folder folder;
    char other[96], kept[128], link[160], within[160], path[sizeof folder.path], traces[sizeof folder.traces];
    snprintf(other, sizeof other, "%s/other", base);
    snprintf(kept, sizeof kept, "%s/file", other);
    assert_int_equal(mkdir(other, 0700), 0);
    touch(kept);
    assert_int_equal(tdmi_folder_make(&folder), TDM_OK);
    snprintf(link, sizeof link, "%s/link", folder.traces);
    snprintf(within, sizeof within, "%s/within", folder.traces);
    assert_int_equal(symlink(other, link), 0);
    assert_int_equal(mkdir(within, 0700), 0);
    memcpy(path, folder.path, sizeof path);
    memcpy(traces, folder.traces, sizeof traces);
    tdmi_folder_remove(&folder);
    assert_true(exists(kept));
    assert_true(exists(within)); /* whoever made it may have it */
    assert_int_equal(rmdir(within) | rmdir(traces) | rmdir(path) | unlink(kept) | rmdir(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_its_owner_may_enter_and_it_goes_with_its_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_folder_of_a_killed_owner_goes_and_that_of_a_living_one_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_is_only_called_so_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_and_folders_in_it_lead_nowhere, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
