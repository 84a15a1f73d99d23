/* test_agree.c - ranks that registered different things all learn the first difference. */
#include "ddp/reducer.h"
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct scenario {
    const char *title;
    const char *const names[4];  /* of the odd rank */
    const size_t counts[4];
    double cap_mb;
    bool find_unused;
    const char *expected[3]; /* parts of the text on every rank */
} scenario;

static const scenario scenarios[] = {
    {"count", {"a", "b", "c"}, {1, 7, 3}, 0, false, {"parameter 1", "\"b\" with 2 elements on rank 0", "\"b\" with 7 elements on rank 2"}},
    {"name", {"a", "b", "x"}, {1, 2, 3}, 0, false, {"parameter 2", "\"c\" with 3", "\"x\" with 3 elements on rank 2"}},
    {"order", {"b", "a", "c"}, {2, 1, 3}, 0, false, {"parameter 0", "\"a\" with 1", "\"b\" with 2"}},
    {"fewer", {"a", "b"}, {1, 2}, 0, false, {"parameter 2", "\"c\" with 3 elements on rank 0", "no more parameters on rank 2"}},
    {"more", {"a", "b", "c", "d"}, {1, 2, 3, 4}, 0, false, {"parameter 3", "no more parameters on rank 0", "\"d\" with 4"}},
    {"none", {0}, {0}, 0, false, {"parameter 0", "\"a\" with 1", "no more parameters on rank 2"}},
    {"cap", {"a", "b", "c"}, {1, 2, 3}, 3, false, {"different reducers", "26214400", "3145728"}},
    {"unused", {"a", "b", "c"}, {1, 2, 3}, 0, true, {"different reducers", "rank 2", "find_unused"}},
};

static const char *differ_body(tdm_group *group, void *arg)
{
    const scenario *s = arg;
    static const scenario usual = {.names = {"a", "b", "c"}, .counts = {1, 2, 3}};
    const scenario *mine = tdm_group_rank(group) == 2 ? s : &usual;
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.bucket_cap_mb = mine->cap_mb;
    options.find_unused = mine->find_unused;
    tdm_reducer *r;
    CHECK_OK(tdm_reducer_create(group, &options, &r));
    for (int i = 0; i < 4 && mine->names[i] != NULL; i++) {
        int id;
        CHECK_OK(tdm_reducer_add(r, mine->names[i], mine->counts[i], &id));
    }
    CHECK_THAT(tdm_reducer_commit(r) == TDM_ERR_MISMATCH);
    for (int i = 0; i < 3; i++)
        if (strstr(tdm_error_text(), s->expected[i]) == NULL) {
            fprintf(stderr, "%s: no \"%s\" in: %s\n", s->title, s->expected[i], tdm_error_text());
            return ranks_say("%s", tdm_error_text());
        }
    tdm_reducer_destroy(r);
    float x = 1; /* the group is alive: the program may go on */
    CHECK_THAT(tdm_allreduce(group, &x, &x, 1, TDM_F32, TDM_SUM, NULL) == TDM_OK && x == 3);
    return NULL;
}

static void every_rank_learns_the_first_difference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        scenario s = scenarios[i];
        ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, differ_body, &s);
    }
}

static const char *planned_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer *r;
    int id;
    CHECK_OK(tdm_reducer_create(group, NULL, &r));
    CHECK_OK(tdmi_reducer_add_planned(r, "w", 4, 0, tdm_group_rank(group) == 0 ? 0 : 16, 32, &id));
    CHECK_THAT(tdm_reducer_commit(r) == TDM_ERR_MISMATCH);
    CHECK_THAT(strstr(tdm_error_text(), "in bucket 0 at 0") != NULL && strstr(tdm_error_text(), "in bucket 0 at 16") != NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void plans_made_elsewhere_are_compared_too(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, planned_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_learns_the_first_difference),
        cmocka_unit_test(plans_made_elsewhere_are_compared_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
