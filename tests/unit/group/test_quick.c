/* test_quick.c - short calls that are over at once (group/quick.c) give what the runner of step lists gives, bit for bit, and become
 * calls like any other where a rank is late. */
#include "on_ranks.h"

#include "core/dtype.h"
#include "group/group.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define N 5
#define BYTES (N * TDMI_EAGER_BYTES)

typedef struct kind {
    tdm_dtype dtype;
    tdm_op op;
} kind;

static const kind kinds[] = {{TDM_F32, TDM_SUM}, {TDM_F32, TDM_AVG}, {TDM_BF16, TDM_SUM}, {TDM_I8, TDM_AVG}, {TDM_U64, TDM_MAX}, {TDM_BOOL, TDM_BXOR}};
#define OPERATIONS 9

static tdm_status make(tdm_group *group, int operation, const kind *k, const void *in, void *out, size_t count, tdm_work **work)
{
    const int root = tdm_group_size(group) - 1;
    switch (operation) {
    case 0: return tdm_allreduce(group, in, out, count, k->dtype, k->op, work);
    case 1: return tdm_reduce_scatter(group, in, out, count, k->dtype, k->op, work);
    case 2: return tdm_all_gather(group, in, out, count, k->dtype, work);
    case 3: return tdm_broadcast(group, out, count, k->dtype, root, work);
    case 4: return tdm_reduce(group, in, out, count, k->dtype, k->op, root, work);
    case 5: return tdm_gather(group, in, out, count, k->dtype, root, work);
    case 6: return tdm_scatter(group, in, out, count, k->dtype, root, work);
    case 7: return tdm_alltoall(group, in, out, count, k->dtype, work);
    default: return tdm_barrier(group, work);
    }
}

/* Small numbers that differ between ranks; a bool is 0 or 1. */
static void fill(unsigned char *data, const kind *k, int rank, unsigned seed)
{
    const size_t size = tdm_dtype_size(k->dtype);
    memset(data, 0, BYTES);
    for (size_t i = 0; i < BYTES / size; i++) {
        const float value = (float)(((unsigned)i * 7 + (unsigned)rank * 3 + seed) % 11) / 3;
        const uint16_t half = tdmi_f32_to_bf16(value);
        if (k->dtype == TDM_F32)
            memcpy(data + i * size, &value, sizeof value);
        else if (k->dtype == TDM_BF16)
            memcpy(data + i * size, &half, sizeof half);
        else
            data[i * size] = (unsigned char)((unsigned)value & (k->dtype == TDM_BOOL ? 1 : 3));
    }
}

/* Where the rank's own part lies if the call is in place. */
static void place(int operation, int rank, int n, size_t nbytes, unsigned char *block, const void **in, void **out)
{
    const bool root = rank == n - 1;
    *in = block + (operation == 2 || (operation == 5 && root) ? (size_t)rank * nbytes : 0);
    *out = block + (operation == 1 || (operation == 6 && root) ? (size_t)rank * nbytes : 0);
}

static tdm_status by_steps(tdm_group *group, int operation, const kind *k, const void *in, void *out, size_t count)
{
    tdm_work *work;
    const tdm_status status = make(group, operation, k, in, out, count, &work);
    return status == TDM_OK ? tdm_work_wait(work) : status;
}

static const char *gives_the_same(tdm_group *group, void *arg)
{
    const bool late = *(const bool *)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    static _Thread_local unsigned char in[BYTES], expected[BYTES], found[BYTES];
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            for (int in_place = 0; in_place < 2; in_place++)
                for (int c = 0; c < 4; c++) {
                    const kind *k = &kinds[i];
                    const size_t size = tdm_dtype_size(k->dtype), parts = operation == 0 || operation == 3 || operation == 4 ? 1 : (size_t)n;
                    const size_t count = (size_t[]){0, 1, 3, TDMI_EAGER_BYTES / size / parts}[c];
                    const void *from = in;
                    void *to = expected;
                    fill(in, k, rank, (unsigned)c);
                    fill(expected, k, rank, (unsigned)c);
                    fill(found, k, rank, (unsigned)c);
                    if (in_place)
                        place(operation, rank, n, count * size, expected, &from, &to);
                    CHECK_OK(by_steps(group, operation, k, from, to, count));
                    if (late && (i + (size_t)c) % (size_t)n == (size_t)rank && c == 1)
                        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
                    to = found;
                    if (in_place)
                        place(operation, rank, n, count * size, found, &from, &to);
                    CHECK_THAT(group->quiet);
                    CHECK_OK(make(group, operation, k, from, to, count, NULL));
                    CHECK_THAT(group->quiet);
                    CHECK(memcmp(found, expected, BYTES) == 0, "operation %d of %zu %s, %s place", operation, count,
                          tdm_dtype_name(k->dtype), in_place ? "in" : "out of");
                }
    return NULL;
}

static void results_are_those_of_the_step_lists(void **state)
{
    (void)state;
    for (int n = 2; n <= N; n++)
        for (int late = 0; late < 2; late++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = (ranks_mode)(n % 2)}, gives_the_same, &(bool){late});
}

/* Calls of both kinds, under way and awaited, with a message among them. */
static const char *mixes(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    for (int i = 0; i < 300; i++) {
        int32_t one = rank + i, sum = 0, early = 0, word = i, got = -1;
        tdm_work *work, *receives = NULL;
        if (i % 3 == 0)
            CHECK_OK(tdm_recv(group, &got, 1, TDM_I32, (rank + n - 1) % n, i, NULL, &receives));
        CHECK_OK(tdm_allreduce(group, &one, &early, 1, TDM_I32, TDM_SUM, &work));
        CHECK_OK(tdm_allreduce(group, &one, &sum, 1, TDM_I32, TDM_SUM, NULL)); /* while the other is under way */
        CHECK_OK(tdm_work_wait(work));
        if (receives != NULL) {
            CHECK_OK(tdm_send(group, &word, 1, TDM_I32, (rank + 1) % n, i, NULL));
            CHECK_OK(tdm_work_wait(receives));
            CHECK(got == i, "message %d: %d", i, got);
        }
        CHECK(early == sum && sum == n * (n - 1) / 2 + n * i, "call %d: %d and %d", i, early, sum);
        CHECK_OK(tdm_allreduce(group, &one, &sum, 1, TDM_I32, TDM_MAX, NULL));
        CHECK(sum == n - 1 + i, "call %d: %d", i, sum);
    }
    return NULL;
}

static void they_mix_with_calls_under_way(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = (ranks_mode)(n % 2)}, mixes, NULL);
}

/* ---- two groups of a rank, each in a thread ---- */

typedef struct other {
    tdm_group *group;
    tdm_status status;
} other;

static void *dawdles(void *arg)
{
    other *o = arg;
    for (int i = 0; i < 50 && o->status == TDM_OK; i++) {
        if (i % 2 == tdm_group_rank(o->group))
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* the others wait, and look after all groups meanwhile */
        o->status = tdm_barrier(o->group, NULL);
    }
    return NULL;
}

static const char *has_two_threads(tdm_group *group, void *arg)
{
    (void)arg;
    other o = {.status = TDM_OK};
    pthread_t thread;
    CHECK_OK(tdm_group_create_sub(group, (int[]){0, 1}, 2, &o.group));
    CHECK_THAT(pthread_create(&thread, NULL, dawdles, &o) == 0);
    tdm_status status = TDM_OK;
    int32_t one = 1, sum = 2;
    for (int i = 0; i < 800 && status == TDM_OK && sum == 2; i++) /* less than the recorder's ring: it has no lock against its end */
        status = tdm_allreduce(group, &one, &sum, 1, TDM_I32, TDM_SUM, NULL);
    pthread_join(thread, NULL);
    tdm_group_destroy(o.group);
    CHECK(status == TDM_OK && o.status == TDM_OK && sum == 2, "%s %s %d", tdm_status_name(status), tdm_status_name(o.status), sum);
    return NULL;
}

static void another_thread_may_use_another_group(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, has_two_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_step_lists),
        cmocka_unit_test(they_mix_with_calls_under_way),
        cmocka_unit_test(another_thread_may_use_another_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
