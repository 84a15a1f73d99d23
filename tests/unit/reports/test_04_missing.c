/* test_04_missing.c - elsewhere a barrier names the first missing rank only, or ranks blame each other; here every rank gets the same,
 * complete, sorted list, in which nobody stands who did arrive. */
#include "reports.h"

typedef struct sleepers {
    unsigned who; /* bit r: rank r sleeps */
    const char *expected;
    char text[5][1100];
} sleepers;

static const char *sleeps_or_waits(tdm_group *group, void *arg)
{
    sleepers *s = arg;
    const int rank = tdm_group_rank(group);
    if (s->who >> rank & 1)
        sleep_s(0.9);
    const tdm_status status = tdm_barrier(group, NULL);
    snprintf(s->text[rank], sizeof s->text[rank], "%s", tdm_error_text());
    CHECK(status == TDM_ERR_TIMEOUT, "%s: %s", tdm_status_name(status), tdm_error_text());
    return NULL;
}

static void every_rank_lists_exactly_the_sleepers(void **state)
{
    (void)state;
    static sleepers s;
    const struct {
        unsigned who;
        const char *expected;
    } cases[] = {{1u << 2 | 1u << 4, "ranks 2, 4 did not arrive within 0.4 s"}, {1u, "rank 0 did not arrive within 0.4 s"}};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++) {
            s.who = cases[i].who;
            ranks_run(&(ranks_spec){.n = 5, .transport = report_transports[t], .timeout_s = 0.4}, sleeps_or_waits, &s);
            for (int r = 0; r < 5; r++) {
                if (strstr(s.text[r], cases[i].expected) == NULL)
                    fail_msg("rank %d: \"%s\" lacks \"%s\"", r, s.text[r], cases[i].expected);
                assert_string_equal(s.text[r], s.text[1]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_lists_exactly_the_sleepers)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
