/* test_checkpoint_write.c - saving by several ranks, replacing, keeping, dying, and running out of space. */
#include "saved.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

/* A fresh run directory. */
static const char *run_of(const char *name)
{
    const char *run = files_path(name);
    assert_int_equal(mkdir(run, 0777), 0);
    return run;
}

static int entries(const char *run)
{
    int count = 0;
    DIR *dir = opendir(run);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static bool exists(const char *run, const char *name)
{
    char path[TDMI_PATH_MAX];
    assert_int_equal(tdmi_disk_path(path, "%s/%s", run, name), TDM_OK);
    return access(path, F_OK) == 0;
}

static void ranks_save_together_and_all_is_read_back(void **state)
{
    (void)state;
    const char *run = run_of("together");
    tdmi_checkpoint_writer *one, *two;
    assert_int_equal(tdmi_checkpoint_begin(run, 7, saved_model, saved_optimizer, &one), TDM_OK);
    assert_int_equal(tdmi_checkpoint_join(run, 7, saved_model, saved_optimizer, &two), TDM_OK);
    float values[SAVED_COUNT];
    saved_values(7, values);
    tdmi_checkpoint_writer *const ranks[] = {one, two};
    for (size_t rank = 0; rank < 2; rank++) {
        const size_t first = rank * 123, count = rank == 0 ? 123 : SAVED_COUNT - 123;
        assert_int_equal(tdmi_safetensors_write(tdmi_checkpoint_model_writer(ranks[rank]), 0, first, count, values + first), TDM_OK);
        assert_int_equal(tdmi_safetensors_write(tdmi_checkpoint_optimizer_writer(ranks[rank]), 0, first, count, values + first),
                         TDM_OK);
        assert_int_equal(tdmi_checkpoint_sync(ranks[rank]), TDM_OK);
    }
    assert_false(exists(run, "step-7"));
    const tdmi_checkpoint_state said = saved_state(7);
    assert_int_equal(tdmi_checkpoint_commit(two, &said, 0), TDM_ERR_INVALID); /* not the rank that began */
    assert_int_equal(tdmi_checkpoint_commit(one, &said, 0), TDM_OK);
    assert_int_equal(tdmi_checkpoint_commit(one, &said, 0), TDM_ERR_INVALID);
    tdmi_checkpoint_end(one);
    tdmi_checkpoint_end(two);
    assert_int_equal(entries(run), 1);
    assert_true(saved_is_whole(run, 7));

    char folder[TDMI_PATH_MAX];
    assert_int_equal(tdmi_checkpoint_folder(run, 7, folder), TDM_OK);
    tdmi_checkpoint *c;
    assert_int_equal(tdmi_checkpoint_open(folder, true, &c), TDM_OK);
    const tdmi_checkpoint_state *read = tdmi_checkpoint_state_of(c);
    assert_true(read->step == 7 && read->epoch == 2 && read->next == 96);
    assert_int_equal(read->random_nbytes, sizeof saved_random);
    assert_memory_equal(read->random, saved_random, sizeof saved_random);
    assert_string_equal(read->kernels, said.kernels);
    assert_string_equal(read->config, said.config);
    assert_int_equal(read->note_count, 2);
    assert_string_equal(tdmi_checkpoint_note_of(c, "data"), saved_notes[1].value);
    assert_null(tdmi_checkpoint_note_of(c, "none"));
    tdmi_checkpoint_close(c);
}

static void what_is_not_committed_leaves_no_trace(void **state)
{
    (void)state;
    const char *run = run_of("trace");
    tdmi_checkpoint_writer *writer;
    assert_int_equal(tdmi_checkpoint_begin(run, 1, saved_model, saved_optimizer, &writer), TDM_OK);
    assert_int_equal(saved_fill(writer, 1), TDM_OK);
    const tdmi_checkpoint_state other = saved_state(2);
    assert_int_equal(tdmi_checkpoint_commit(writer, &other, 0), TDM_ERR_INVALID);
    assert_int_equal(entries(run), 1);
    tdmi_checkpoint_end(writer);
    assert_int_equal(entries(run), 0);
    assert_int_equal(tdmi_checkpoint_begin(files_path("nowhere"), 1, saved_model, saved_optimizer, &writer), TDM_ERR_SYSTEM);
    assert_non_null(strstr(tdm_error_text(), "while saving step 1 into"));
    assert_int_equal(tdmi_checkpoint_join(run, 1, saved_model, saved_optimizer, &writer), TDM_ERR_SYSTEM);
    assert_non_null(strstr(tdm_error_text(), "is it the same directory on all ranks?"));
    assert_int_equal(tdmi_checkpoint_begin(run, UINT64_MAX, saved_model, saved_optimizer, &writer), TDM_ERR_INVALID);
    tdmi_checkpoint_end(NULL);
}

static void the_newest_are_kept(void **state)
{
    (void)state;
    const char *run = run_of("keep");
    for (uint64_t step = 5; step <= 25; step += 5)
        assert_int_equal(saved_write(run, step, 3), TDM_OK);
    assert_int_equal(entries(run), 3);
    assert_true(saved_is_whole(run, 15) && saved_is_whole(run, 20) && saved_is_whole(run, 25));
    assert_int_equal(saved_write(run, 10, 1), TDM_OK); /* a newer one than this is nobody's to remove */
    assert_int_equal(entries(run), 4);
    assert_int_equal(saved_write(run, 100, 1), TDM_OK);
    assert_int_equal(entries(run), 1);
    assert_true(saved_is_whole(run, 100));
}

static void a_step_that_is_there_is_replaced(void **state)
{
    (void)state;
    const char *run = run_of("replace");
    assert_int_equal(saved_write(run, 4, 0), TDM_OK);
    char path[TDMI_PATH_MAX];
    assert_int_equal(tdmi_disk_path(path, "%s/step-4/model.safetensors", run), TDM_OK);
    assert_int_equal(truncate(path, 10), 0);
    assert_false(saved_is_whole(run, 4));
    assert_int_equal(saved_write(run, 4, 0), TDM_OK);
    assert_true(saved_is_whole(run, 4));
    assert_int_equal(entries(run), 1);
}

static void saving_removes_what_dead_jobs_left(void **state)
{
    (void)state;
    const char *run = run_of("stale");
    char path[TDMI_PATH_MAX];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tdmi_disk_path(path, "%s/.step-3.tmp-%s", run, i == 0 ? "new" : "old"), TDM_OK);
        assert_int_equal(mkdir(path, 0777), 0);
        strcat(path, "/model.safetensors");
        assert_int_equal(tdmi_disk_write_file(path, "half", 4), TDM_OK);
    }
    assert_int_equal(saved_write(run, 3, 0), TDM_OK);
    assert_int_equal(entries(run), 1);
    assert_int_equal(tdmi_disk_path(path, "%s/.step-9.tmp-new", run), TDM_OK);
    assert_int_equal(mkdir(path, 0777), 0);
    tdmi_checkpoint_clean(run);
    assert_int_equal(entries(run), 1);
}

static void killed_at_any_moment_the_last_whole_one_is_found(void **state)
{
    (void)state;
    const char *run = run_of("killed");
    _Atomic uint64_t *committed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(committed != MAP_FAILED);
    uint32_t chance = 1;
    for (int kill_number = 0; kill_number < 25; kill_number++) {
        const uint64_t before = *committed;
        pid_t child = fork();
        if (child == 0)
            for (uint64_t step = before + 1;; step++) {
                if (saved_write(run, step, 2) != TDM_OK)
                    _exit(1);
                *committed = step;
            }
        chance = chance * 1664525u + 1013904223u;
        for (int wait = 0; *committed == before && wait < 100000; wait++) /* at least one, so that the run advances */
            usleep(200);
        usleep(chance >> 19); /* up to 8 ms: several saves */
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); /* it was still saving without an error */
        uint64_t step;
        bool found;
        assert_int_equal(tdmi_checkpoint_find(run, &step, &found), TDM_OK);
        assert_true(found && (step == *committed || step == *committed + 1));
        assert_true(saved_is_whole(run, step));
        *committed = step;
    }
    munmap((void *)committed, 4096);
}

static void more_than_the_disk_holds_is_refused_at_once(void **state)
{
    (void)state;
    const char *run = run_of("giant");
    assert_int_equal(saved_write(run, 1, 0), TDM_OK);
    tdmi_layout *giant;
    assert_int_equal(tdmi_layout_create(&giant), TDM_OK);
    assert_int_equal(tdmi_layout_add(giant, "exp_avg.w", 1, (uint64_t[]){(uint64_t)1 << 58}), TDM_OK);
    tdmi_checkpoint_writer *writer;
    assert_int_equal(tdmi_checkpoint_begin(run, 2, saved_model, giant, &writer), TDM_ERR_NO_SPACE);
    assert_non_null(strstr(tdm_error_text(), "optimizer.safetensors: it needs 115292150460684"));
    assert_non_null(strstr(tdm_error_text(), "checkpoints of before are untouched"));
    assert_int_equal(entries(run), 1);
    assert_true(saved_is_whole(run, 1));
    tdmi_layout_destroy(giant);
}

/* In a child that has a file system of 64 KiB for itself; the exit code says where it went wrong, 77: it may not mount. */
static int fill_a_small_disk(const char *run)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", run, "tmpfs", 0, "size=64k") != 0)
        return 77;
    if (saved_write(run, 1, 0) != TDM_OK)
        return 1;
    bool full = false;
    for (uint64_t step = 2; step < 100 && !full; step++) {
        tdm_status st = saved_write(run, step, 0);
        if (st != TDM_OK && st != TDM_ERR_NO_SPACE)
            return 2;
        full = st == TDM_ERR_NO_SPACE;
        if (full && (strstr(tdm_error_text(), "it needs ") == NULL || strstr(tdm_error_text(), " are free") == NULL))
            return 3;
        if (full && (entries(run) != (int)step - 1 || !saved_is_whole(run, step - 1)))
            return 4; /* the temporary is gone, the last one is whole */
    }
    return full ? 0 : 5;
}

static void a_full_disk_leaves_the_previous_checkpoint_whole(void **state)
{
    (void)state;
    const char *run = run_of("small");
    pid_t child = fork();
    if (child == 0)
        _exit(fill_a_small_disk(run));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_save_together_and_all_is_read_back),
        cmocka_unit_test(what_is_not_committed_leaves_no_trace),
        cmocka_unit_test(the_newest_are_kept),
        cmocka_unit_test(a_step_that_is_there_is_replaced),
        cmocka_unit_test(saving_removes_what_dead_jobs_left),
        cmocka_unit_test(killed_at_any_moment_the_last_whole_one_is_found),
        cmocka_unit_test(more_than_the_disk_holds_is_refused_at_once),
        cmocka_unit_test(a_full_disk_leaves_the_previous_checkpoint_whole),
    };
    return cmocka_run_group_tests(tests, saved_begin, saved_end) != 0;
}
