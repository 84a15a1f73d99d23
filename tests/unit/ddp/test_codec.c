/* test_codec.c - compressed reducers on ranks: the codecs' definitions with real peers, equal bits, bytes, report 31. */
#include "core/memory.h"
#include "ddp/reducer.h"
#include "on_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct parameter {
    size_t count, rows;
} parameter;

/* Of report 31, and a vector: square, wide, tall, one, zero, one row repeated, enough to be worth it. */
enum { ZERO = 4, ROW = 5, LARGE = 6, VECTOR = 7, SHAPES = 8, MOST = 64 * 48 };
static const parameter shapes[SHAPES] = {{16, 4}, {300, 3}, {300, 100}, {1, 1}, {600, 30}, {600, 30}, {MOST, 64}, {37, 0}};

static float drawn(int rank, int p, size_t i, int number)
{
    uint64_t z = (uint64_t)(rank * 7919 + p * 104729 + number * 1299709) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u + 1;
    z = (z ^ z >> 30) * 0x94d049bb133111ebu;
    z = (z ^ z >> 27) * 0xbf58476d1ce4e5b9u;
    return (float)((double)(int32_t)(z >> 32) * 0x1p-31);
}

static float value(int rank, int p, size_t i, int number)
{
    if (p == ZERO)
        return 0;
    return p == ROW ? drawn(rank, p, i % (shapes[p].count / shapes[p].rows), number) : drawn(rank, p, i, number);
}

static tdm_status make(tdm_group *group, const tdm_compression *compress, double cap_mb, tdm_reducer **out)
{
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.compress = *compress;
    options.bucket_cap_mb = options.first_bucket_mb = cap_mb;
    tdm_status st = tdm_reducer_create(group, &options, out);
    for (int p = 0; p < SHAPES && st == TDM_OK; p++) {
        char name[16];
        int id = -1;
        snprintf(name, sizeof name, "p%d", p);
        st = tdm_reducer_add(*out, name, shapes[p].count, &id);
        if (st == TDM_OK)
            st = tdm_reducer_set_rows(*out, id, shapes[p].rows);
    }
    return st == TDM_OK ? tdm_reducer_commit(*out) : st;
}

static tdm_status step(tdm_reducer *r, int rank, int number)
{
    for (int p = SHAPES - 1; p >= 0; p--) {
        float *g = tdm_reducer_gradient(r, p);
        for (size_t i = 0; i < shapes[p].count; i++)
            g[i] = value(rank, p, i, number);
        tdm_status st = tdm_reducer_ready(r, p);
        if (st == TDM_OK)
            st = tdm_reducer_progress(r);
        if (st != TDM_OK)
            return st;
    }
    return tdm_reducer_wait(r);
}

/* All ranks hold the same bits. */
static const char *check_equal(tdm_group *group, tdm_reducer *r)
{
    for (int p = 0; p < SHAPES; p++) {
        float own[MOST], most[MOST];
        const size_t n = shapes[p].count;
        memcpy(own, tdm_reducer_gradient(r, p), n * sizeof *own);
        CHECK_OK(tdm_broadcast(group, memcpy(most, own, n * sizeof *own), n, TDM_F32, 0, NULL));
        CHECK(memcmp(own, most, n * sizeof *own) == 0, "parameter %d differs from rank 0's", p);
    }
    return NULL;
}

static const char *feedback_body(tdm_group *group, void *arg)
{
    const tdm_compression *compress = arg;
    static const double caps[] = {25, 0.001};
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    for (int c = 0; c < 2; c++) {
        tdm_reducer *r;
        CHECK_OK(make(group, compress, caps[c], &r));
        double *rest = tdmi_calloc(SHAPES * MOST, sizeof *rest, "test");
        for (int n = 0; n < 30; n++) {
            CHECK_OK(step(r, rank, n));
            const char *wrong = n % 10 == 9 ? check_equal(group, r) : NULL;
            if (wrong != NULL)
                return wrong;
            for (int p = 0; p < SHAPES; p++) {
                const float *g = tdm_reducer_gradient(r, p);
                for (size_t i = 0; i < shapes[p].count; i++) {
                    for (int k = 0; k < size; k++)
                        rest[p * MOST + (int)i] += (double)value(k, p, i, n) / size;
                    rest[p * MOST + (int)i] -= (double)g[i];
                    CHECK_THAT(isfinite(g[i]) && (p != ZERO || fabsf(g[i]) < 1));
                }
            }
        }
        /* What was not given out is what all ranks keep, on average, and what served chunks keep. */
        for (int b = 0; b < tdm_reducer_bucket_count(r); b++) {
            float *kept = tdmi_reducer_residual(r, b), *bucket = tdmi_reducer_bucket_memory(r, b);
            CHECK_THAT(kept != NULL);
            double all[SHAPES * 8 + 8000] = {0};
            for (int p = 0; p < SHAPES; p++) {
                const float *g = tdm_reducer_gradient(r, p);
                if (g < bucket || (b + 1 < tdm_reducer_bucket_count(r) && g >= (float *)tdmi_reducer_bucket_memory(r, b + 1)))
                    continue;
                size_t at = (size_t)(g - bucket), first = 0, count = 0;
                float *served = tdmi_reducer_served(r, b, &first, &count);
                for (size_t i = 0; i < shapes[p].count; i++) {
                    all[i] = (double)kept[at + i] / size;
                    if (served != NULL && at + i >= first && at + i < first + count)
                        all[i] += (double)served[at + i - first];
                }
                CHECK_OK(tdm_allreduce(group, all, all, shapes[p].count, TDM_F64, TDM_SUM, NULL));
                for (size_t i = 0; i < shapes[p].count; i++)
                    CHECK(fabs(all[i] - rest[p * MOST + (int)i]) < 2e-4, "%s: parameter %d element %zu: %g was not given out, %g is kept",
                          tdm_codec_name(compress->codec), p, i, rest[p * MOST + (int)i], all[i]);
            }
        }
        tdmi_free(rest);
        tdm_reducer_destroy(r);
    }
    return NULL;
}

static void what_is_not_sent_is_kept_and_all_ranks_get_the_same_bits(void **state)
{
    (void)state;
    static tdm_compression all[] = {{.codec = TDM_CODEC_POWERSGD, .rank = 2}, {.codec = TDM_CODEC_ONEBIT},
                                    {.codec = TDM_CODEC_TOPK, .fraction = 0.05}}; /* sums of halves are rounded again, and nobody keeps that */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int n = 2; n <= 3; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = n == 2 ? "shm" : "tcp"}, feedback_body, &all[i]);
    ranks_run(&(ranks_spec){.n = 4, .transport = "shm", .mode = RANKS_PROCESSES}, feedback_body, &all[1]);
}

/* ---- report 31 ---- */

static const char *report_body(tdm_group *group, void *arg)
{
    (void)arg;
    static const double caps[] = {25, 0.001};
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    for (int limit = 1; limit <= 8; limit *= 2)
        for (int c = 0; c < 2; c++) {
            tdm_reducer *r;
            const tdm_compression compress = {.codec = TDM_CODEC_POWERSGD, .rank = limit, .min_saving = 0.01};
            CHECK_OK(make(group, &compress, caps[c], &r));
            for (int n = 0; n < 6; n++) {
                CHECK_OK(step(r, rank, n));
                for (int p = 0; p < SHAPES; p++) {
                    const float *g = tdm_reducer_gradient(r, p);
                    const size_t rows = shapes[p].rows, columns = rows > 1 ? shapes[p].count / rows : 1;
                    const bool exact = rows < 2 || (size_t)limit >= rows || (size_t)limit >= columns || p == ZERO;
                    double norm = 0, error = 0;
                    for (size_t i = 0; i < shapes[p].count; i++) {
                        double mean = 0;
                        for (int k = 0; k < size; k++)
                            mean += (double)value(k, p, i, n) / size;
                        CHECK_THAT(isfinite(g[i]) && (p != ZERO || g[i] == 0));
                        norm += mean * mean;
                        error += (mean - (double)g[i]) * (mean - (double)g[i]);
                    }
                    CHECK(!exact || sqrt(error) <= 1e-5 * sqrt(norm), "rank %d, step %d, parameter %d: %g of %g", limit, n, p, sqrt(error),
                          sqrt(norm));
                }
            }
            tdm_reducer_destroy(r);
        }
    return NULL;
}

static void powersgd_is_exact_where_it_can_be_and_zeros_stay_zero(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, report_body, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, report_body, NULL);
}

/* ---- bytes ---- */

static const char *bytes_body(tdm_group *group, void *arg)
{
    (void)arg;
    static const tdm_compression all[] = {{.codec = TDM_CODEC_NONE}, {.codec = TDM_CODEC_F16}, {.codec = TDM_CODEC_POWERSGD, .rank = 2},
                                          {.codec = TDM_CODEC_ONEBIT}, {.codec = TDM_CODEC_TOPK, .fraction = 0.01}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tdm_reducer *r;
        tdm_part part[SHAPES];
        CHECK_OK(make(group, &all[i], 25, &r));
        const float *memory = tdmi_reducer_bucket_memory(r, 0);
        for (int p = 0; p < SHAPES; p++)
            part[p] = (tdm_part){(size_t)((float *)tdm_reducer_gradient(r, p) - memory), shapes[p].count, shapes[p].rows};
        CHECK_OK(step(r, tdm_group_rank(group), 0));
        CHECK_OK(step(r, tdm_group_rank(group), 1));
        double forecast = 2 * (double)tdm_compression_sends(&all[i], part, SHAPES, 2), sent = (double)tdm_reducer_sent(r);
        if (all[i].codec == TDM_CODEC_ONEBIT) { /* ranks serve chunks of different sizes */
            double both[1] = {sent};
            CHECK_OK(tdm_allreduce(group, both, both, 1, TDM_F64, TDM_AVG, NULL));
            sent = both[0];
        }
        CHECK(fabs(sent - forecast) <= 32, "%s: %g bytes were sent, the forecast is %g", tdm_codec_name(all[i].codec), sent, forecast);
        tdm_reducer_destroy(r);
    }
    return NULL;
}

static void bytes_sent_are_those_of_the_forecast(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, bytes_body, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, bytes_body, NULL);
}

/* ---- on and off, and what cannot be ---- */

static const char *switch_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer *r;
    int rank = tdm_group_rank(group);
    CHECK_OK(make(group, &(tdm_compression){.codec = TDM_CODEC_ONEBIT}, 25, &r));
    CHECK_OK(tdm_reducer_set_compress(r, false));
    CHECK_OK(step(r, rank, 0));
    for (size_t i = 0; i < MOST; i++)
        CHECK_THAT(((float *)tdm_reducer_gradient(r, LARGE))[i] == (value(0, LARGE, i, 0) + value(1, LARGE, i, 0)) * 0.5f);
    CHECK_OK(tdm_reducer_set_compress(r, true));
    const uint64_t plain = tdm_reducer_sent(r);
    uint64_t allocations = 0;
    for (int n = 1; n < 5; n++) {
        CHECK_OK(step(r, rank, n));
        if (n == 2)
            allocations = tdmi_memory_allocations();
    }
    CHECK_OK(tdm_barrier(group, NULL));
    CHECK_THAT(tdmi_memory_allocations() == allocations);
    CHECK_THAT((tdm_reducer_sent(r) - plain) / 4 < plain / 20);
    tdm_reducer_destroy(r);
    CHECK_OK(make(group, &(tdm_compression){.codec = TDM_CODEC_NONE}, 25, &r));
    CHECK_THAT(tdm_reducer_set_compress(r, true) == TDM_ERR_INVALID);
    tdm_reducer_destroy(r);
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.compress.codec = TDM_CODEC_POWERSGD;
    options.op = TDM_SUM;
    CHECK_THAT(tdm_reducer_create(group, &options, &r) == TDM_ERR_UNSUPPORTED && strstr(tdm_error_text(), "powersgd") != NULL);
    options.op = TDM_AVG;
    options.scatter = true;
    CHECK_THAT(tdm_reducer_create(group, &options, &r) == TDM_ERR_UNSUPPORTED && strstr(tdm_error_text(), "scattered") != NULL);
    return NULL;
}

static void a_codec_is_off_and_on_between_steps_and_allocates_nothing(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, switch_body, NULL);
}

static const char *differ_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer *r;
    CHECK_THAT(make(group, &(tdm_compression){.codec = TDM_CODEC_POWERSGD, .rank = 1 + tdm_group_rank(group)}, 25, &r) ==
               TDM_ERR_MISMATCH);
    CHECK_THAT(strstr(tdm_error_text(), "compression powersgd 1") != NULL && strstr(tdm_error_text(), "compression powersgd 2") != NULL);
    tdm_reducer_destroy(r);
    return NULL;
}

static void ranks_with_different_codecs_are_told(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, differ_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_sent_is_kept_and_all_ranks_get_the_same_bits),
        cmocka_unit_test(powersgd_is_exact_where_it_can_be_and_zeros_stay_zero),
        cmocka_unit_test(bytes_sent_are_those_of_the_forecast),
        cmocka_unit_test(a_codec_is_off_and_on_between_steps_and_allocates_nothing),
        cmocka_unit_test(ranks_with_different_codecs_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
