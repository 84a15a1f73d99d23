/* test_tuning.c - where measured choices come from, and that all ranks follow rank 0's. */
#include "on_ranks.h"

#include "core/log.h"

#include <tandem/tuning.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char file[64];

static int new_file(void **state)
{
    (void)state;
    snprintf(file, sizeof file, "/tmp/tandem-tuning-%d/deep/table", (int)getpid());
    setenv("TANDEM_TUNE_FILE", file, 1);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    char folder[64];
    (void)unlink(file);
    snprintf(folder, sizeof folder, "/tmp/tandem-tuning-%d/deep", (int)getpid());
    (void)rmdir(folder);
    folder[strlen(folder) - 5] = '\0';
    (void)rmdir(folder);
    setenv("TANDEM_TUNE_FILE", "off", 1);
    return 0;
}

static const char *takes(tdm_group *group, size_t count, const char *algorithm)
{
    float *data = calloc(count, sizeof *data);
    tdm_work *work;
    bool done = false;
    CHECK_OK(tdm_allreduce(group, data, data, count, TDM_F32, TDM_SUM, &work));
    while (!done)
        CHECK_OK(tdm_work_test(work, &done));
    const char *taken = tdm_work_algorithm(work);
    CHECK_OK(tdm_work_wait(work));
    free(data);
    CHECK(strcmp(taken, algorithm) == 0, "%zu elements go by %s, not %s", count, taken, algorithm);
    return NULL;
}

static const tdm_tuning_line lines[] = {{"allreduce", "recursive_doubling", 0, 1 << 20}, {"allreduce", "ring", 1 << 20, SIZE_MAX}};

static const char *saves(tdm_group *group, void *arg)
{
    (void)arg;
    if (tdm_group_rank(group) == 0)
        CHECK_OK(tdm_tuning_save(group, "any", lines, 2));
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

/* Rank 0's file counts, also for ranks that have none. */
static const char *follows(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    tdm_group_options options = ranks_options();
    tdm_group *group;
    if (options.rank != 0)
        setenv("TANDEM_TUNE_FILE", "off", 1);
    CHECK_OK(tdm_group_create(&options, &group));
    const char *wrong = takes(group, 100000, "recursive_doubling");
    if (wrong == NULL) /* a ring would reorder: nobody has allowed it, so the model goes on, and it knows better */
        wrong = takes(group, 1 << 20, "halving_doubling");
    tdm_group_destroy(group);
    return wrong;
}

static void all_ranks_follow_the_table_of_rank_0(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 4, .transport = "tcp"}, saves, NULL);
    ranks_run(&(ranks_spec){.n = 4, .transport = "tcp", .mode = RANKS_PROCESSES, .no_group = true}, follows, NULL);
}

static const char *does_nothing(tdm_group *group, void *arg)
{
    (void)arg;
    return takes(group, 100, "recursive_doubling");
}

/* The first group over links measures and keeps what it found; a group inside one node never does. */
static void links_are_measured_once_and_never_inside_a_node(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, saves, NULL);
    char text[4096] = "";
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_null(strstr(text, "links"));
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, does_nothing, NULL);
    f = fopen(file, "r");
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "\nlinks tcp "));
    assert_non_null(strstr(text, "\nbest 2x1/shm/any allreduce 0 1048576 recursive_doubling\n"));
}

static const char *adds_up(tdm_group *group, void *arg)
{
    (void)arg;
    const int n = tdm_group_size(group);
    static const size_t counts[] = {7, 30000, 300000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int *data = malloc(counts[c] * sizeof *data);
        size_t wrong = 0;
        for (size_t i = 0; i < counts[c]; i++)
            data[i] = tdm_group_rank(group) + (int)i;
        CHECK_OK(tdm_allreduce(group, data, data, counts[c], TDM_I32, TDM_SUM, NULL));
        for (size_t i = 0; i < counts[c]; i++)
            wrong += data[i] != n * (n - 1) / 2 + n * (int)i;
        free(data);
        CHECK(wrong == 0, "%zu of %zu sums are wrong", wrong, counts[c]);
    }
    return NULL;
}

static void pairs_are_measured_where_sums_may_be_reordered(void **state)
{
    (void)state;
    setenv("TANDEM_SUM_ORDER", "fast", 1);
    for (int n = 2; n <= 5; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "tcp"}, adds_up, NULL);
    ranks_run(&(ranks_spec){.n = 5, .transport = "nodes"}, adds_up, NULL);
    setenv("TANDEM_ALGO", "allreduce=ring", 1);
    ranks_run(&(ranks_spec){.n = 4, .transport = "tcp"}, adds_up, NULL);
    unsetenv("TANDEM_ALGO");
    unsetenv("TANDEM_SUM_ORDER");
}

static int warnings;
static char warning[512];

static void listen(tdmi_area area, tdmi_level level, const char *line, void *arg)
{
    (void)area, (void)arg;
    if (level <= TDMI_LEVEL_WARN) {
        warnings++;
        snprintf(warning, sizeof warning, "%s", line);
    }
}

static void a_damaged_file_is_one_warning_and_ignored(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, saves, NULL);
    FILE *f = fopen(file, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 40, SEEK_SET), 0);
    fputc('#', f);
    fclose(f);
    tdmi_log_set_sink(listen, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, does_nothing, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, saves, NULL);
    tdmi_log_set_sink(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, file));
    assert_non_null(strstr(warning, "line 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_ranks_follow_the_table_of_rank_0, new_file, remove_file),
        cmocka_unit_test_setup_teardown(links_are_measured_once_and_never_inside_a_node, new_file, remove_file),
        cmocka_unit_test_setup_teardown(pairs_are_measured_where_sums_may_be_reordered, new_file, remove_file),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_one_warning_and_ignored, new_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
