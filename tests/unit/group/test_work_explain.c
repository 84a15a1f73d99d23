/* test_work_explain.c - a handle says which algorithm its operation takes, and its steps. */
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *explains(tdm_group *group, void *arg)
{
    const char *expected = arg;
    static const char plain[16384];
    char out[16384], text[4096];
    void *shared;
    tdm_work *work;
    CHECK_OK(tdm_alloc(group, sizeof out, &shared));
    for (int direct = 0; direct < 2; direct++) {
        const char *algorithm = direct && strcmp(expected, "direct_staged") == 0 ? "direct" : expected;
        CHECK_OK(tdm_allreduce(group, direct ? shared : plain, direct ? shared : out, sizeof out, TDM_U8, TDM_SUM, &work));
        bool done = false;
        while (!done)
            CHECK_OK(tdm_work_test(work, &done));
        CHECK(strcmp(tdm_work_algorithm(work), algorithm) == 0, "%s instead of %s", tdm_work_algorithm(work), algorithm);
        size_t length = tdm_work_explain(work, text, sizeof text);
        CHECK(length == strlen(text), "%zu is not the length of %s", length, text);
        CHECK(strstr(text, algorithm) != NULL && strstr(text, "allreduce of 16384 uint8, sum, rank") == text, "%s", text);
        CHECK_OK(tdm_work_wait(work));
    }
    tdm_free(group, shared);
    return NULL;
}

static void a_handle_says_how_its_operation_is_done(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_THREADS}, explains, "direct_staged");
}

static void every_algorithm_has_a_name_and_the_list_ends(void **state)
{
    (void)state;
    int count = 0;
    bool ring = false;
    for (; tdm_algorithm_name(count) != NULL; count++)
        ring |= strcmp(tdm_algorithm_name(count), "ring") == 0;
    assert_true(ring && count >= 6);
    assert_null(tdm_algorithm_name(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_says_how_its_operation_is_done),
        cmocka_unit_test(every_algorithm_has_a_name_and_the_list_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
