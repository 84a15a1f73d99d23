/* test_operations.c - rooted operations, alltoall and parts of different sizes through the public API: right results on every
 * transport and kind of memory, in and out of place, unaligned, several at once; and calls that do not fit together. */
#include "on_ranks.h"

#include "coll/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_MAX = 8 };

/* Element i of what rank `from` has for `to` (-1: for all): fractions, so that sums show their order. */
static float value(int from, int to, size_t i)
{
    const unsigned mixed = ((unsigned)from * 7919u + (unsigned)(to + 1) * 104729u + (unsigned)i) * 2654435761u;
    return (float)(mixed >> 20) * 0.37f - 700.0f;
}

static void fill(char *to, int from, int part, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float x = value(from, part, i);
        memcpy(to + i * sizeof x, &x, sizeof x);
    }
}

/* Index of the first element that is not that part, -1: none. */
static long long differs(const char *at, int from, int part, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float x = value(from, part, i);
        if (memcmp(at + i * sizeof x, &x, sizeof x) != 0)
            return (long long)i;
    }
    return -1;
}

static float reduced(int n, int part, size_t i)
{
    float leaves[RANKS_MAX], sum;
    const void *in[RANKS_MAX];
    void *out = &sum;
    for (int r = 0; r < n; r++) {
        leaves[r] = value(r, part, i);
        in[r] = &leaves[r];
    }
    tdmi_reduce_tree(TDM_F32, TDM_SUM, in, n, &out, 1, 1, false);
    return sum;
}

static long long differs_from_sum(const char *at, int n, int part, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float x = reduced(n, part, i);
        if (memcmp(at + i * sizeof x, &x, sizeof x) != 0)
            return (long long)i;
    }
    return -1;
}

/* Where the calls of one test run: two buffers of `capacity` bytes, and how they are used. */
typedef struct place {
    char *a, *b;
    bool in_place;
    int root;
    const char *what;
} place;

#define SAME(at, from, part, count)                                                                                    \
    do {                                                                                                               \
        const long long wrong_at = differs(at, from, part, count);                                                     \
        CHECK(wrong_at < 0, "%s of %zu %s: part of rank %d is wrong at %lld", p->what, (size_t)(count),                \
              p->in_place ? "in place" : "out of place", from, wrong_at);                                              \
    } while (0)

static const char *rooted(tdm_group *group, place *p, size_t count)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    const bool is_root = rank == p->root;
    const size_t nbytes = count * sizeof(float), own = (size_t)rank * nbytes;
    p->what = "reduce";
    char *in = p->in_place && is_root ? p->b : p->a;
    fill(in, rank, -1, count);
    CHECK_OK(tdm_reduce(group, in, is_root ? p->b : NULL, count, TDM_F32, TDM_SUM, p->root, NULL));
    const long long at = is_root ? differs_from_sum(p->b, n, -1, count) : -1;
    CHECK(at < 0, "reduce of %zu to %d: wrong at %lld", count, p->root, at);
    p->what = "gather";
    in = p->in_place && is_root ? p->b + own : p->a;
    fill(in, rank, -1, count);
    CHECK_OK(tdm_gather(group, in, is_root ? p->b : NULL, count, TDM_F32, p->root, NULL));
    for (int r = 0; r < n && is_root; r++)
        SAME(p->b + (size_t)r * nbytes, r, -1, count);
    p->what = "scatter";
    for (int r = 0; r < n && is_root; r++)
        fill(p->a + (size_t)r * nbytes, rank, r, count);
    char *out = p->in_place && is_root ? p->a + own : p->b;
    CHECK_OK(tdm_scatter(group, is_root ? p->a : NULL, out, count, TDM_F32, p->root, NULL));
    SAME(out, p->root, rank, count);
    p->what = "alltoall";
    in = p->in_place ? p->b : p->a;
    for (int r = 0; r < n; r++)
        fill(in + (size_t)r * nbytes, rank, r, count);
    CHECK_OK(tdm_alltoall(group, in, p->b, count, TDM_F32, NULL));
    for (int r = 0; r < n; r++)
        SAME(p->b + (size_t)r * nbytes, r, rank, count);
    return NULL;
}

static size_t sum_to(const size_t *counts, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

static const char *uneven(tdm_group *group, place *p, const size_t *counts)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    const bool is_root = rank == p->root;
    const size_t size = sizeof(float), own = sum_to(counts, rank) * size;
    p->what = "all_gatherv";
    char *in = p->in_place ? p->b + own : p->a;
    fill(in, rank, -1, counts[rank]);
    CHECK_OK(tdm_all_gatherv(group, in, p->b, counts, TDM_F32, NULL));
    for (int r = 0; r < n; r++)
        SAME(p->b + sum_to(counts, r) * size, r, -1, counts[r]);
    p->what = "reduce_scatterv";
    for (int r = 0; r < n; r++)
        fill(p->a + sum_to(counts, r) * size, rank, r, counts[r]);
    char *out = p->in_place ? p->a + own : p->b;
    CHECK_OK(tdm_reduce_scatterv(group, p->a, out, counts, TDM_F32, TDM_SUM, NULL));
    const long long at = differs_from_sum(out, n, rank, counts[rank]);
    CHECK(at < 0, "reduce_scatterv of %zu: wrong at %lld", counts[rank], at);
    p->what = "gatherv";
    in = p->in_place && is_root ? p->b + own : p->a;
    fill(in, rank, -1, counts[rank]);
    CHECK_OK(tdm_gatherv(group, in, counts[rank], is_root ? p->b : NULL, is_root ? counts : NULL, TDM_F32, p->root, NULL));
    for (int r = 0; r < n && is_root; r++)
        SAME(p->b + sum_to(counts, r) * size, r, -1, counts[r]);
    p->what = "scatterv";
    for (int r = 0; r < n && is_root; r++)
        fill(p->a + sum_to(counts, r) * size, rank, r, counts[r]);
    out = p->in_place && is_root ? p->a + own : p->b;
    CHECK_OK(tdm_scatterv(group, is_root ? p->a : NULL, is_root ? counts : NULL, out, counts[rank], TDM_F32, p->root, NULL));
    SAME(out, p->root, rank, counts[rank]);
    p->what = "alltoallv"; /* rank i gives counts[(i + r) % n] to rank r, so that all arrays are symmetric */
    size_t given[RANKS_MAX];
    in = p->in_place ? p->b : p->a;
    for (int r = 0; r < n; r++)
        given[r] = counts[(rank + r) % n];
    for (int r = 0; r < n; r++)
        fill(in + sum_to(given, r) * size, rank, r, given[r]);
    CHECK_OK(tdm_alltoallv(group, in, given, p->b, given, TDM_F32, NULL));
    for (int r = 0; r < n; r++)
        SAME(p->b + sum_to(given, r) * size, r, rank, given[r]);
    return NULL;
}

typedef struct plan {
    bool arena, large;
} plan;

static const char *all_counts(tdm_group *group, const plan *what, place *p)
{
    static const size_t counts[] = {0, 1, 5, 1003, 70001};
    static const size_t parts[][RANKS_MAX] = {
        {0, 0, 0, 0, 0}, {0, 5, 0, 3, 1}, {1, 2, 3, 4, 5}, {1003, 0, 1, 517, 64}, {70001, 3, 0, 20000, 1}};
    const size_t first = what->large ? 4 : 0, end = what->large ? 5 : 4;
    for (size_t i = first; i < end; i++)
        for (int k = 0; k < 2; k++) {
            p->in_place = k != 0;
            p->root = (int)(i + (size_t)k) % tdm_group_size(group);
            const char *wrong = rooted(group, p, counts[i]);
            if (wrong == NULL)
                wrong = uneven(group, p, parts[i]);
            if (wrong != NULL)
                return wrong;
        }
    return NULL;
}

static const char *every_operation(tdm_group *group, void *arg)
{
    const plan *what = arg;
    const size_t nbytes = 71000 * sizeof(float) * (size_t)tdm_group_size(group);
    void *memory[2];
    for (int i = 0; i < 2; i++) {
        if (what->arena)
            CHECK_OK(tdm_alloc(group, nbytes, &memory[i]));
        else
            memory[i] = malloc(nbytes);
    }
    const char *wrong = all_counts(group, what, &(place){.a = memory[0], .b = memory[1]});
    if (wrong == NULL) /* unaligned, one buffer other than the other */
        wrong = all_counts(group, what, &(place){.a = (char *)memory[0] + 1, .b = (char *)memory[1] + 7});
    for (int i = 0; i < 2; i++) {
        if (what->arena)
            tdm_free(group, memory[i]);
        else
            free(memory[i]);
    }
    return wrong;
}

static void run(const char *transport, ranks_mode mode, int n, bool arena, bool large)
{
    plan p = {.arena = arena, .large = large};
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = mode}, every_operation, &p);
}

static void everything_is_right_in_shared_memory(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        run("shm", RANKS_THREADS, n, true, false);
        run("shm", RANKS_THREADS, n, false, false);
    }
    run("shm", RANKS_PROCESSES, 3, true, true);
    run("shm", RANKS_PROCESSES, 4, false, true);
}

static void everything_is_right_over_tcp(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++)
        run("tcp", RANKS_THREADS, n, n % 2 == 0, false);
    run("tcp", RANKS_PROCESSES, 3, false, true);
}

static void everything_is_right_over_virtual_nodes(void **state)
{
    (void)state;
    run("nodes", RANKS_PROCESSES, 3, false, false);
    run("nodes", RANKS_PROCESSES, 4, true, false);
    run("nodes", RANKS_PROCESSES, 5, false, true);
    run("nodes in turn", RANKS_PROCESSES, 4, true, true);
    run("nodes in turn", RANKS_PROCESSES, 5, false, false);
}

/* Every algorithm that can be forced on links, through the same calls. */
static void every_algorithm_is_right_when_forced(void **state)
{
    (void)state;
    static const char *const names[] = {"pairwise", "bruck", "linear", "binomial", "halving_doubling"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("TANDEM_ALGO", names[i], 1);
        run("shm", RANKS_THREADS, 4, false, false);
        run("tcp", RANKS_THREADS, 3, false, false);
    }
    unsetenv("TANDEM_ALGO");
}

/* ---- several at once ---- */

static const char *at_once(tdm_group *group, void *arg)
{
    const bool arena = *(bool *)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    enum { COUNT = 3001, CALLS = 4 };
    const size_t nbytes = COUNT * sizeof(float);
    char *in[CALLS], *out[CALLS];
    tdm_work *work[CALLS];
    size_t counts[RANKS_MAX];
    for (int r = 0; r < n; r++)
        counts[r] = r == 1 ? 0 : COUNT - (size_t)r;
    for (int c = 0; c < CALLS; c++) {
        void *a = malloc(nbytes * (size_t)n), *b = malloc(nbytes * (size_t)n);
        if (arena) {
            free(a);
            free(b);
            CHECK_OK(tdm_alloc(group, nbytes * (size_t)n, &a));
            CHECK_OK(tdm_alloc(group, nbytes * (size_t)n, &b));
        }
        in[c] = a, out[c] = b;
    }
    for (int r = 0; r < n; r++)
        fill(in[0] + (size_t)r * nbytes, rank, r, COUNT);
    fill(in[1], rank, -1, COUNT);
    fill(in[2], rank, -1, counts[rank]);
    for (int r = 0; r < n; r++)
        fill(in[3] + (size_t)r * nbytes, rank, r, COUNT);
    CHECK_OK(tdm_alltoall(group, in[0], out[0], COUNT, TDM_F32, &work[0]));
    CHECK_OK(tdm_reduce(group, in[1], out[1], COUNT, TDM_F32, TDM_SUM, n - 1, &work[1]));
    CHECK_OK(tdm_gatherv(group, in[2], counts[rank], out[2], counts, TDM_F32, 0, &work[2]));
    CHECK_OK(tdm_scatter(group, in[3], out[3], COUNT, TDM_F32, 1, &work[3]));
    for (int c = CALLS - 1; c >= 0; c--)
        CHECK_OK(tdm_work_wait(work[c]));
    for (int r = 0; r < n; r++) {
        CHECK_THAT(differs(out[0] + (size_t)r * nbytes, r, rank, COUNT) < 0);
        CHECK_THAT(rank != 0 || differs(out[2] + sum_to(counts, r) * sizeof(float), r, -1, counts[r]) < 0);
    }
    CHECK_THAT(rank != n - 1 || differs_from_sum(out[1], n, -1, COUNT) < 0);
    CHECK_THAT(differs(out[3], 1, rank, COUNT) < 0);
    for (int c = 0; c < CALLS && !arena; c++)
        free(in[c]), free(out[c]);
    return NULL;
}

static void several_may_be_under_way(void **state)
{
    (void)state;
    for (int arena = 0; arena < 2; arena++) {
        bool is_arena = arena != 0;
        ranks_run(&(ranks_spec){.n = 4, .transport = "shm"}, at_once, &is_arena);
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp"}, at_once, &is_arena);
    }
}

/* ---- calls that do not fit ---- */

typedef struct misfit {
    const char *name;
    bool arena;
    tdm_status (*make)(tdm_group *group, char *in, char *out, int rank, int n);
    const char *texts[2]; /* both on every rank */
} misfit;

static tdm_status other_root(tdm_group *group, char *in, char *out, int rank, int n)
{
    (void)n;
    return tdm_gather(group, in, out, 4, TDM_F32, rank == 1 ? 1 : 0, NULL);
}

static tdm_status other_op(tdm_group *group, char *in, char *out, int rank, int n)
{
    (void)n;
    return tdm_reduce(group, in, out, 4, TDM_F32, rank == 1 ? TDM_MAX : TDM_SUM, 0, NULL);
}

static tdm_status other_operation(tdm_group *group, char *in, char *out, int rank, int n)
{
    (void)n;
    return rank == 1 ? tdm_scatter(group, in, out, 4, TDM_F32, 0, NULL) : tdm_alltoall(group, in, out, 4, TDM_F32, NULL);
}

static tdm_status other_count(tdm_group *group, char *in, char *out, int rank, int n)
{
    (void)n;
    return tdm_alltoall(group, in, out, rank == 1 ? 5 : 4, TDM_F32, NULL);
}

static tdm_status part_of_a_pair(tdm_group *group, char *in, char *out, int rank, int n)
{
    const size_t counts[RANKS_MAX] = {3, 5, 2};
    (void)n;
    return tdm_scatterv(group, in, counts, out, rank == 1 ? 4 : counts[rank], TDM_F32, 0, NULL);
}

static tdm_status nothing_expected(tdm_group *group, char *in, char *out, int rank, int n)
{
    const size_t ones[RANKS_MAX] = {1, 1, 1, 1, 1};
    size_t expected[RANKS_MAX] = {1, 1, 1, 1, 1};
    if (rank == n - 2) /* no neighbour of rank 0 in groups of 4 and more */
        expected[0] = 0;
    return tdm_alltoallv(group, in, ones, out, expected, TDM_F32, NULL);
}

static tdm_status root_of_two_minds(tdm_group *group, char *in, char *out, int rank, int n)
{
    const size_t counts[RANKS_MAX] = {3, 5, 2, 1};
    (void)n;
    return tdm_gatherv(group, in, rank == 0 ? 2 : counts[rank], out, counts, TDM_F32, 0, NULL);
}

static tdm_status same_sum_of_counts(tdm_group *group, char *in, char *out, int rank, int n)
{
    const size_t counts[RANKS_MAX] = {3, 5, 2, 1}, others[RANKS_MAX] = {5, 3, 2, 1};
    (void)n;
    return tdm_all_gatherv(group, in, out, rank == 1 ? others : counts, TDM_F32, NULL);
}

static tdm_status other_sum_of_counts(tdm_group *group, char *in, char *out, int rank, int n)
{
    const size_t counts[RANKS_MAX] = {3, 5, 2, 1}, others[RANKS_MAX] = {3, 5, 3, 1};
    (void)n;
    return tdm_reduce_scatterv(group, in, out, rank == 1 ? others : counts, TDM_F32, TDM_SUM, NULL);
}

static tdm_status even_and_uneven(tdm_group *group, char *in, char *out, int rank, int n)
{
    const size_t counts[RANKS_MAX] = {4, 4, 4, 4};
    (void)n;
    return rank == 1 ? tdm_all_gather(group, in, out, 4, TDM_F32, NULL) : tdm_all_gatherv(group, in, out, counts, TDM_F32, NULL);
}

static const misfit misfits[] = {
    {"root", false, other_root, {"gather of 4 float32 to rank 0", "rank 1 makes gather of 4 float32 to rank 1"}},
    {"op", false, other_op, {"(sum)", "rank 1 makes reduce of 4 float32 (max)"}},
    {"operation", false, other_operation, {"alltoall", "rank 1 makes scatter"}},
    {"count", false, other_count, {"of 4 float32", "rank 1 makes alltoall of 5 float32"}},
    {"part", false, part_of_a_pair, {"rank 0 gives 5 float32 to rank 1", "expects 4"}},
    {"empty part", false, nothing_expected, {"rank 0 gives 1 float32 to rank 2", "expects 0"}},
    {"own part", false, root_of_two_minds, {"rank 0 gives 2 float32 to rank 0", "expects 3"}},
    {"same sum", false, same_sum_of_counts, {"rank 1", "not the same counts of single ranks"}},
    {"other sum", false, other_sum_of_counts, {"of 11 float32", "rank 1 makes reduce_scatterv of 12 float32"}},
    {"uneven", false, even_and_uneven, {"all_gatherv of 16", "rank 1 makes all_gather of 4"}},
};

/* Memory outlives the call on every rank: who has heard of no error yet may still read its peers'. */
typedef struct misfit_run {
    misfit m;
    float memory[RANKS_MAX][2][64];
} misfit_run;

static const char *does_not_fit(tdm_group *group, void *arg)
{
    misfit_run *run = arg;
    const misfit *m = &run->m;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    void *in = run->memory[rank][0], *out = run->memory[rank][1];
    if (m->arena) {
        CHECK_OK(tdm_alloc(group, 64 * sizeof(float), &in));
        CHECK_OK(tdm_alloc(group, 64 * sizeof(float), &out));
    }
    tdm_status status = tdm_barrier(group, NULL); /* all have a group; who leaves it last may hear of the others' error here */
    if (status == TDM_OK)
        status = m->make(group, in, out, rank, n);
    if (status == TDM_OK) /* its own part of the call was fine */
        status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH && strstr(tdm_error_text(), m->texts[0]) != NULL && strstr(tdm_error_text(), m->texts[1]) != NULL,
          "%s: %s: %s", m->name, tdm_status_name(status), tdm_error_text());
    return NULL;
}

static void what_does_not_fit_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        misfit_run run = {.m = misfits[i]};
        ranks_run(&(ranks_spec){.n = 4, .transport = "shm"}, does_not_fit, &run);
        ranks_run(&(ranks_spec){.n = 4, .transport = "tcp"}, does_not_fit, &run);
        run.m.arena = true;
        ranks_run(&(ranks_spec){.n = 4, .transport = "shm"}, does_not_fit, &run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_right_in_shared_memory),
        cmocka_unit_test(everything_is_right_over_tcp),
        cmocka_unit_test(everything_is_right_over_virtual_nodes),
        cmocka_unit_test(every_algorithm_is_right_when_forced),
        cmocka_unit_test(several_may_be_under_way),
        cmocka_unit_test(what_does_not_fit_is_an_error_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
