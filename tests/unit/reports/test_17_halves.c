/* test_17_halves.c - elsewhere a ring adds in half precision: small addends vanish, the error depends on the place in the buffer. Here
 * sums are float32 and rounded once: the same bits on all ranks, at all places, on all transports. */
#include "reports.h"

#define N 8
#define COUNT 1000000

typedef struct halves {
    tdm_dtype dtype;
    uint16_t first, others, expected;
} halves;

static const char *adds_small_to_large(tdm_group *group, void *arg)
{
    const halves *h = arg;
    uint16_t *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++)
        data[i] = tdm_group_rank(group) == 0 ? h->first : h->others;
    const tdm_status status = tdm_allreduce(group, data, data, COUNT, h->dtype, TDM_SUM, NULL);
    int wrong = -1;
    for (int i = 0; i < COUNT && status == TDM_OK && wrong < 0; i++)
        wrong = data[i] == h->expected ? -1 : i;
    const unsigned found = wrong >= 0 ? data[wrong] : 0;
    free(data);
    CHECK(status == TDM_OK, "%s", tdm_error_text());
    CHECK(wrong < 0, "element %d of %s is 0x%04x, not 0x%04x", wrong, tdm_dtype_name(h->dtype), found, h->expected);
    return NULL;
}

static void small_addends_count(void **state)
{
    (void)state;
    const halves cases[] = {{TDM_BF16, 0x4380, 0x3f80, 0x4384},  /* 256 + 7 x 1 = 263 -> 264 */
                            {TDM_F16, 0x6800, 0x3c00, 0x6804}}; /* 2048 + 7 x 1 = 2055 -> 2056 */
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++)
            ranks_run(&(ranks_spec){.n = N, .transport = report_transports[t]}, adds_small_to_large, (void *)(uintptr_t)&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_addends_count)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
