/* test_job.c - files and folders become a job: ranks, doubles, strangers, damage; plain and gzip. */
#include "kineto/files.h"
#include "kineto/trace.h"

#include <isa-l/igzip_lib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256];
static tdmi_job_traces *job;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/tandem-job-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) == NULL;
}

static int drop(void **state)
{
    (void)state;
    char command[300];
    tdmi_job_traces_free(job);
    job = NULL;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[2][512];
    static int which;
    which = 1 - which;
    snprintf(path[which], sizeof path[which], "%s/%s", folder, name);
    return path[which];
}

static void put(const char *name, const void *bytes, size_t nbytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    fclose(file);
}

/* A trace of `rank` (-1: it does not say) with one event at ts. */
static char *text_of(int rank, int world, int ts)
{
    static char text[512];
    char info[128] = "";
    if (rank >= 0)
        snprintf(info, sizeof info, "\"distributedInfo\": {\"rank\": %d, \"world_size\": %d}, ", rank, world);
    snprintf(text, sizeof text, "{%s\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::add\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":2}]}", info, ts);
    return text;
}

static void put_trace(const char *name, int rank, int world, int ts)
{
    const char *text = text_of(rank, world, ts);
    put(name, text, strlen(text));
}

static size_t gzip(const void *bytes, size_t nbytes, uint8_t *out, size_t room)
{
    struct isal_zstream stream;
    isal_deflate_init(&stream);
    stream.gzip_flag = IGZIP_GZIP;
    stream.end_of_stream = 1;
    stream.next_in = (uint8_t *)(uintptr_t)bytes;
    stream.avail_in = (uint32_t)nbytes;
    stream.next_out = out;
    stream.avail_out = (uint32_t)room;
    assert_int_equal(isal_deflate(&stream), COMP_OK);
    return room - stream.avail_out;
}

static tdm_status read_paths(const char *const *path, size_t count, int threads)
{
    tdmi_job_traces_free(job);
    job = NULL;
    return tdmi_job_traces_read(path, count, &(tdmi_trace_options){.threads = threads}, &job);
}

static void read_folder(void)
{
    const char *path = folder;
    if (read_paths(&path, 1, 2) != TDM_OK)
        fail_msg("%s", tdm_error_text());
}

static bool noted(const char *a, const char *b)
{
    for (size_t i = 0; i < job->note_count; i++)
        if (strstr(job->note[i], a) != NULL && strstr(job->note[i], b) != NULL)
            return true;
    return false;
}

static void ranks_come_from_the_files(void **state)
{
    (void)state;
    put_trace("b", 0, 4, 1);
    put_trace("a", 2, 4, 1);
    put_trace("c", 1, 4, 1);
    read_folder();
    assert_int_equal(job->count, 3);
    assert_int_equal(job->world_size, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(job->rank[i]->rank, i);
    assert_true(noted("3 of 4 ranks", ""));
    assert_int_equal(job->failed, 0);
}

static void ranks_come_from_names_where_the_files_are_silent(void **state)
{
    (void)state;
    put_trace("worker10.1623143089861.pt.trace.json", -1, 0, 1);
    put_trace("rank_2_trace.json", -1, 0, 1);
    put_trace("x.Rank-0.json", -1, 0, 1);
    put_trace("other.json", 1, 11, 1);
    read_folder();
    assert_int_equal(job->count, 4);
    assert_int_equal(job->rank[0]->rank, 0);
    assert_int_equal(job->rank[1]->rank, 1);
    assert_int_equal(job->rank[2]->rank, 2);
    assert_int_equal(job->rank[3]->rank, 10);
    assert_int_equal(job->world_size, 11);
    assert_true(noted("rank_2_trace.json", "its name says 2"));
}

static void ranks_come_from_the_order_of_names_at_last(void **state)
{
    (void)state;
    put_trace("libkineto_activities_20.json", -1, 0, 5);
    put_trace("libkineto_activities_9.json", -1, 0, 4);
    put_trace("libkineto_activities_100.json", -1, 0, 6);
    read_folder();
    assert_int_equal(job->count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(job->rank[i]->event[0].start_ns, 4000 + 1000 * i); /* by value of the number */
    assert_true(noted("activities_100.json", "taken as rank 2"));
}

static void two_files_that_claim_one_rank_are_an_error_with_both_names(void **state)
{
    (void)state;
    const char *path = folder;
    put_trace("a.json", 0, 2, 100);
    put_trace("b.json", 0, 2, 50);
    put_trace("c.json", 1, 2, 50);
    assert_int_equal(read_paths(&path, 1, 2), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "a.json"));
    assert_non_null(strstr(tdm_error_text(), "b.json"));
    assert_non_null(strstr(tdm_error_text(), "rank 0"));
    assert_null(strstr(tdm_error_text(), "c.json"));
}

static void of_two_files_of_a_rank_the_newer_is_used_where_that_is_asked_for(void **state)
{
    (void)state;
    const char *path = folder;
    put_trace("a.json", 0, 2, 100);
    put_trace("b.json", 0, 2, 50);
    put_trace("c.json", 1, 2, 50);
    tdmi_job_traces_free(job);
    assert_int_equal(tdmi_job_traces_read(&path, 1, &(tdmi_trace_options){.newest_of_rank = true}, &job), TDM_OK);
    assert_int_equal(job->count, 2);
    assert_int_equal(job->rank[0]->event[0].start_ns, 100000);
    assert_true(noted("b.json", "both of rank 0"));
}

static void files_that_all_say_rank_0_are_told_apart_by_their_names(void **state)
{
    (void)state;
    put_trace("rank0.json", 0, 2, 1);
    put_trace("rank1.json", 0, 2, 2);
    read_folder();
    assert_int_equal(job->count, 2);
    assert_int_equal(job->rank[1]->event[0].start_ns, 2000);
    assert_true(noted("rank1.json", "its name says 1"));
}

static void a_folder_may_hold_other_files_folders_and_links(void **state)
{
    (void)state;
    put_trace("rank0.json", 0, 1, 1);
    put("README", "see the wiki", 12);
    put("empty.json", "", 0);
    put("truth.json", "{\"step\": 1}", 11);
    put("half.json.tmp", "{\"traceEvents\": [", 17);
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    put_trace("sub/rank1.json", 1, 2, 1);
    assert_int_equal(symlink("rank0.json", in_folder("again.json")), 0);
    assert_int_equal(symlink("loop.json", in_folder("loop.json")), 0);
    assert_int_equal(symlink(".", in_folder("here")), 0);
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    read_folder();
    assert_int_equal(job->count, 1);
    assert_int_equal(job->failed, 0);
    assert_true(noted("README", "no trace"));
    assert_true(noted("empty.json", "no trace"));
    assert_true(noted("truth.json", "no trace"));
    assert_true(noted("half.json.tmp", "still being written"));
    assert_true(noted("loop.json", "left out"));
    assert_true(noted("another name", "again.json"));
    assert_true(noted("pipe", "no plain file"));
}

static void a_rank_that_cannot_be_read_does_not_stop_the_others(void **state)
{
    (void)state;
    put_trace("rank0.json", 0, 2, 1);
    put("rank1.json", "\x1f\x8b\x08garbage", 10);
    const char *paths[] = {in_folder("rank0.json"), NULL, NULL};
    char second[512], third[512];
    paths[1] = strcpy(second, in_folder("rank1.json"));
    char first[512];
    paths[0] = strcpy(first, in_folder("rank0.json"));
    paths[2] = strcpy(third, in_folder("nothing.json"));
    assert_int_equal(read_paths(paths, 3, 1), TDM_OK);
    assert_int_equal(job->count, 1);
    assert_int_equal(job->failed, 2);
    assert_true(noted("rank1.json", ""));
    assert_true(noted("nothing.json", "No such file"));
    assert_int_equal(read_paths(paths + 1, 2, 1), TDM_ERR_BAD_FILE);
}

static void an_empty_folder_is_an_error(void **state)
{
    (void)state;
    const char *path = folder;
    assert_int_equal(read_paths(&path, 1, 1), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "no files"));
    assert_int_equal(read_paths(NULL, 0, 1), TDM_ERR_BAD_FILE);
}

static void ranks_in_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rank;
    } known[] = {{"/a/rank3/rank7_trace.json.gz", 7}, {"rank-34.Jul_15.pt.trace.json.gz", 34}, {"worker0_step_12.1694128201545.pt.trace.json", 0},
                 {"rank70.json", 70}, {"host_1234.1623.pt.trace.json", -1}, {"frank.json", -1}, {"rank_not_found.json", -1},
                 {"df_rank1of2.json", 1}, {"rank123456789012.json", -1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(tdmi_files_rank_of_name(known[i].name), known[i].rank);
}

/* gzip, in all its conditions; many members cross the reader's buffers at all offsets. */
static void gzip_is_read_whatever_its_condition(void **state)
{
    (void)state;
    const size_t room = 1 << 20;
    uint8_t *packed = malloc(room);
    const char *text = text_of(0, 1, 7);
    const size_t n = strlen(text), half = n / 2;
    size_t size = gzip(text, n, packed, room);
    const char *path = folder;
    put("rank0.json", packed, size); /* whatever its name */
    read_folder();
    assert_int_equal(job->rank[0]->note_count, 0);
    assert_int_equal(job->rank[0]->event[0].start_ns, 7000);

    memset(packed + size, 0, 5000); /* padding of an archive */
    put("rank0.json", packed, size + 5000);
    read_folder();
    assert_int_equal(job->rank[0]->note_count, 0);

    put("rank0.json", memcpy(packed + size, "garbage", 7) == NULL ? NULL : packed, size + 7);
    read_folder();
    assert_int_equal(job->rank[0]->event_count, 1);
    assert_non_null(strstr(job->rank[0]->note[0], "something else"));

    packed[size - 6] ^= 1; /* the checksum */
    put("rank0.json", packed, size);
    read_folder();
    assert_int_equal(job->rank[0]->event_count, 1);
    assert_non_null(strstr(job->rank[0]->note[0], "checksum"));

    size = gzip(text, half, packed, room);
    size += gzip(text + half, n - half, packed + size, room - size);
    put("rank0.json", packed, size);
    read_folder();
    assert_int_equal(job->rank[0]->note_count, 0);
    assert_int_equal(job->rank[0]->event_count, 1);

    put("rank0.json", packed, size - 20);
    assert_int_equal(read_paths(&path, 1, 4), TDM_OK);
    assert_true(job->rank[0]->truncated);
    free(packed);
}

/* Cut or flipped at any byte: as far as it goes, with a word, and never a crash. */
static void a_gzip_file_damaged_anywhere_is_used_as_far_as_it_goes(void **state)
{
    (void)state;
    enum { EVENTS = 200 };
    char *text = malloc(EVENTS * 100 + 100), *at = text + sprintf(text, "{\"traceEvents\": [");
    for (int i = 0; i < EVENTS; i++)
        at += sprintf(at, "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n%d\",\"ts\":%d,\"dur\":1}", i > 0 ? "," : "", i * 7919 % 1000, i);
    strcpy(at, "]}");
    uint8_t *packed = malloc(1 << 20);
    const size_t size = gzip(text, strlen(text), packed, 1 << 20);
    const char *path = folder;
    size_t before = 0;
    for (size_t cut = 0; cut < size; cut += 17) {
        put("rank0.json", packed, cut);
        if (read_paths(&path, 1, 1 + (int)cut % 2) != TDM_OK)
            continue;
        assert_in_range(job->rank[0]->event_count, before, EVENTS);
        before = job->rank[0]->event_count;
        assert_true(job->rank[0]->truncated && job->rank[0]->note_count > 0);
    }
    assert_in_range(before, EVENTS / 2, EVENTS);
    for (size_t flip = 0; flip < size; flip++) {
        tdmi_trace *trace;
        packed[flip] ^= (uint8_t)(1 << flip % 8);
        const tdm_status status = tdmi_trace_read_bytes("rank0.json", packed, size, NULL, &trace);
        packed[flip] ^= (uint8_t)(1 << flip % 8);
        if (status != TDM_OK)
            continue;
        assert_true(trace->note_count > 0 || flip < 10); /* the head of gzip has a time and a system that say nothing */
        tdmi_trace_free(trace);
    }
    free(packed);
    free(text);
}

static void members_of_one_byte_each(void **state)
{
    (void)state;
    const size_t room = 4 << 20, count = 5000;
    uint8_t *packed = malloc(room);
    char *text = malloc(count * 100 + 100), *at = text + sprintf(text, "{\"traceEvents\": [");
    for (size_t i = 0; i < count; i++)
        at += sprintf(at, "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n%zu\",\"ts\":%zu,\"dur\":1}", i > 0 ? "," : "", i % 7, i);
    strcpy(at, "]}");
    const size_t n = strlen(text);
    for (size_t piece = 1; piece < 100; piece += 37) {
        size_t size = 0;
        for (size_t done = 0; done < n && room - size > 1000; done += piece)
            size += gzip(text + done, n - done < piece ? n - done : piece, packed + size, room - size);
        put("rank0.json", packed, size);
        for (int threads = 1; threads <= 2; threads++) {
            const char *path = folder;
            assert_int_equal(read_paths(&path, 1, threads), TDM_OK);
            assert_false(job->rank[0]->truncated && piece > 1);
            if (piece > 1)
                assert_int_equal(job->rank[0]->event_count, count);
        }
    }
    free(packed);
    free(text);
}

static void many_ranks_are_read_in_parallel(void **state)
{
    (void)state;
    for (int rank = 0; rank < 40; rank++) {
        char name[64];
        snprintf(name, sizeof name, "trace%d.json", rank);
        put_trace(name, 39 - rank, 40, 1);
    }
    const char *path = folder;
    assert_int_equal(read_paths(&path, 1, 8), TDM_OK);
    assert_int_equal(job->count, 40);
    for (int rank = 0; rank < 40; rank++)
        assert_int_equal(job->rank[rank]->rank, rank);
}

/* With little memory the last iterations are kept, whole, and it is said. */
static void what_does_not_fit_into_memory_is_left_out_by_whole_iterations(void **state)
{
    (void)state;
    enum { STEPS = 20, OPS = 4000 };
    char *text = malloc((size_t)STEPS * (OPS + 1) * 110 + 200), *at = text + sprintf(text, "{\"traceEvents\": [");
    for (int op = 0; op < OPS; op++) /* not in the order of time: iterations are named last */
        for (int step = 0; step < STEPS; step++)
            at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":3},", step * 100000 + op * 20);
    for (int step = 0; step < STEPS; step++)
        at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":99000},", step, step * 100000);
    sprintf(at, "], \"distributedInfo\": {\"rank\": 0}}");
    put("rank0.json", text, strlen(text));
    tdmi_trace *t;
    assert_int_equal(tdmi_trace_read(in_folder("rank0.json"), &(tdmi_trace_options){.memory_bytes = 64 << 20}, &t), TDM_OK);
    assert_int_equal(t->event_count, STEPS * (OPS + 1));
    assert_int_equal(t->iterations_kept, STEPS);
    tdmi_trace_free(t);
    assert_int_equal(tdmi_trace_read(in_folder("rank0.json"), &(tdmi_trace_options){.memory_bytes = 2 << 20}, &t), TDM_OK);
    assert_int_equal(t->iterations_seen, STEPS);
    assert_in_range(t->iterations_kept, 4, STEPS - 1);
    assert_int_equal(t->event_count, t->iterations_kept * (OPS + 1));
    assert_int_equal(t->kept_from_ns, (int64_t)(STEPS - t->iterations_kept) * 100000000);
    assert_int_equal(t->wrong[TDMI_WRONG_OUTSIDE], (STEPS - t->iterations_kept) * (OPS + 1));
    assert_non_null(strstr(t->note[0], "of 20 iterations were used"));
    assert_int_equal(t->rank, 0);
    tdmi_trace_free(t);
    assert_int_equal(tdmi_trace_read(in_folder("rank0.json"), &(tdmi_trace_options){.memory_bytes = 150 << 10}, &t), TDM_ERR_NO_MEMORY);
    assert_non_null(strstr(tdm_error_text(), "--memory"));
    free(text);
}

/* A rank with three times as many events may take three times as much; strangers take nothing. */
static void memory_is_shared_by_the_sizes_of_files(void **state)
{
    (void)state;
    enum { STEPS = 16, OPS = 2000 };
    char *text = malloc((size_t)STEPS * (3 * OPS + 1) * 110 + 200);
    for (int rank = 0; rank < 2; rank++) {
        char *at = text + sprintf(text, "{\"distributedInfo\": {\"rank\": %d, \"world_size\": 2}, \"traceEvents\": [", rank), name[32];
        for (int step = 0; step < STEPS; step++) {
            at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":99000},", step, step * 100000);
            for (int op = 0; op < OPS * (rank == 0 ? 3 : 1); op++)
                at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":3},", step * 100000 + op * 10);
        }
        at += sprintf(at, "]}");
        snprintf(name, sizeof name, "rank%d.json", rank);
        put(name, text, (size_t)(at - text));
    }
    memset(text, 'x', 3 << 20);
    put("notes.txt", text, 3 << 20);
    free(text);
    const char *path = folder;
    assert_int_equal(tdmi_job_traces_read(&path, 1, &(tdmi_trace_options){.memory_bytes = 5 << 20, .threads = 2}, &job), TDM_OK);
    assert_int_equal(job->count, 2);
    const int kept = job->rank[0]->iterations_kept;
    assert_in_range(kept, 4, STEPS - 1);
    assert_in_range(job->rank[1]->iterations_kept, kept - 1, kept + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop)
    const struct CMUnitTest tests[] = {
        TEST(ranks_come_from_the_files),
        TEST(ranks_come_from_names_where_the_files_are_silent),
        TEST(ranks_come_from_the_order_of_names_at_last),
        TEST(two_files_that_claim_one_rank_are_an_error_with_both_names),
        TEST(of_two_files_of_a_rank_the_newer_is_used_where_that_is_asked_for),
        TEST(files_that_all_say_rank_0_are_told_apart_by_their_names),
        TEST(a_folder_may_hold_other_files_folders_and_links),
        TEST(a_rank_that_cannot_be_read_does_not_stop_the_others),
        TEST(an_empty_folder_is_an_error),
        TEST(ranks_in_names),
        TEST(gzip_is_read_whatever_its_condition),
        TEST(a_gzip_file_damaged_anywhere_is_used_as_far_as_it_goes),
        TEST(members_of_one_byte_each),
        TEST(many_ranks_are_read_in_parallel),
        TEST(memory_is_shared_by_the_sizes_of_files),
        TEST(what_does_not_fit_into_memory_is_left_out_by_whole_iterations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
