/* test_doctor.c - recordings of ranks that went wrong in known ways, and what is said of them. */
#include <tandem/doctor.h>

#include "core/clock.h"
#include "trace/recorder.h"
#include "trace/recorder_file.h"
#include "trace/recorder_layout.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum { BARRIER, ALLREDUCE, BROADCAST };
static const char *const ops[TDMI_REC_NAMES] = {"barrier", "allreduce", "broadcast"};
static const char *const dtypes[TDMI_REC_NAMES] = {"float32", "int32"};
static const char *const reductions[TDMI_REC_NAMES] = {"sum", "max"};
static char folder[256], base[300];

/* A call of a script; end: 'f' finished, 'w' waits, 'e' failed, 0: the script's end. */
typedef struct scene {
    int group, op, dtype, root;
    uint64_t count;
    char end;
    const char *label;
    unsigned missing; /* bit r: rank r was seen missing */
} scene;

/* Writes rank's dump, and keeps its ring instead if `ring`. */
static void play(int rank, int size, const scene *script, bool ring)
{
    char path[400];
    uint64_t number[2] = {0};
    tdmi_recorder_group groups[2];
    tdmi_recorder *recorder = tdmi_recorder_open(
        &(tdmi_recorder_options){.job = "play", .rank = rank, .size = size, .ops = ops, .dtypes = dtypes, .reductions = reductions});
    assert_non_null(recorder);
    tdmi_recorder_add_group(recorder, "world", 100, rank, size, &groups[0]);
    tdmi_recorder_add_group(recorder, "pair", 200, rank, size, &groups[1]);
    for (const scene *s = script; s->end != 0; s++) {
        tdmi_recorder_group *g = &groups[s->group];
        tdmi_label_set(&g->label, s->label);
        const tdmi_recorder_call call = {.op = s->op, .dtype = s->dtype, .root = s->op == BROADCAST ? s->root : -1, .count = s->count, .number = ++number[s->group]};
        const uint64_t index = tdmi_recorder_begin(g, &call, tdmi_now_ns());
        bool missing[64];
        for (int r = 0; r < size; r++)
            missing[r] = (s->missing >> r & 1) != 0;
        if (s->missing != 0)
            tdmi_recorder_arrivals(g, index, missing, size);
        if (s->end != 'w')
            tdmi_recorder_finished(g, index, s->end == 'f' ? TDMI_CALL_FINISHED : TDMI_CALL_FAILED);
    }
    if (ring)
        return; /* the caller's process ends */
    snprintf(path, sizeof path, "%s/rank-%d.json", folder, rank);
    assert_int_equal(tdmi_recorder_dump(recorder, path), TDM_OK);
    tdmi_recorder_close(recorder);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test-doctor-%d", (int)getpid());
    snprintf(base, sizeof base, "%s-base", folder);
    setenv("TANDEM_RECORDER_DIR", base, 1);
    return mkdir(folder, 0700);
}

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char inside[700];
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(inside) != 0)
            empty(inside);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

static int tear_down(void **state)
{
    (void)state;
    empty(folder);
    empty(base);
    return 0;
}

/* The findings of a folder, "id text\n" each, and everything people read. */
static char found[8192], said[16384];

static int examine(const char *path)
{
    tdm_doctor_report *report;
    assert_int_equal(tdm_doctor(&path, 1, NULL, &report), TDM_OK);
    json_t *root = json_loads(tdm_doctor_json(report), 0, NULL);
    const json_t *findings = json_object_get(root, "findings");
    const int count = (int)json_array_size(findings);
    assert_non_null(root);
    assert_int_equal(tdm_doctor_findings(report), count);
    found[0] = '\0';
    for (int i = 0; i < count; i++) {
        const json_t *f = json_array_get(findings, (size_t)i);
        const size_t used = strlen(found);
        assert_non_null(json_object_get(f, "evidence"));
        snprintf(found + used, sizeof found - used, "%s %s\n", json_string_value(json_object_get(f, "id")),
                 json_string_value(json_object_get(f, "text")));
    }
    snprintf(said, sizeof said, "%s", tdm_doctor_text(report));
    json_decref(root);
    tdm_doctor_free(report);
    return count;
}

#define CONTAINS(text, part)                                                                                           \
    do {                                                                                                               \
        if (strstr(text, part) == NULL)                                                                                \
            fail_msg("\"%s\" lacks \"%s\"", text, part);                                                               \
    } while (0)

static void a_rank_that_never_made_a_call_is_named(void **state)
{
    (void)state;
    const scene others[] = {{.op = BARRIER, .end = 'f'}, {.op = ALLREDUCE, .count = 1024, .end = 'w', .label = "step 12"}, {.end = 0}};
    const scene two[] = {{.op = BARRIER, .end = 'f', .label = "step 11"}, {.end = 0}};
    for (int r = 0; r < 4; r++)
        play(r, 4, r == 2 ? two : others, false);
    assert_int_equal(examine(folder), 1);
    CONTAINS(found, "missing_call rank 2 never made call 2 of group world (allreduce of 1024 float32 (sum), label 'step 12'), in which ranks 0, 1, 3 wait since ");
    CONTAINS(found, "; its last call was call 1 (barrier), finished ");
    CONTAINS(found, "label 'step 11'");
    CONTAINS(said, "recordings of 4 of 4 ranks");
}

static void ranks_that_made_different_calls_are_both_named(void **state)
{
    (void)state;
    const struct {
        scene a, b;
        const char *expected;
    } cases[] = {
        {{.op = ALLREDUCE, .count = 7}, {.op = ALLREDUCE, .count = 8}, "ranks 0, 1 made allreduce of 7 float32 (sum), but rank 2 made allreduce of 8 float32 (sum)"},
        {{.op = ALLREDUCE, .count = 7}, {.op = BARRIER}, "but rank 2 made barrier"},
        {{.op = ALLREDUCE, .count = 7}, {.op = ALLREDUCE, .dtype = 1, .count = 7}, "but rank 2 made allreduce of 7 int32"},
        {{.op = BROADCAST, .count = 7}, {.op = BROADCAST, .count = 7, .root = 1}, "root 0, but rank 2 made broadcast of 7 float32 (sum), root 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene a[] = {{.op = BARRIER, .end = 'f'}, cases[i].a, {.end = 0}}, b[] = {{.op = BARRIER, .end = 'f'}, cases[i].b, {.end = 0}};
        a[1].end = b[1].end = 'e';
        for (int r = 0; r < 3; r++)
            play(r, 3, r == 2 ? b : a, false);
        assert_true(examine(folder) >= 1);
        CONTAINS(found, "mismatched_call call 2 of group world: ");
        CONTAINS(found, cases[i].expected);
    }
}

static void groups_in_different_orders_name_both_sides(void **state)
{
    (void)state;
    const scene zero[] = {{.op = BARRIER, .end = 'f'}, {.group = 1, .op = BARRIER, .end = 'f'}, {.op = BARRIER, .end = 'w'}, {.end = 0}};
    const scene one[] = {{.op = BARRIER, .end = 'f'}, {.group = 1, .op = BARRIER, .end = 'f'}, {.group = 1, .op = ALLREDUCE, .count = 3, .end = 'w'}, {.end = 0}};
    play(0, 2, zero, false);
    play(1, 2, one, false);
    assert_int_equal(examine(folder), 2);
    CONTAINS(found, "rank 1 never made call 2 of group world (barrier), in which rank 0 waits since ");
    CONTAINS(found, "it waits in group pair, call 2 (allreduce of 3 float32 (sum)), made ");
    CONTAINS(found, "rank 0 never made call 2 of group pair (allreduce of 3 float32 (sum)), in which rank 1 waits since ");
}

static void ranks_without_a_recording_are_named_by_those_who_waited(void **state)
{
    (void)state;
    const scene waits[] = {{.op = BARRIER, .end = 'f'}, {.op = BARRIER, .end = 'e', .missing = 1u << 2}, {.end = 0}};
    play(0, 3, waits, false);
    play(1, 3, waits, false);
    assert_int_equal(examine(folder), 1);
    CONTAINS(found, "rank 2 did not arrive at call 2 of group world (barrier); there is no recording of it");
    CONTAINS(said, "recordings of 2 of 3 ranks");
}

static void calls_that_all_made_and_some_did_not_finish(void **state)
{
    (void)state;
    const scene zero[] = {{.op = BARRIER, .end = 'f'}, {.end = 0}}, one[] = {{.op = BARRIER, .end = 'w'}, {.end = 0}};
    play(0, 2, zero, false);
    play(1, 2, one, false);
    assert_int_equal(examine(folder), 1);
    CONTAINS(found, "unfinished_call all ranks made call 1 of group world (barrier), but rank 1 did not finish it");
}

static void healthy_ranks_have_no_finding(void **state)
{
    (void)state;
    scene many[2001] = {{.end = 0}};
    for (int i = 0; i < 2000; i++)
        many[i] = (scene){.group = i % 3 == 0, .op = i % 2, .count = (uint64_t)i, .end = 'f'};
    play(0, 2, many, false);
    many[1998].end = many[1999].end = 0; /* one rank is two finished calls behind */
    play(1, 2, many, false);
    assert_int_equal(examine(folder), 0);
    CONTAINS(said, "nothing is wrong");
}

static void a_dead_rank_is_found_by_its_ring_beside_the_dumps(void **state)
{
    (void)state;
    char job[320];
    const scene dies[] = {{.op = BARRIER, .end = 'f'}, {.op = ALLREDUCE, .count = 5, .end = 'w', .label = "last words"}, {.end = 0}};
    const pid_t child = fork();
    if (child == 0) {
        play(1, 2, dies, true);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    snprintf(job, sizeof job, "%s/play", base);
    assert_true(examine(job) >= 1);
    CONTAINS(found, "rank_died rank 1 (process ");
    CONTAINS(found, "label 'last words'");
    assert_true(examine(base) >= 1); /* the folder above: jobs */
    CONTAINS(found, "rank_died rank 1");
}

static void what_is_no_recording_is_refused_by_name(void **state)
{
    (void)state;
    char path[400];
    const char *const texts[] = {"", "{", "[]", "{\"tandem_recorder\":2}", "TNDMCALL", "{\"tandem_recorder\":1,\"rank\":3,\"size\":3,\"calls\":[]}",
                                 "{\"tandem_recorder\":1,\"rank\":0,\"size\":3,\"pid\":1,\"birth\":1,\"calls\":[{}]}"};
    tdm_doctor_report *report;
    snprintf(path, sizeof path, "%s/bad.txt", folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *paths[] = {path};
        FILE *file = fopen(path, "w");
        fputs(texts[i], file);
        fclose(file);
        assert_int_equal(tdm_doctor(paths, 1, NULL, &report), TDM_ERR_BAD_FILE);
        CONTAINS(tdm_error_text(), "bad.txt");
    }
    unlink(path);
    const char *nowhere[] = {"/nowhere"};
    assert_int_equal(tdm_doctor(nowhere, 1, NULL, &report), TDM_ERR_BAD_FILE);
    empty(folder);
    mkdir(folder, 0700);
    const char *nothing[] = {folder};
    assert_int_equal(tdm_doctor(nothing, 1, NULL, &report), TDM_ERR_BAD_FILE);
    CONTAINS(tdm_error_text(), "no recording in");
}

static int start_afresh(void **state)
{
    (void)state;
    empty(folder);
    return mkdir(folder, 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_rank_that_never_made_a_call_is_named, start_afresh),
        cmocka_unit_test_setup(ranks_that_made_different_calls_are_both_named, start_afresh),
        cmocka_unit_test_setup(groups_in_different_orders_name_both_sides, start_afresh),
        cmocka_unit_test_setup(ranks_without_a_recording_are_named_by_those_who_waited, start_afresh),
        cmocka_unit_test_setup(calls_that_all_made_and_some_did_not_finish, start_afresh),
        cmocka_unit_test_setup(healthy_ranks_have_no_finding, start_afresh),
        cmocka_unit_test_setup(a_dead_rank_is_found_by_its_ring_beside_the_dumps, start_afresh),
        cmocka_unit_test_setup(what_is_no_recording_is_refused_by_name, start_afresh),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down) != 0;
}
