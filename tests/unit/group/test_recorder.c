/* test_recorder.c - what a job leaves of its calls: nothing when all went well, else enough to say who did what. */
#include "on_ranks.h"

#include "core/clock.h"
#include "trace/recording.h"

#include <tandem/recorder.h>

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static const char *const transports[] = {"shm", "tcp"};
static char base[256], job[300];

static int set_up(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/test-group-recorder-%d", (int)getpid());
    snprintf(job, sizeof job, "%s/job", base);
    return setenv("TANDEM_RECORDER_DIR", base, 1) + setenv("TANDEM_JOB_ID", "job", 1);
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(base);
}

/* Calls visit for each file of the job and removes it; gives how many there were. */
static int take_files(void (*visit)(const char *path, void *arg), void *arg)
{
    DIR *dir = opendir(job);
    int count = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[600];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", job, entry->d_name);
        if (visit != NULL)
            visit(path, arg);
        unlink(path);
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(job);
    return count;
}

static const char *works_well(tdm_group *group, void *arg)
{
    (void)arg;
    float value = 1;
    for (int i = 0; i < 50; i++)
        CHECK_OK(tdm_allreduce(group, &value, &value, 1, TDM_F32, TDM_MAX, NULL));
    CHECK(tdm_recorder_folder(group) != NULL && strcmp(tdm_recorder_folder(group), job) == 0, "folder");
    return NULL;
}

static void a_job_that_ends_well_leaves_nothing(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = RANKS_PROCESSES}, works_well, NULL);
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t]}, works_well, NULL);
        assert_int_not_equal(access(job, F_OK), 0);
    }
}

static const char *dumps(tdm_group *group, void *arg)
{
    (void)arg;
    char path[300];
    float values[8] = {0};
    snprintf(path, sizeof path, "%s/dump-%d", base, tdm_group_rank(group));
    tdm_group_set_label(group, "step 12");
    CHECK_OK(tdm_broadcast(group, values, 8, TDM_F32, 1, NULL));
    tdm_group_set_label(group, NULL);
    CHECK_OK(tdm_allreduce(group, values, values, 5, TDM_F32, TDM_MAX, NULL));
    CHECK_OK(tdm_recorder_dump(group, path));
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    CHECK(root != NULL, "%s", error.text);
    unlink(path);
    const json_t *calls = json_object_get(root, "calls");
    CHECK(json_array_size(calls) == 3, "%zu calls", json_array_size(calls));
    const char *const ops[] = {"barrier", "broadcast", "allreduce"}, *const labels[] = {"", "step 12", ""};
    const int counts[] = {0, 8, 5}, roots[] = {-1, 1, -1};
    for (int i = 0; i < 3; i++) {
        const json_t *call = json_array_get(calls, (size_t)i);
        CHECK(strcmp(json_string_value(json_object_get(call, "op")), ops[i]) == 0, "op %d", i);
        CHECK(strcmp(json_string_value(json_object_get(call, "label")), labels[i]) == 0, "label %d", i);
        CHECK(strcmp(json_string_value(json_object_get(call, "state")), "finished") == 0, "state %d", i);
        CHECK(json_integer_value(json_object_get(call, "count")) == counts[i], "count %d", i);
        CHECK(json_integer_value(json_object_get(call, "root")) == roots[i], "root %d", i);
        CHECK(json_integer_value(json_object_get(call, "call")) == i + 1, "number %d", i);
    }
    json_decref(root);
    return NULL;
}

static void calls_and_labels_are_in_the_dump(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, dumps, NULL);
}

static const char *dies_in_the_third_call(tdm_group *group, void *arg)
{
    (void)arg;
    float value = 1;
    tdm_group_set_label(group, "step 3");
    CHECK_OK(tdm_barrier(group, NULL));
    if (tdm_group_rank(group) == 1) {
        tdm_work *work;
        tdm_group_set_label(group, "last words");
        CHECK_OK(tdm_broadcast(group, &value, 1, TDM_F32, 2, &work)); /* rank 2 does not come */
        kill(getpid(), SIGKILL);
    }
    if (tdm_group_rank(group) == 2)
        nanosleep(&(struct timespec){.tv_nsec = 300 * TDMI_NS_PER_MS}, NULL);
    const tdm_status status = tdm_barrier(group, NULL);
    CHECK(status != TDM_OK, "nobody died");
    CHECK(strstr(tdm_error_text(), "tandem doctor /tmp/test-group-recorder-") != NULL, "text: %s", tdm_error_text());
    return NULL;
}

typedef struct found {
    int rings, dumps, said;
} found;

static void look(const char *path, void *arg)
{
    found *f = arg;
    static uint8_t bytes[1 << 19];
    const bool is_ring = strcmp(path + strlen(path) - 5, ".ring") == 0;
    FILE *file = fopen(path, "rb");
    const size_t got = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    tdmi_recording r;
    f->rings += is_ring;
    f->dumps += !is_ring;
    if (!is_ring || tdmi_recording_parse(bytes, got, &r) != TDM_OK)
        return;
    const tdmi_recorded_call *last = &r.call[r.count - 1];
    f->said = r.rank == 1 && strcmp(last->op, "broadcast") == 0 && strcmp(last->label, "last words") == 0 && last->number == 3 &&
              last->root == 2 && last->state < TDMI_CALL_FINISHED;
    tdmi_recording_free(&r);
}

static void a_killed_rank_leaves_its_ring_and_the_others_dumps(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        found f = {0};
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t], .mode = RANKS_PROCESSES, .timeout_s = 5, .dies = 1u << 1},
                  dies_in_the_third_call, NULL);
        take_files(look, &f);
        assert_int_equal(f.rings, 1);
        assert_int_equal(f.dumps, 2);
        assert_true(f.said);
    }
}

static const char *misses_rank_2(tdm_group *group, void *arg)
{
    (void)arg;
    if (tdm_group_rank(group) == 2)
        nanosleep(&(struct timespec){.tv_nsec = 500 * TDMI_NS_PER_MS}, NULL);
    CHECK(tdm_barrier(group, NULL) == TDM_ERR_TIMEOUT, "status");
    return NULL;
}

static void look_who_is_missing(const char *path, void *arg)
{
    int *seen = arg;
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *calls = json_object_get(root, "calls"), *last = json_array_get(calls, json_array_size(calls) - 1);
    if (json_integer_value(json_object_get(root, "rank")) != 2) {
        *seen += strcmp(json_string_value(json_object_get(last, "state")), "failed") == 0 &&
                 json_integer_value(json_object_get(last, "missing")) == 1 &&
                 json_integer_value(json_object_get(last, "first_missing")) == 2 && json_array_size(json_object_get(last, "arrived")) == 3;
    }
    json_decref(root);
}

static void a_dump_says_who_had_arrived(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        int seen = 0;
        ranks_run(&(ranks_spec){.n = 4, .transport = transports[t], .timeout_s = 0.3}, misses_rank_2, NULL);
        assert_int_equal(take_files(look_who_is_missing, &seen), 4);
        assert_int_equal(seen, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_ends_well_leaves_nothing),
        cmocka_unit_test(calls_and_labels_are_in_the_dump),
        cmocka_unit_test(a_killed_rank_leaves_its_ring_and_the_others_dumps),
        cmocka_unit_test(a_dump_says_who_had_arrived),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down) != 0;
}
