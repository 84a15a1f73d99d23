/* test_fused.c - each rank is handed its slice of the reduction, whatever the memory and the transport. */
#include "on_ranks.h"

#include "group/fused.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { COUNT_MAX = 50007 };

typedef struct taker {
    float got[COUNT_MAX];
    size_t first, next;
    bool in_order;
    int pieces;
    pthread_t owner; /* whose thread this is */
    bool elsewhere;
} taker;

static void take(void *arg, size_t first, size_t count, const void *reduced)
{
    taker *t = arg;
    t->elsewhere |= !pthread_equal(t->owner, pthread_self());
    if (t->pieces++ == 0)
        t->first = t->next = first;
    t->in_order = t->in_order && first == t->next;
    memcpy(t->got + first, reduced, count * sizeof(float));
    t->next = first + count;
}

static const char *one_size(tdm_group *group, float *data, size_t count, bool overlap, taker *t)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    size_t first, mine;
    tdm_work *work = NULL;
    for (size_t i = 0; i < count; i++)
        data[i] = (float)rank + (float)i;
    *t = (taker){.in_order = true, .owner = pthread_self()};
    CHECK_OK(tdmi_reduce_scatter_fused(group, data, count, TDM_F32, TDM_SUM, take, t, overlap ? &work : NULL));
    if (overlap) {
        if (count == 100) /* time for the progress thread to do all it may */
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        CHECK_OK(tdm_barrier(group, NULL));
        CHECK_OK(tdm_work_wait(work));
    }
    CHECK(!t->elsewhere, "the epilogue ran in another thread");
    tdmi_slice(count, TDM_F32, rank, n, &first, &mine);
    CHECK(mine == 0 ? t->pieces == 0 : t->in_order && t->first == first && t->next == first + mine,
          "count %zu: pieces from %zu to %zu, the slice is [%zu, %zu)", count, t->first, t->next, first, first + mine);
    for (size_t i = first; i < first + mine; i++)
        CHECK(t->got[i] == (float)n * (float)i + (float)(n * (n - 1) / 2), "count %zu: element %zu is %g", count, i, (double)t->got[i]);
    for (size_t i = 0; i < count; i++)
        CHECK(data[i] == (float)rank + (float)i, "count %zu: the input changed at %zu", count, i);
    return NULL;
}

static const char *every_size(tdm_group *group, void *arg)
{
    const bool arena = *(bool *)arg;
    const size_t counts[] = {0, 1, 15, 16, 17, 100, 4096, COUNT_MAX};
    void *data = NULL;
    taker *t = malloc(sizeof *t);
    if (arena)
        CHECK_OK(tdm_alloc(group, COUNT_MAX * sizeof(float), &data));
    else
        data = malloc(COUNT_MAX * sizeof(float));
    const char *wrong = NULL;
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts && wrong == NULL; i++)
        wrong = one_size(group, data, counts[i / 2], i % 2 != 0, t);
    if (wrong == NULL && tdm_barrier(group, NULL) != TDM_OK)
        wrong = ranks_say("%s", tdm_error_text());
    if (!arena)
        free(data);
    free(t);
    return wrong;
}

static void every_rank_gets_its_slice_in_order_and_once(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int arena = 0; arena < 2; arena++) {
            bool in_arena = arena != 0;
            ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, every_size, &in_arena);
            ranks_run(&(ranks_spec){.n = n, .transport = "tcp"}, every_size, &in_arena);
        }
    bool in_arena = true;
    ranks_run(&(ranks_spec){.n = 3, .transport = "nodes"}, every_size, &in_arena);
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, every_size, &in_arena);
}

static const char *half_is_fused(tdm_group *group, void *arg)
{
    static _Thread_local taker t;
    float data[100] = {0};
    (void)arg;
    tdm_status status = tdm_group_rank(group) == 0
                            ? tdmi_reduce_scatter_fused(group, data, 64, TDM_F32, TDM_SUM, take, &t, NULL)
                            : tdm_reduce_scatter(group, data, data, 64 / 2, TDM_F32, TDM_SUM, NULL);
    CHECK(status == TDM_ERR_MISMATCH && strstr(tdm_error_text(), "with an epilogue") != NULL, "%s: %s", tdm_status_name(status),
          tdm_error_text());
    return NULL;
}

static void a_fused_call_is_another_call(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, half_is_fused, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, half_is_fused, NULL);
}

static void slices_cover_the_buffer_once_at_whole_lines(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n++)
        for (size_t count = 0; count < 600; count += 7) {
            size_t next = 0;
            for (int r = 0; r < n; r++) {
                size_t first, mine;
                tdmi_slice(count, TDM_BF16, r, n, &first, &mine);
                assert_true(first == next && (first % 32 == 0 || first == count));
                next = first + mine;
            }
            assert_int_equal(next, count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_its_slice_in_order_and_once),
        cmocka_unit_test(a_fused_call_is_another_call),
        cmocka_unit_test(slices_cover_the_buffer_once_at_whole_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
