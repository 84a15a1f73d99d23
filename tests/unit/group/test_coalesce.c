/* test_coalesce.c - many small calls with one meeting, and calls that are kept and started again: results have the bits of
 * single calls, nothing is allocated, what does not fit names both sides. */
#include "on_ranks.h"

#include "core/memory.h"
#include "group/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALLS = 40, MOST = 700, RANKS_MAX = 8 };

static size_t count_of(int c)
{
    static const size_t counts[] = {1, 0, 33, 700, 5, 256, 7};
    return counts[c % 7];
}

static void fill(float *to, size_t count, int rank, int c)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(((unsigned)rank * 7919u + (unsigned)c * 104729u + (unsigned)i) * 2654435761u >> 20) * 0.37f - 700.0f;
}

/* Call c of the mix: alike ones follow each other, and some are too long to be packed. */
static tdm_status one(tdm_group *group, int mix, int c, float *in, float *out, tdm_work **work)
{
    const int n = tdm_group_size(group), root = n - 1;
    const size_t count = count_of(c);
    switch (mix) {
    case 0: return tdm_allreduce(group, in, out, count, TDM_F32, TDM_SUM, work);
    case 1: return tdm_broadcast(group, out, count, TDM_F32, c < CALLS / 2 ? 0 : root, work);
    case 2: return tdm_all_gather(group, in, out, count, TDM_F32, work);
    case 3: return tdm_reduce_scatter(group, in, out, count, TDM_F32, TDM_AVG, work);
    case 4: return tdm_alltoall(group, in, out, count, TDM_F32, work);
    case 5: return tdm_reduce(group, in, out, count, TDM_F32, c % 5 == 0 ? TDM_MAX : TDM_SUM, root, work);
    case 6: return tdm_gather(group, in, out, count, TDM_F32, root, work);
    case 7: return tdm_scatter(group, in, out, count, TDM_F32, root, work);
    default: return one(group, c / 5 % 8, c, in, out, work);
    }
}

enum { MIXES = 9 };

typedef struct memory {
    float *in[CALLS], *out[CALLS], *expected[CALLS];
} memory;

static const char *make_memory(tdm_group *group, bool arena, memory *m)
{
    const size_t nbytes = MOST * (size_t)tdm_group_size(group) * sizeof(float);
    for (int c = 0; c < CALLS; c++) {
        void *in = malloc(nbytes), *out = malloc(nbytes);
        if (arena) {
            free(in);
            free(out);
            CHECK_OK(tdm_alloc(group, nbytes, &in));
            CHECK_OK(tdm_alloc(group, nbytes, &out));
        }
        m->in[c] = in, m->out[c] = out;
        m->expected[c] = malloc(nbytes);
    }
    return NULL;
}

static void free_memory(tdm_group *group, bool arena, memory *m)
{
    for (int c = 0; c < CALLS; c++) {
        if (arena)
            tdm_free(group, m->in[c]), tdm_free(group, m->out[c]);
        else
            free(m->in[c]), free(m->out[c]);
        free(m->expected[c]);
    }
}

static void fill_all(tdm_group *group, memory *m)
{
    const int rank = tdm_group_rank(group);
    for (int c = 0; c < CALLS; c++) {
        fill(m->in[c], MOST * (size_t)tdm_group_size(group), rank, c);
        fill(m->out[c], MOST * (size_t)tdm_group_size(group), rank, c + CALLS);
    }
}

static const char *single_calls(tdm_group *group, int mix, memory *m)
{
    fill_all(group, m);
    for (int c = 0; c < CALLS; c++) {
        memcpy(m->expected[c], m->out[c], MOST * (size_t)tdm_group_size(group) * sizeof(float));
        CHECK_OK(one(group, mix, c, m->in[c], m->expected[c], NULL));
    }
    return NULL;
}

static const char *compare(tdm_group *group, int mix, const memory *m)
{
    for (int c = 0; c < CALLS; c++)
        CHECK(memcmp(m->out[c], m->expected[c], MOST * (size_t)tdm_group_size(group) * sizeof(float)) == 0,
              "mix %d: call %d has other bits than alone", mix, c);
    return NULL;
}

static const char *packs(tdm_group *group, void *arg)
{
    const bool arena = *(bool *)arg;
    memory m;
    const char *wrong = make_memory(group, arena, &m);
    for (int mix = 0; mix < MIXES && wrong == NULL; mix++) {
        tdm_work *work = NULL, *none;
        wrong = single_calls(group, mix, &m);
        if (wrong != NULL)
            break;
        fill_all(group, &m);
        const uint64_t before = group->number;
        CHECK_OK(tdm_coalesce_begin(group));
        for (int c = 0; c < CALLS; c++) {
            CHECK_OK(one(group, mix, c, m.in[c], m.out[c], c % 2 == 0 ? NULL : &none));
            CHECK_THAT(c % 2 == 0 || none == NULL);
        }
        CHECK_OK(tdm_coalesce_end(group, mix % 2 == 0 ? NULL : &work));
        const uint64_t calls = group->number - before;
        CHECK(mix != 0 || calls == 1, "%d small allreduces took %llu calls", CALLS, (unsigned long long)calls);
        CHECK_THAT(calls < CALLS);
        if (work != NULL)
            CHECK_OK(tdm_work_wait(work));
        wrong = compare(group, mix, &m);
    }
    CHECK_OK(tdm_barrier(group, NULL));
    free_memory(group, arena, &m);
    return wrong;
}

static void a_set_has_the_bits_of_single_calls_and_fewer_meetings(void **state)
{
    (void)state;
    for (int arena = 0; arena < 2; arena++) {
        bool is_arena = arena != 0;
        for (int n = 1; n <= 4; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, packs, &is_arena);
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, packs, &is_arena);
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp"}, packs, &is_arena);
        ranks_run(&(ranks_spec){.n = 3, .transport = "nodes"}, packs, &is_arena);
    }
}

typedef struct heard {
    atomic_int times;
    const float *result; /* is in place when the callback runs */
    float seen;
} heard;

static void hear(void *arg, tdm_status status)
{
    heard *h = arg;
    h->seen = status == TDM_OK ? *h->result : -1.0f;
    atomic_fetch_add(&h->times, 1);
}

/* Long and uneven calls and barriers keep their places; two sets may be under way; testing is enough to see the end. */
static const char *mixes_kinds(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    enum { LONG = 40000 };
    float *block = malloc(LONG * sizeof *block), small[2][3], parts[RANKS_MAX] = {0};
    size_t counts[RANKS_MAX] = {0};
    const float mine = (float)rank;
    tdm_work *work[2];
    for (int i = 0; i < LONG; i++)
        block[i] = (float)(rank + i % 100);
    for (int r = 0; r < n; r++)
        counts[r] = r == 0 ? 0 : 1;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 3; i++)
            small[s][i] = (float)(rank + i + s);
        CHECK_OK(tdm_coalesce_begin(group));
        CHECK_OK(tdm_allreduce(group, &small[s][0], &small[s][0], 1, TDM_F32, TDM_SUM, NULL));
        if (s == 0) {
            CHECK_OK(tdm_allreduce(group, block, block, LONG, TDM_F32, TDM_SUM, NULL));
            CHECK_OK(tdm_barrier(group, NULL));
            CHECK_OK(tdm_all_gatherv(group, &mine, parts, counts, TDM_F32, NULL));
            memset(counts, 0, sizeof counts); /* arrays are the caller's again */
        }
        CHECK_OK(tdm_allreduce(group, &small[s][1], &small[s][1], 1, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_allreduce(group, &small[s][2], &small[s][2], 1, TDM_F32, TDM_MAX, NULL));
        CHECK_OK(tdm_coalesce_end(group, &work[s]));
    }
    heard first = {.result = &small[0][0]};
    tdm_work_on_done(work[0], hear, &first);
    bool done = false;
    while (!done)
        CHECK_OK(tdm_work_test(work[1], &done));
    for (int s = 1; s >= 0; s--) {
        if (s == 0)
            CHECK_OK(tdm_work_wait(work[0]));
        CHECK_THAT(s == 1 || (atomic_load(&first.times) == 1 && first.seen == small[0][0]));
        for (int i = 0; i < 3; i++) {
            const float expected = i == 2 ? (float)(n - 1 + i + s) : (float)(n * (i + s) + n * (n - 1) / 2);
            CHECK(small[s][i] == expected, "set %d, call %d: %g instead of %g", s, i, (double)small[s][i], (double)expected);
        }
    }
    CHECK_OK(tdm_work_wait(work[1]));
    for (int i = 0; i < LONG; i++)
        CHECK_THAT(block[i] == (float)(n * (i % 100) + n * (n - 1) / 2));
    for (int r = 1; r < n; r++)
        CHECK_THAT(parts[r - 1] == (float)r);
    free(block);
    CHECK_OK(tdm_coalesce_begin(group)); /* an empty set is over at once */
    CHECK_OK(tdm_coalesce_end(group, &work[0]));
    CHECK_OK(tdm_work_wait(work[0]));
    return NULL;
}

static void long_and_uneven_calls_stay_on_their_own(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, mixes_kinds, NULL);
    ranks_run(&(ranks_spec){.n = 4, .transport = "tcp"}, mixes_kinds, NULL);
}

static const char *allocates_nothing(tdm_group *group, void *arg)
{
    const bool kept = *(bool *)arg;
    float data[20][8] = {{0}};
    tdm_work *work = NULL;
    uint64_t before = 0;
    for (int k = 0; k < 40; k++) {
        if (k == 20)
            before = tdmi_memory_allocations();
        for (int i = 0; i < 20; i++)
            data[i][0] = 1.0f;
        if (kept && work != NULL) {
            CHECK_OK(tdm_work_start(work));
        } else {
            CHECK_OK(tdm_coalesce_begin(group));
            for (int i = 0; i < 20; i++)
                CHECK_OK(tdm_allreduce(group, data[i], data[i], i < 10 ? 8 : 4, TDM_F32, i < 15 ? TDM_SUM : TDM_MAX, NULL));
            CHECK_OK(tdm_coalesce_end(group, &work));
            if (kept)
                CHECK_OK(tdm_work_keep(work));
        }
        CHECK_OK(tdm_work_wait(work));
        CHECK_THAT(data[14][0] == (float)tdm_group_size(group) && data[15][0] == 1.0f);
    }
    const uint64_t made = tdmi_memory_allocations() - before;
    CHECK(made == 0, "%llu allocations", (unsigned long long)made);
    if (kept)
        tdm_work_free(work);
    return NULL;
}

static void a_set_that_was_made_before_allocates_nothing(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) { /* processes: the count is of the process */
        bool is_kept = kept != 0;
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, allocates_nothing, &is_kept);
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp", .mode = RANKS_PROCESSES}, allocates_nothing, &is_kept);
    }
}

/* ---- what does not fit ---- */

static const char *sets_differ(tdm_group *group, void *arg)
{
    const int kind = *(int *)arg, rank = tdm_group_rank(group);
    float a[8] = {0}, b[8] = {0};
    static const char *const texts[][2] = {{"rank 1", "not the same counts of single calls"},
                                           {"2 coalesced calls of allreduce of 7", "rank 1 makes 3 coalesced calls of allreduce of 7"},
                                           {"2 coalesced calls of allreduce of 7", "rank 1 makes allreduce of 3"}};
    CHECK_OK(tdm_coalesce_begin(group));
    if (rank != 1 || kind == 0) {
        CHECK_OK(tdm_allreduce(group, a, a, rank == 1 ? 4 : 3, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_allreduce(group, b, b, rank == 1 ? 3 : 4, TDM_F32, TDM_SUM, NULL));
    } else if (kind == 1) {
        CHECK_OK(tdm_allreduce(group, a, a, 3, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_allreduce(group, b, b, 3, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_allreduce(group, b + 4, b + 4, 1, TDM_F32, TDM_SUM, NULL));
    } else {
        CHECK_OK(tdm_allreduce(group, a, a, 3, TDM_F32, TDM_SUM, NULL));
    }
    tdm_status status = tdm_coalesce_end(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH && strstr(tdm_error_text(), texts[kind][0]) != NULL &&
              strstr(tdm_error_text(), texts[kind][1]) != NULL,
          "%s: %s", tdm_status_name(status), tdm_error_text());
    return NULL;
}

static void sets_that_differ_are_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, sets_differ, &kind);
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp"}, sets_differ, &kind);
    }
}

static const char *misuses(tdm_group *group, void *arg)
{
    (void)arg;
    float x = 1;
    tdm_work *work;
    CHECK_THAT(tdm_coalesce_end(group, NULL) == TDM_ERR_INVALID);
    CHECK_OK(tdm_coalesce_begin(group));
    CHECK_THAT(tdm_coalesce_begin(group) == TDM_ERR_INVALID);
    CHECK_THAT(tdm_allreduce(group, NULL, NULL, 4, TDM_F32, TDM_SUM, NULL) == TDM_ERR_INVALID); /* is no part of the set */
    CHECK_OK(tdm_allreduce(group, &x, &x, 1, TDM_F32, TDM_SUM, NULL));
    CHECK_OK(tdm_coalesce_end(group, NULL));
    CHECK_THAT(x == (float)tdm_group_size(group));
    CHECK_OK(tdm_allreduce(group, &x, &x, 1, TDM_F32, TDM_MAX, &work));
    CHECK_THAT(tdm_work_start(work) == TDM_ERR_INVALID); /* not kept */
    CHECK_OK(tdm_work_keep(work));
    CHECK_THAT(tdm_work_start(work) == TDM_ERR_INVALID); /* under way */
    CHECK_OK(tdm_work_wait(work));
    CHECK_OK(tdm_work_start(work));
    CHECK_OK(tdm_work_wait(work));
    tdm_work_free(work);
    CHECK_OK(tdm_coalesce_begin(group)); /* left open: the group takes it along */
    return NULL;
}

static void misuse_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, misuses, NULL);
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, misuses, NULL);
}

/* ---- kept calls ---- */

static const char *starts_again(tdm_group *group, void *arg)
{
    const bool arena = *(bool *)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    enum { COUNT = 3000, KINDS = 4, TURNS = 30 };
    void *block = malloc(COUNT * KINDS * sizeof(int32_t));
    if (arena) {
        free(block);
        CHECK_OK(tdm_alloc(group, COUNT * KINDS * sizeof(int32_t), &block));
    }
    int32_t *data[KINDS], out[COUNT];
    size_t counts[RANKS_MAX];
    tdm_work *work[KINDS];
    const int32_t two = 2;
    tdm_op doubled;
    CHECK_OK(tdm_op_create_premul(TDM_I32, &two, &doubled));
    for (int r = 0; r < n; r++)
        counts[r] = COUNT / (size_t)n - (size_t)(r + rank) % 2;
    uint64_t before = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int k = 0; k < KINDS; k++)
            for (int i = 0; i < COUNT; i++)
                (data[k] = (int32_t *)block + k * COUNT)[i] = rank * 1000 + i % 7 + turn;
        if (turn == TURNS / 2)
            before = tdmi_memory_allocations();
        for (int k = 0; k < KINDS && turn > 0; k++)
            CHECK_OK(tdm_work_start(work[k]));
        if (turn == 0) {
            CHECK_OK(tdm_allreduce(group, data[0], data[0], COUNT, TDM_I32, TDM_SUM, &work[0]));
            CHECK_OK(tdm_alltoall(group, data[1], data[1], (size_t)(COUNT / n), TDM_I32, &work[1]));
            CHECK_OK(tdm_allreduce(group, data[2], out, COUNT, TDM_I32, doubled, &work[2]));
            CHECK_OK(tdm_alltoallv(group, data[3], counts, data[3], counts, TDM_I32, &work[3]));
        }
        for (int k = KINDS - 1; k >= 0; k--) {
            if (turn == 0)
                CHECK_OK(tdm_work_keep(work[k]));
            CHECK_OK(tdm_work_wait(work[k]));
        }
        for (int i = 0; i < COUNT; i++) {
            const int32_t sum = n * (i % 7 + turn) + n * (n - 1) / 2 * 1000;
            CHECK(data[0][i] == sum && out[i] == 2 * sum, "turn %d: %d and %d instead of %d", turn, data[0][i], out[i], sum);
        }
        size_t at = 0;
        for (int r = 0; r < n; r++) {
            CHECK_THAT(data[1][r * (COUNT / n)] == r * 1000 + rank * (COUNT / n) % 7 + turn);
            size_t theirs = 0; /* where rank r's part for this rank starts */
            for (int p = 0; p < rank; p++)
                theirs += COUNT / (size_t)n - (size_t)(p + r) % 2;
            CHECK_THAT(data[3][at] == r * 1000 + (int32_t)(theirs % 7) + turn);
            at += counts[r];
        }
    }
    const uint64_t made = tdmi_memory_allocations() - before;
    CHECK(made == 0, "%llu allocations", (unsigned long long)made);
    for (int k = 0; k < KINDS; k++)
        tdm_work_free(work[k]);
    tdm_op_free(doubled);
    CHECK_OK(tdm_barrier(group, NULL));
    if (!arena)
        free(block);
    return NULL;
}

static void a_kept_call_starts_again_without_allocating(void **state)
{
    (void)state;
    for (int arena = 0; arena < 2; arena++) {
        bool is_arena = arena != 0;
        for (int n = 1; n <= 3; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = RANKS_PROCESSES}, starts_again, &is_arena);
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp", .mode = RANKS_PROCESSES}, starts_again, &is_arena);
        ranks_run(&(ranks_spec){.n = 4, .transport = "nodes", .mode = RANKS_PROCESSES}, starts_again, &is_arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_the_bits_of_single_calls_and_fewer_meetings),
        cmocka_unit_test(long_and_uneven_calls_stay_on_their_own),
        cmocka_unit_test(a_set_that_was_made_before_allocates_nothing),
        cmocka_unit_test(sets_that_differ_are_an_error_on_all_ranks),
        cmocka_unit_test(misuse_is_refused_and_harms_nothing),
        cmocka_unit_test(a_kept_call_starts_again_without_allocating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
