/* test_offload.c - optimizer state in a file gives the same bits; a folder that is missing or too small is one clear error. */
#include "tiny_run.h"

#include "on_ranks.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/tandem-offload-XXXXXX";

static tiny_run run_with(const char *offload, int n, int shard, double clip)
{
    tiny_run *run = tiny_run_create(shard, clip), copy;
    snprintf(run->offload, sizeof run->offload, "%s", offload);
    ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = RANKS_PROCESSES}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

static void state_in_a_file_changes_no_bit(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++)
        for (int shard = 0; shard < 3; shard++) {
            tiny_run memory = run_with("", 2, shard, clip), file = run_with(folder, 2, shard, clip);
            assert_int_equal(memory.weights, file.weights);
            assert_memory_equal(memory.loss, file.loss, sizeof file.loss);
            assert_int_equal(file.allocations, 0);
        }
    assert_int_equal(rmdir(folder), 0); /* nothing has stayed in it */
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/tandem-offload-XXXXXX")));
}

/* arg: a tiny_run whose folder cannot take the state. */
static const char *refused_body(tdm_group *group, void *arg)
{
    tiny_run *run = arg;
    if (strcmp(run->offload, folder) == 0 && (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                                              mount("tmpfs", folder, "tmpfs", 0, "size=64k") != 0))
        return ranks_say("cannot mount a small disk");
    const char *wrong = tiny_run_body(group, arg);
    return wrong == NULL ? ranks_say("no error") : wrong;
}

static bool may_mount(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                      mount("tmpfs", folder, "tmpfs", 0, "size=64k") == 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The text must have all of `parts`; else what it was. */
static const char *expects(tdm_group *group, tiny_run *run, const char *const *parts)
{
    const char *text = refused_body(group, run);
    for (; *parts != NULL; parts++)
        if (strstr(text, *parts) == NULL)
            return text;
    return NULL;
}

static const char *full_body(tdm_group *group, void *arg)
{
    static const char *const parts[] = {"--offload /tmp/tandem-offload-", "the optimizer state of a rank takes 0.2 MiB, 1 rank of this node "
                                        "write there, and 0.1 MiB are free", "give a folder with more room", NULL};
    return expects(group, arg, parts);
}

static const char *missing_body(tdm_group *group, void *arg)
{
    static const char *const parts[] = {"--offload /nowhere: cannot make a file there: No such file or directory", NULL};
    return expects(group, arg, parts);
}

static void run_refused(const char *offload, ranks_body body)
{
    tiny_run *run = tiny_run_create(1, 1);
    snprintf(run->offload, sizeof run->offload, "%s", offload);
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm", .mode = RANKS_PROCESSES}, body, run);
    tiny_run_free(run);
}

static void a_full_disk_is_an_error_before_the_first_step(void **state)
{
    (void)state;
    if (!may_mount())
        skip();
    run_refused(folder, full_body);
}

static void a_folder_that_is_missing_is_named(void **state)
{
    (void)state;
    run_refused("/nowhere", missing_body);
}

int main(void)
{
    if (mkdtemp(folder) == NULL)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_in_a_file_changes_no_bit),
        cmocka_unit_test(a_full_disk_is_an_error_before_the_first_step),
        cmocka_unit_test(a_folder_that_is_missing_is_named),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed != 0;
}
