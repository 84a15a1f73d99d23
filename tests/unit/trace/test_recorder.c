/* test_recorder.c - calls stand in the file as they were made, whatever becomes of the process. */
#include "trace/recorder.h"

#include "core/clock.h"
#include "trace/recorder_file.h"
#include "trace/recorder_layout.h"
#include "trace/recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static const char *const ops[TDMI_REC_NAMES] = {"allreduce", "broadcast"};
static const char *const dtypes[TDMI_REC_NAMES] = {"float32", "int8"};
static const char *const reductions[TDMI_REC_NAMES] = {"sum", "max"};
static char base[256];

static tdmi_recorder *open_one(const char *job, int rank)
{
    return tdmi_recorder_open(
        &(tdmi_recorder_options){.job = job, .rank = rank, .size = 4, .ops = ops, .dtypes = dtypes, .reductions = reductions});
}

static int set_up(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/test-recorder-%d", (int)getpid());
    return setenv("TANDEM_RECORDER_DIR", base, 1);
}

static int clean_up(void **state)
{
    (void)state;
    return rmdir(base); /* empty: nothing was left behind */
}

/* The one file in the job's folder whose name ends so; reads it whole. */
static size_t read_file(const char *job, const char *end, char path[512], uint8_t *bytes, size_t capacity)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s/%s", base, job);
    path[0] = '\0';
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (strlen(entry->d_name) > strlen(end) && strcmp(entry->d_name + strlen(entry->d_name) - strlen(end), end) == 0)
            snprintf(path, 512, "%s/%.180s", folder, entry->d_name);
    if (dir != NULL)
        closedir(dir);
    FILE *file = path[0] != '\0' ? fopen(path, "rb") : NULL;
    if (file == NULL)
        return 0;
    const size_t got = fread(bytes, 1, capacity, file);
    fclose(file);
    return got;
}

static tdmi_recorder_call call_of(uint64_t number)
{
    return (tdmi_recorder_call){.op = 1, .dtype = 1, .reduction = 0, .root = 3, .count = 100 + number, .number = number};
}

static void remove_job(const char *job, const char *path)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s/%s", base, job);
    unlink(path);
    rmdir(folder);
}

static uint8_t bytes[TDMI_REC_FILE_BYTES + 1];

#define LONG_LABEL "step 2 with a label of 124 bytes, such as names of parameters make, for instance layers.17.attention.projection.weight......"
_Static_assert(sizeof LONG_LABEL == 125, "one character of two bytes fits behind it, and half of another");

static void a_killed_process_leaves_its_last_calls(void **state)
{
    (void)state;
    char path[512];
    const pid_t child = fork();
    if (child == 0) {
        tdmi_recorder_group group;
        tdmi_recorder *recorder = open_one("killed", 2);
        tdmi_recorder_add_group(recorder, "world", 77, 2, 4, &group);
        for (uint64_t i = 1; i <= 1500; i++) {
            const tdmi_recorder_call call = call_of(i);
            tdmi_label_set(&group.label, i < 1500 ? "step 1" : LONG_LABEL "\xc3\xa4\xc3\xa4\xc3\xa4 long");
            const uint64_t index = tdmi_recorder_begin(&group, &call, tdmi_now_ns());
            tdmi_recorder_started(&group, index, i % 2 == 0 || i == 1499);
            if (i == 1499)
                tdmi_recorder_finished_at_once(&group, index);
            else if (i < 1500)
                tdmi_recorder_finished(&group, index, TDMI_CALL_FINISHED);
            else
                tdmi_recorder_arrivals(&group, index, (bool[]){false, true, false, true}, 4);
        }
        kill(getpid(), SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    tdmi_recording recording;
    assert_int_equal(read_file("killed", ".ring", path, bytes, sizeof bytes), TDMI_REC_FILE_BYTES);
    assert_int_equal(tdmi_recording_parse(bytes, TDMI_REC_FILE_BYTES, &recording), TDM_OK);
    assert_int_equal(recording.rank, 2);
    assert_int_equal(recording.size, 4);
    assert_int_equal(recording.pid, child);
    assert_int_equal(recording.count, 1024);
    assert_string_equal(recording.job, "killed");
    for (size_t i = 0; i < 1024; i++) {
        const tdmi_recorded_call *c = &recording.call[i];
        assert_int_equal(c->index, 477 + i);
        assert_int_equal(c->number, 477 + i);
        assert_int_equal(c->count, 577 + i);
        assert_string_equal(c->op, "broadcast");
        assert_string_equal(c->dtype, "int8");
        assert_string_equal(c->group, "world");
        assert_int_equal(c->root, 3);
        assert_int_equal(c->group_rank, 2);
        assert_int_equal(c->group_size, 4);
        assert_true(c->created_ns > 0 && c->started_ns + 1000 >= c->created_ns);
        assert_int_equal(c->state, i < 1023 ? TDMI_CALL_FINISHED : TDMI_CALL_STARTED);
        assert_true(i == 1023 ? c->finished_ns == 0 : c->finished_ns + 1000 >= c->started_ns);
    }
    const tdmi_recorded_call *last = &recording.call[1023];
    assert_string_equal(recording.call[0].label, "step 1");
    assert_string_equal(last->label, LONG_LABEL "\xc3\xa4"); /* 126 bytes: cut between characters */
    assert_int_equal(last[-1].finished_ns, last[-1].created_ns);
    assert_int_equal(last->missing, 2);
    assert_int_equal(last->first_missing, 1);
    assert_int_equal(last->arrived, 5);
    assert_true(last->missed_ns > 0);
    tdmi_recording_free(&recording);
    remove_job("killed", path);
}

/* An entry keeps the second line of the call that had it before, which was labelled and looked at: none of that is the new one's. */
static void a_plain_call_shows_nothing_of_the_one_before(void **state)
{
    (void)state;
    char path[512];
    tdmi_recorder_group group;
    tdmi_recording recording;
    tdmi_recorder *recorder = open_one("plain", 0);
    tdmi_recorder_add_group(recorder, "world", 77, 2, 4, &group);
    tdmi_label_set(&group.label, "step 1");
    for (uint64_t i = 1; i <= 1025; i++) {
        const tdmi_recorder_call call = call_of(i);
        if (i == 1025)
            tdmi_label_set(&group.label, NULL);
        const uint64_t index = tdmi_recorder_begin(&group, &call, tdmi_now_ns());
        if (i < 1025)
            tdmi_recorder_arrivals(&group, index, (bool[]){false, true, false, true}, 4);
    }
    assert_int_equal(read_file("plain", ".ring", path, bytes, sizeof bytes), TDMI_REC_FILE_BYTES);
    assert_int_equal(tdmi_recording_parse(bytes, TDMI_REC_FILE_BYTES, &recording), TDM_OK);
    const tdmi_recorded_call *before = &recording.call[0], *plain = &recording.call[1023];
    assert_int_equal(before->index, 2);
    assert_string_equal(before->label, "step 1");
    assert_int_equal(before->missing, 2);
    assert_int_equal(plain->index, 1025);
    assert_string_equal(plain->label, "");
    assert_int_equal(plain->missing, 0);
    assert_true(plain->missed_ns == 0 && plain->started_ns == 0 && plain->finished_ns == 0);
    tdmi_recording_free(&recording);
    tdmi_recorder_close(recorder);
}

static void a_clean_end_leaves_nothing(void **state)
{
    (void)state;
    struct stat facts;
    tdmi_recorder *one = open_one("clean", 0), *two = open_one("clean", 0);
    assert_non_null(one);
    assert_non_null(two);
    assert_int_equal(stat(tdmi_recorder_folder(one), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    tdmi_recorder_close(one);
    tdmi_recorder_close(two);
    char folder[300];
    snprintf(folder, sizeof folder, "%s/clean", base);
    assert_int_not_equal(stat(folder, &facts), 0);
}

static void a_failure_leaves_json_that_others_can_read(void **state)
{
    (void)state;
    char path[512];
    tdmi_recorder_group group;
    tdmi_recorder *recorder = open_one("../a b", 1);
    tdmi_recorder_add_group(recorder, "a \"name\"", 77, 0, 3, &group);
    const tdmi_recorder_call call = call_of(9);
    const uint64_t index = tdmi_recorder_begin(&group, &call, tdmi_now_ns());
    tdmi_recorder_arrivals(&group, index, (bool[]){false, true, false}, 3);
    tdmi_recorder_finished(&group, index, TDMI_CALL_FAILED);
    tdmi_recorder_fail(recorder, TDM_ERR_TIMEOUT, "rank 1 \\ is away");
    tdmi_recorder_close(recorder);
    assert_int_equal(read_file("_._a_b", ".ring", path, bytes, sizeof bytes), 0); /* the dump says it all */
    const size_t got = read_file("_._a_b", ".json", path, bytes, sizeof bytes);
    json_error_t error;
    json_t *root = json_loadb((char *)bytes, got, 0, &error), *entry;
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "tandem_recorder")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "rank")), 1);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "TDM_ERR_TIMEOUT");
    assert_string_equal(json_string_value(json_object_get(root, "error")), "rank 1 \\ is away");
    entry = json_array_get(json_object_get(root, "calls"), 0);
    assert_string_equal(json_string_value(json_object_get(entry, "group")), "a \"name\"");
    assert_string_equal(json_string_value(json_object_get(entry, "state")), "failed");
    assert_int_equal(json_integer_value(json_object_get(entry, "call")), 9);
    assert_int_equal(json_integer_value(json_object_get(entry, "first_missing")), 1);
    assert_int_equal(json_array_size(json_object_get(entry, "arrived")), 2);
    json_decref(root);
    remove_job("_._a_b", path);
}

static void old_files_of_dead_processes_are_swept_by_the_next_job(void **state)
{
    (void)state;
    char path[3][400], folder[300];
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 25 * 3600}, {.tv_sec = time(NULL) - 25 * 3600}};
    struct stat facts;
    tdmi_recorder *alive = open_one("old", 0);
    snprintf(folder, sizeof folder, "%s/old", base);
    const char *const names[] = {"rank-1-1-0.ring", "rank-2-1-0.json", "mine.txt"};
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
        const int fd = open(path[i], O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        close(fd);
        utimensat(AT_FDCWD, path[i], old, 0);
    }
    tdmi_recorder_close(open_one("new", 0)); /* does not look into a folder that changed just now */
    assert_int_equal(stat(path[0], &facts), 0);
    utimensat(AT_FDCWD, folder, old, 0);
    tdmi_recorder_close(open_one("new", 0));
    assert_int_not_equal(stat(path[0], &facts), 0);
    assert_int_not_equal(stat(path[1], &facts), 0);
    assert_int_equal(stat(path[2], &facts), 0); /* not ours */
    unlink(path[2]);
    tdmi_recorder_close(alive);
}

static void a_living_rank_is_never_swept(void **state)
{
    (void)state;
    char path[512], folder[512];
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 25 * 3600}, {.tv_sec = time(NULL) - 25 * 3600}};
    tdmi_recorder *alive = open_one("long", 0);
    assert_int_equal(read_file("long", ".ring", path, bytes, sizeof bytes), TDMI_REC_FILE_BYTES);
    utimensat(AT_FDCWD, path, old, 0);
    utimensat(AT_FDCWD, dirname(strcpy(folder, path)), old, 0);
    tdmi_recorder_close(open_one("other", 0));
    assert_int_equal(access(path, F_OK), 0);
    tdmi_recorder_close(alive);
}

static void it_can_be_off_and_a_bad_folder_is_no_error(void **state)
{
    (void)state;
    tdmi_recorder_group group;
    setenv("TANDEM_RECORDER_DIR", "off", 1);
    assert_null(open_one("off", 0));
    tdmi_recorder_add_group(NULL, "world", 1, 0, 2, &group);
    const tdmi_recorder_call call = call_of(1);
    const uint64_t index = tdmi_recorder_begin(&group, &call, tdmi_now_ns());
    tdmi_recorder_started(&group, index, false);
    tdmi_recorder_finished(&group, index, TDMI_CALL_FINISHED);
    tdmi_recorder_fail(NULL, TDM_ERR_TIMEOUT, "text");
    tdmi_recorder_close(NULL);
    setenv("TANDEM_LOG", "error", 1); /* it is said, once */
    setenv("TANDEM_RECORDER_DIR", "/proc/nowhere", 1);
    assert_null(open_one("bad", 0));
    setenv("TANDEM_RECORDER_DIR", base, 1);
}

static void a_dump_to_a_pipe_goes_into_it(void **state)
{
    (void)state;
    char path[300], start[32] = "";
    snprintf(path, sizeof path, "%s.fifo", base);
    tdmi_recorder *recorder = open_one("pipe", 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDWR);
    assert_int_equal(tdmi_recorder_dump(recorder, path), TDM_OK);
    assert_int_equal(read(fd, start, 20), 20);
    assert_string_equal(start, "{\"tandem_recorder\":1");
    struct stat facts;
    assert_true(stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode));
    close(fd);
    unlink(path);
    tdmi_recorder_close(recorder);
}

static void damaged_rings_are_refused(void **state)
{
    (void)state;
    char path[512];
    tdmi_recording recording;
    tdmi_recorder *recorder = open_one("damaged", 0);
    assert_int_equal(read_file("damaged", ".ring", path, bytes, sizeof bytes), TDMI_REC_FILE_BYTES);
    tdmi_recorder_close(recorder);
    assert_int_equal(tdmi_recording_parse(bytes, 5, &recording), TDM_ERR_BAD_FILE);
    assert_int_equal(tdmi_recording_parse(bytes, TDMI_REC_FILE_BYTES - 1, &recording), TDM_ERR_BAD_FILE);
    bytes[TDMI_REC_AT_VERSION] = 9;
    assert_int_equal(tdmi_recording_parse(bytes, TDMI_REC_FILE_BYTES, &recording), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "version 9"));
    bytes[TDMI_REC_AT_VERSION] = TDMI_REC_VERSION;
    bytes[TDMI_REC_AT_RANK] = 200;
    assert_int_equal(tdmi_recording_parse(bytes, TDMI_REC_FILE_BYTES, &recording), TDM_ERR_BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_leaves_its_last_calls),
        cmocka_unit_test(a_plain_call_shows_nothing_of_the_one_before),
        cmocka_unit_test(a_clean_end_leaves_nothing),
        cmocka_unit_test(a_failure_leaves_json_that_others_can_read),
        cmocka_unit_test(old_files_of_dead_processes_are_swept_by_the_next_job),
        cmocka_unit_test(a_living_rank_is_never_swept),
        cmocka_unit_test(it_can_be_off_and_a_bad_folder_is_no_error),
        cmocka_unit_test(a_dump_to_a_pipe_goes_into_it),
        cmocka_unit_test(damaged_rings_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up) != 0;
}
