/* test_work.c - several calls under way at once, in any order of waiting, without allocating. */
#include "on_ranks.h"

#include "core/clock.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *const transports[] = {RANKS_TRANSPORTS};
static const int transport_count = sizeof transports / sizeof *transports;

/* ---- overlap ---- */

enum { CALLS = 100, COUNT = 3000 };

static const char *starts_many(tdm_group *group, void *arg)
{
    const bool arena = *(bool *)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    void *memory = NULL;
    if (arena)
        CHECK_OK(tdm_alloc(group, CALLS * COUNT * sizeof(int32_t), &memory));
    else
        memory = malloc(CALLS * COUNT * sizeof(int32_t));
    int32_t *data = memory;
    tdm_work *work[CALLS];
    for (int k = 0; k < CALLS; k++) {
        for (int i = 0; i < COUNT; i++)
            data[k * COUNT + i] = rank + k + i;
        if (k % 3 == 2)
            CHECK_OK(tdm_broadcast(group, data + k * COUNT, COUNT, TDM_I32, k % n, &work[k]));
        else
            CHECK_OK(tdm_allreduce(group, data + k * COUNT, data + k * COUNT, COUNT, TDM_I32, TDM_SUM, &work[k]));
    }
    for (int j = 0; j < CALLS; j++) {
        const int k = (j * 37 + rank * 11) % CALLS; /* each rank waits in its own order */
        CHECK_OK(tdm_work_wait(work[k]));
        for (int i = 0; i < COUNT; i++) {
            const int32_t expected = k % 3 == 2 ? k % n + k + i : n * (k + i) + n * (n - 1) / 2;
            CHECK(data[k * COUNT + i] == expected, "call %d, element %d: %d instead of %d", k, i, data[k * COUNT + i], expected);
        }
    }
    CHECK_OK(tdm_barrier(group, NULL));
    if (arena)
        tdm_free(group, memory);
    else
        free(memory);
    return NULL;
}

static void many_calls_at_once_may_be_waited_for_in_any_order(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++)
        for (int arena = 0; arena < 2; arena++) {
            bool in_arena = arena != 0;
            ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, starts_many, &in_arena);
            ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = RANKS_PROCESSES}, starts_many, &in_arena);
            ranks_run(&(ranks_spec){.n = n, .transport = "tcp"}, starts_many, &in_arena);
        }
    bool in_arena = true;
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes"}, starts_many, &in_arena);
}

/* ---- a late peer of one call stops no other ---- */

static const char *one_call_is_late(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    const int pair[] = {0, 1};
    tdm_group *other = NULL;
    float late[10] = {0}, early[10] = {0};
    tdm_work *work = NULL;
    if (rank < 2)
        CHECK_OK(tdm_group_create_sub(group, pair, 2, &other));
    if (rank == 2)
        nanosleep(&(struct timespec){.tv_nsec = 300 * TDMI_NS_PER_MS}, NULL);
    const int64_t start = tdmi_now_ns();
    CHECK_OK(tdm_allreduce(group, late, late, 10, TDM_F32, TDM_SUM, &work));
    if (rank < 2) {
        for (int k = 0; k < 50; k++)
            CHECK_OK(tdm_allreduce(other, early, early, 10, TDM_F32, TDM_SUM, NULL));
        CHECK(tdmi_now_ns() - start < 200 * TDMI_NS_PER_MS, "the pair waited for the third");
    }
    CHECK_OK(tdm_work_wait(work));
    tdm_group_destroy(other);
    return NULL;
}

static void a_late_peer_of_one_group_does_not_hold_up_another(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        ranks_run(&(ranks_spec){.n = 3, .transport = transports[t]}, one_call_is_late, NULL);
}

/* rank 0 starts in B and waits in A; rank 1 waits in B first: rank 0's waiting must serve B too */
static const char *waits_crosswise(tdm_group *group, void *arg)
{
    (void)arg;
    const int both[] = {0, 1};
    tdm_group *b;
    void *block;
    CHECK_OK(tdm_group_create_sub(group, both, 2, &b));
    CHECK_OK(tdm_alloc(group, 100000 * sizeof(float), &block));
    for (int k = 0; k < 20; k++) {
        tdm_work *work;
        CHECK_OK(tdm_allreduce(b, block, block, 100000, TDM_F32, TDM_MAX, &work));
        if (tdm_group_rank(group) == 1)
            CHECK_OK(tdm_work_wait(work));
        CHECK_OK(tdm_barrier(group, NULL));
        if (tdm_group_rank(group) == 0)
            CHECK_OK(tdm_work_wait(work));
    }
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_group_destroy(b);
    return NULL;
}

static void waiting_in_one_group_serves_the_calls_of_another(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t]}, waits_crosswise, NULL);
}

/* ---- progress without waiting ---- */

static const char *computes_meanwhile(tdm_group *group, void *arg)
{
    (void)arg;
    const size_t count = 200000;
    float *data = calloc(count, sizeof *data);
    tdm_work *work;
    bool done = false;
    CHECK_OK(tdm_barrier(group, NULL));
    CHECK_OK(tdm_allreduce(group, data, data, count, TDM_F32, TDM_SUM, &work));
    /* No call into Tandem: over tcp a thread of its own moves the data. */
    nanosleep(&(struct timespec){.tv_nsec = 400 * TDMI_NS_PER_MS}, NULL);
    CHECK_OK(tdm_work_test(work, &done));
    CHECK(done, "nothing moved while the rank did not look");
    CHECK_OK(tdm_work_wait(work));
    free(data);
    return NULL;
}

static void over_tcp_calls_go_on_while_the_rank_computes(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "tcp"}, computes_meanwhile, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .mode = RANKS_PROCESSES}, computes_meanwhile, NULL);
}

/* ---- memory ---- */

static const char *allocates_nothing(tdm_group *group, void *arg)
{
    (void)arg;
    void *shared;
    static float unshared[2][50000];
    float *private_data = unshared[tdm_group_rank(group)];
    tdm_work *work[3];
    CHECK_OK(tdm_alloc(group, 50000 * sizeof(float), &shared));
    uint64_t before = 0;
    for (int k = 0; k < 300; k++) {
        if (k == 20) {
            CHECK_OK(tdm_barrier(group, NULL));
            before = tdmi_memory_allocations();
        }
        CHECK_OK(tdm_allreduce(group, shared, shared, 50000, TDM_F32, TDM_SUM, &work[0]));
        CHECK_OK(tdm_allreduce(group, private_data, private_data, 20000, TDM_F32, TDM_AVG, &work[1]));
        CHECK_OK(tdm_broadcast(group, private_data + 20000, 100, TDM_F32, k % 2, &work[2]));
        for (int i = 0; i < 3; i++)
            CHECK_OK(tdm_work_wait(work[i]));
        CHECK_OK(tdm_reduce_scatter(group, shared, private_data, 25000, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_barrier(group, NULL));
    }
    const uint64_t made = tdmi_memory_allocations() - before;
    CHECK(made == 0, "%llu allocations after the first 20 rounds", (unsigned long long)made);
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static void after_warm_up_calls_allocate_nothing(void **state)
{
    (void)state;
    for (int t = 0; t < transport_count; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = transports[t], .mode = RANKS_PROCESSES}, allocates_nothing, NULL);
}

static const char *uses_many_counts(tdm_group *group, void *arg)
{
    (void)arg;
    float data[5000] = {0};
    size_t held = 0;
    for (size_t k = 0; k < 4500; k++) {
        if (k == 1500)
            held = tdmi_memory_held();
        CHECK_OK(tdm_allreduce(group, data, data, k, TDM_F32, TDM_SUM, NULL));
    }
    CHECK(tdmi_memory_held() < held + 100000, "%zu bytes more after 3000 different calls", tdmi_memory_held() - held);
    return NULL;
}

static void different_calls_without_end_do_not_fill_memory(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, uses_many_counts, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, uses_many_counts, NULL);
}

/* ---- arguments ---- */

static const char *passes_nonsense(tdm_group *group, void *arg)
{
    (void)arg;
    float data[4] = {1, 2, 3, 4};
    const struct {
        tdm_status status;
        const char *text;
    } cases[] = {
        {tdm_allreduce(NULL, data, data, 4, TDM_F32, TDM_SUM, NULL), "group is NULL"},
        {tdm_allreduce(group, data, data, 4, (tdm_dtype)99, TDM_SUM, NULL), "99 is no dtype"},
        {tdm_allreduce(group, data, data, 4, TDM_F32, (tdm_op)-1, NULL), "-1 is no operation"},
        {tdm_allreduce(group, NULL, data, 4, TDM_F32, TDM_SUM, NULL), "a buffer of 4 elements is NULL"},
        {tdm_all_gather(group, data, NULL, 4, TDM_F32, NULL), "is NULL"},
        {tdm_allreduce(group, data, data, SIZE_MAX / 2, TDM_F32, TDM_SUM, NULL), "more than an address space holds"},
        {tdm_broadcast(group, data, 4, TDM_F32, 2, NULL), "root is rank 2, but the group has ranks 0 to 1"},
        {tdm_broadcast(group, data, 4, TDM_F32, -1, NULL), "root is rank -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(cases[i].status == TDM_ERR_INVALID, "case %zu (%s): %s", i, cases[i].text, tdm_status_name(cases[i].status));
    CHECK_OK(tdm_allreduce(group, data, data, 4, TDM_F32, TDM_SUM, NULL)); /* nothing of this was a call */
    CHECK(tdm_broadcast(group, data, 4, TDM_F32, 2, NULL) != TDM_OK && strstr(tdm_error_text(), cases[6].text) != NULL, "%s",
          tdm_error_text());
    return NULL;
}

static void wrong_arguments_are_refused_and_the_group_lives_on(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, passes_nonsense, NULL);
}

int main(void)
{
    setenv("UCX_TLS", "tcp", 0); /* opening all of them takes its time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_calls_at_once_may_be_waited_for_in_any_order),
        cmocka_unit_test(a_late_peer_of_one_group_does_not_hold_up_another),
        cmocka_unit_test(waiting_in_one_group_serves_the_calls_of_another),
        cmocka_unit_test(over_tcp_calls_go_on_while_the_rank_computes),
        cmocka_unit_test(after_warm_up_calls_allocate_nothing),
        cmocka_unit_test(different_calls_without_end_do_not_fill_memory),
        cmocka_unit_test(wrong_arguments_are_refused_and_the_group_lives_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
