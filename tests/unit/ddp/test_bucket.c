/* test_bucket.c - buckets: the plan as printed, collectives counted at the group's door, slices, epilogues, times. */
#include "core/clock.h"
#include "ddp/plan.h"
#include "ddp/reducer.h"
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The linker sends the reducer's collectives through here (--wrap). */
static _Thread_local int calls; /* of this rank */
tdm_status __real_tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op,
                                tdm_work **work);
tdm_status __wrap_tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op,
                                tdm_work **work);
tdm_status __wrap_tdm_allreduce(tdm_group *group, const void *in, void *out, size_t count, tdm_dtype dtype, tdm_op op,
                                tdm_work **work)
{
    calls++;
    return __real_tdm_allreduce(group, in, out, count, dtype, op, work);
}

/* ResNet-18 for 1000 classes: convolutions, batch norms, the final layer. */
static int resnet18(size_t *counts)
{
    static const int width[] = {64, 128, 256, 512};
    int n = 0;
    counts[n++] = 3 * 64 * 49;
    counts[n++] = 64;
    counts[n++] = 64;
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < 2; block++) {
            size_t out = (size_t)width[stage], in = block == 0 && stage > 0 ? out / 2 : out;
            for (int conv = 0; conv < 2; conv++) {
                counts[n++] = (conv == 0 ? in : out) * out * 9;
                counts[n++] = out;
                counts[n++] = out;
            }
            if (in != out) {
                counts[n++] = in * out;
                counts[n++] = out;
                counts[n++] = out;
            }
        }
    counts[n++] = 512 * 1000;
    counts[n++] = 1000;
    return n;
}

/* Report 24. arg: the cap in MiB; 0: the default. */
static const char *resnet_body(tdm_group *group, void *arg)
{
    size_t counts[80];
    int n = resnet18(counts), id;
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.bucket_cap_mb = *(double *)arg;
    tdm_reducer *r;
    CHECK_OK(tdm_reducer_create(group, &options, &r));
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        CHECK_OK(tdm_reducer_add(r, name, counts[i], &id));
    }
    CHECK_OK(tdm_reducer_commit(r));

    int buckets = tdm_reducer_bucket_count(r), parameters = 0;
    size_t total = 0, cap, first_cap;
    tdmi_plan_caps(options.bucket_cap_mb, 0, &cap, &first_cap);
    for (int b = 0; b < buckets; b++) {
        tdm_bucket_info info = tdm_reducer_bucket(r, b);
        total += info.nbytes;
        parameters += info.parameters;
        size_t last_nbytes = counts[atoi(info.last + 1)] * 4, limit = b == 0 ? first_cap : cap;
        CHECK_THAT(info.nbytes >= limit || b == buckets - 1);
        CHECK_THAT(info.nbytes - last_nbytes < limit);
    }
    CHECK_THAT(total == 46758048 && parameters == n);
    CHECK_THAT(strcmp(tdm_reducer_bucket(r, 0).first, "p61") == 0);
    CHECK_THAT(strcmp(tdm_reducer_bucket(r, buckets - 1).last, "p0") == 0);
    if (options.bucket_cap_mb == 100)
        CHECK_THAT(buckets == 1);
    else if (options.bucket_cap_mb == 25)
        CHECK_THAT(buckets == 2);
    else
        CHECK_THAT(buckets == 3);

    int before = calls;
    for (int i = n - 1; i >= 0; i--)
        CHECK_OK(tdm_reducer_ready(r, i));
    CHECK_OK(tdm_reducer_wait(r));
    CHECK_THAT(calls - before == buckets);
    tdm_reducer_destroy(r);
    return NULL;
}

static void the_plan_obeys_its_rule_and_each_bucket_is_one_collective(void **state)
{
    (void)state;
    double caps[] = {0, 25, 100};
    for (int i = 0; i < 3; i++)
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, resnet_body, &caps[i]);
}

static const char *silent_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer *r;
    int id;
    CHECK_OK(tdm_reducer_create(group, NULL, &r));
    CHECK_OK(tdm_reducer_add(r, "w", 5, &id));
    CHECK_OK(tdm_reducer_commit(r));
    int before = calls;
    tdm_reducer_set_sync(r, false);
    for (int k = 0; k < 3; k++) {
        CHECK_OK(tdm_reducer_ready(r, id));
        CHECK_OK(tdm_reducer_wait(r));
    }
    CHECK_THAT(calls == before);
    tdm_reducer_destroy(r);
    return NULL;
}

static void micro_batches_without_sync_communicate_nothing(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, silent_body, NULL);
}

/* ---- the face for planned buckets ---- */

enum { BUCKETS = 3 };
static const size_t padded[BUCKETS] = {192, 384, 96};

/* Not committed yet. */
static tdm_status create_planned_only(tdm_group *group, bool scatter, tdm_reducer **out)
{
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.scatter = scatter;
    options.op = TDM_SUM;
    int id;
    tdm_status st = tdm_reducer_create(group, &options, out);
    for (int b = 0; b < BUCKETS && st == TDM_OK; b++) {
        char name[2][8];
        snprintf(name[0], sizeof name[0], "a%d", b);
        snprintf(name[1], sizeof name[1], "b%d", b);
        st = tdmi_reducer_add_planned(*out, name[0], 20, b, 0, padded[b], &id);
        if (st == TDM_OK)
            st = tdmi_reducer_add_planned(*out, name[1], padded[b] - 40, b, 32, padded[b], &id);
    }
    return st;
}

static tdm_status create_planned(tdm_group *group, bool scatter, tdm_reducer **out)
{
    tdm_status st = create_planned_only(group, scatter, out);
    return st == TDM_OK ? tdm_reducer_commit(*out) : st;
}

static void fill_bucket(tdm_reducer *r, int rank, int b)
{
    float *memory = tdmi_reducer_bucket_memory(r, b);
    for (size_t k = 0; k < padded[b]; k++)
        memory[k] = k < padded[b] - 8 ? (float)((rank + 1) * ((int)k % 11) + b) : 0;
}

static void fill(tdm_reducer *r, int rank)
{
    for (int b = 0; b < BUCKETS; b++)
        fill_bucket(r, rank, b);
}

static float sum_of(int size, int b, size_t k)
{
    return k < padded[b] - 8 ? (float)(size * (size + 1) / 2 * ((int)k % 11) + size * b) : 0;
}

typedef struct seen {
    int size, wrong;
    size_t elements[BUCKETS];
    unsigned char times[BUCKETS][384];
} seen;

static void note(void *arg, int bucket, size_t first, size_t count, const void *reduced)
{
    seen *s = arg;
    for (size_t k = 0; k < count; k++) {
        s->times[bucket][first + k]++;
        if (((const float *)reduced)[k] != sum_of(s->size, bucket, first + k))
            s->wrong++;
    }
    s->elements[bucket] += count;
}

/* *arg bit 0: scatter, bit 1: with an epilogue. */
static const char *planned_body(tdm_group *group, void *arg)
{
    bool scatter = (*(int *)arg & 1) != 0, epilogue = (*(int *)arg & 2) != 0;
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    tdm_reducer *r;
    CHECK_OK(create_planned(group, scatter, &r));
    CHECK_THAT(tdm_reducer_bucket_count(r) == BUCKETS);
    CHECK_THAT(tdm_reducer_bucket(r, 1).nbytes == (padded[1] - 20) * 4 && tdm_reducer_bucket(r, 1).parameters == 2);
    CHECK_THAT((char *)tdm_reducer_gradient(r, 3) == (char *)tdmi_reducer_bucket_memory(r, 1) + 128);
    for (int step = 0; step < 3; step++) {
        seen s = {.size = size};
        tdmi_reducer_set_epilogue(r, epilogue ? note : NULL, &s);
        fill(r, rank);
        int64_t begin = tdmi_now_ns();
        CHECK_THAT(tdmi_reducer_start_bucket(r, 1) == TDM_ERR_INTERNAL);
        for (int b = 0; b < BUCKETS; b++) {
            CHECK_OK(tdmi_reducer_start_bucket(r, b));
            CHECK_OK(tdm_reducer_progress(r));
        }
        CHECK_THAT(tdmi_reducer_wait_bucket(r, 2) == TDM_ERR_INTERNAL);
        for (int b = 0; b < BUCKETS; b++) {
            CHECK_OK(tdmi_reducer_wait_bucket(r, b));
            tdmi_bucket_times times = tdmi_reducer_times(r, b);
            CHECK_THAT(begin <= times.started_ns && times.started_ns <= times.done_ns && times.done_ns <= tdmi_now_ns());
            size_t first, count;
            tdmi_reducer_slice(r, b, &first, &count);
            CHECK_THAT(count == (scatter ? padded[b] / (size_t)size : padded[b]));
            CHECK_THAT(first == (scatter ? count * (size_t)rank : 0));
            const float *memory = tdmi_reducer_bucket_memory(r, b);
            for (size_t k = first; k < first + count && !epilogue; k++)
                CHECK_THAT(memory[k] == sum_of(size, b, k));
            for (size_t k = 0; k < padded[b] && epilogue; k++)
                CHECK_THAT(s.times[b][k] == (k >= first && k < first + count ? 1 : 0));
        }
        CHECK_THAT(s.wrong == 0);
    }
    tdm_reducer_destroy(r);
    return NULL;
}

static void planned_buckets_are_reduced_one_by_one_to_all_or_to_slices(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++)
        for (int mode = 0; mode < 4; mode++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, planned_body, &mode);
}

/* All buckets in one memory, one after the other; *arg: with slices that are kept, else an epilogue sees them. */
static const char *shared_memory_body(tdm_group *group, void *arg)
{
    const bool keep = *(const bool *)arg;
    const int rank = tdm_group_rank(group), size = tdm_group_size(group);
    static const size_t one_place[BUCKETS] = {0};
    size_t largest = 0;
    tdm_reducer *r;
    CHECK_OK(create_planned_only(group, true, &r));
    for (int b = 0; b < BUCKETS; b++)
        largest = padded[b] > largest ? padded[b] : largest;
    CHECK_THAT(tdmi_reducer_lay_out(r, one_place, largest * sizeof(float) - 4, keep) == TDM_ERR_INTERNAL);
    CHECK_OK(tdmi_reducer_lay_out(r, one_place, largest * sizeof(float), keep));
    CHECK_OK(tdm_reducer_commit(r));
    CHECK_THAT(tdmi_reducer_lay_out(r, one_place, largest * sizeof(float), keep) == TDM_ERR_INTERNAL);
    seen s = {.size = size};
    if (!keep)
        tdmi_reducer_set_epilogue(r, note, &s);
    for (int b = 0; b < BUCKETS; b++) {
        CHECK_THAT(tdmi_reducer_bucket_memory(r, b) == tdmi_reducer_bucket_memory(r, 0));
        fill_bucket(r, rank, b);
        CHECK_OK(tdmi_reducer_start_bucket(r, b));
        CHECK_OK(tdmi_reducer_wait_bucket(r, b));
    }
    for (int b = 0; b < BUCKETS; b++) {
        size_t first, count;
        tdmi_reducer_slice(r, b, &first, &count);
        CHECK_THAT(keep || s.elements[b] == count);
        for (size_t k = 0; k < count && keep; k++)
            CHECK_THAT(((const float *)tdmi_reducer_reduced(r, b))[k] == sum_of(size, b, first + k));
    }
    CHECK_THAT(s.wrong == 0);
    tdm_reducer_destroy(r);
    return NULL;
}

static void buckets_can_use_one_memory_one_after_the_other(void **state)
{
    (void)state;
    static const char *const ways[] = {RANKS_TRANSPORTS};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int n = 1; n <= 3; n++)
            for (int keep = 0; keep < 2; keep++)
                ranks_run(&(ranks_spec){.n = n, .transport = ways[i]}, shared_memory_body, &(bool){keep});
}

static const char *bad_plan_body(tdm_group *group, void *arg)
{
    (void)arg;
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.scatter = true;
    tdm_reducer *r;
    int id;
    CHECK_OK(tdm_reducer_create(group, &options, &r));
    CHECK_THAT(tdmi_reducer_add_planned(r, "w", 10, 1, 0, 32, &id) == TDM_ERR_INTERNAL);
    CHECK_THAT(tdmi_reducer_add_planned(r, "w", 10, 0, 24, 32, &id) == TDM_ERR_INTERNAL);
    CHECK_THAT(tdmi_reducer_add_planned(r, "w", 10, 0, 0, 33, &id) == TDM_ERR_INTERNAL);
    CHECK_OK(tdmi_reducer_add_planned(r, "w", 10, 0, 0, 32, &id));
    CHECK_THAT(tdm_reducer_add(r, "x", 10, &id) == TDM_ERR_INVALID);
    tdm_reducer_destroy(r);
    return NULL;
}

static void a_plan_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, bad_plan_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_obeys_its_rule_and_each_bucket_is_one_collective),
        cmocka_unit_test(micro_batches_without_sync_communicate_nothing),
        cmocka_unit_test(planned_buckets_are_reduced_one_by_one_to_all_or_to_slices),
        cmocka_unit_test(buckets_can_use_one_memory_one_after_the_other),
        cmocka_unit_test(a_plan_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
