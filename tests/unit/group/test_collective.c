/* test_collective.c - every operation gives the right values on every transport, type and kind of memory. */
#include "on_ranks.h"

#include "coll/reduce.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- inputs, and what must come out: the reduce kernels, which have their own tests, over all inputs in rank order ---- */

/* Small whole numbers, so that sums and products are exact, except for floats in SUM, where fractions show the order. */
static void fill(tdm_dtype dtype, tdm_op op, void *out, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int small = (int)(seed >> 24) % (op == TDM_PROD ? 3 : 100) - (op == TDM_PROD ? 0 : 40);
        const float real = (float)small * (op == TDM_SUM || op == TDM_AVG ? 0.37f : 1.0f);
        switch (dtype) {
        case TDM_F32: ((float *)out)[i] = real; break;
        case TDM_F64: ((double *)out)[i] = (double)small * 0.1; break;
        case TDM_BF16:
        case TDM_F16: tdmi_reduce_finish(dtype, TDM_SUM, 1, &real, (uint16_t *)out + i, 1); break;
        case TDM_I32: ((int32_t *)out)[i] = small; break;
        case TDM_U32: ((uint32_t *)out)[i] = (uint32_t)small; break;
        case TDM_I64: ((int64_t *)out)[i] = small; break;
        case TDM_U64: ((uint64_t *)out)[i] = (uint64_t)small; break;
        case TDM_C64: ((float *)out)[2 * i] = real, ((float *)out)[2 * i + 1] = 1.0f - real; break;
        default: ((int8_t *)out)[i] = (int8_t)small; break;
        }
    }
}

/* Input of `rank` for call `k`. */
static unsigned seed_of(int rank, int k)
{
    return (unsigned)(rank * 7919 + k * 104729 + 1);
}

static void expect_reduced(tdm_dtype dtype, tdm_op op, int n, int k, void *out, size_t count)
{
    const size_t nbytes = count * tdm_dtype_size(dtype);
    char *inputs = malloc(nbytes * (size_t)n + 1);
    const void *in[n];
    for (int r = 0; r < n; r++) {
        in[r] = inputs + (size_t)r * nbytes;
        fill(dtype, op, inputs + (size_t)r * nbytes, count, seed_of(r, k));
    }
    tdmi_reduce_tree(dtype, op, in, n, &out, 1, count, false);
    free(inputs);
}

typedef struct plan {
    bool arena;              /* tdm_alloc, else malloc */
    size_t counts[6];
    int count_count;
    bool all_types;          /* else float32 sums; types but float32 take the last count only */
} plan;

typedef struct buffers {
    char *in, *out, *expected;
} buffers;

static const char *one_call(tdm_group *group, tdm_dtype dtype, tdm_op op, size_t count, bool in_place, int k, const buffers *b)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    const size_t size = tdm_dtype_size(dtype), whole = count * (size_t)n;
    char *in = in_place ? b->out : b->in;
    /* allreduce */
    memset(b->out, 0x5a, whole * size);
    fill(dtype, op, in, count, seed_of(rank, k));
    expect_reduced(dtype, op, n, k, b->expected, count);
    CHECK_OK(tdm_allreduce(group, in, b->out, count, dtype, op, NULL));
    CHECK(memcmp(b->out, b->expected, count * size) == 0, "allreduce of %zu %s (%s), %s: wrong", count, tdm_dtype_name(dtype),
          tdm_op_name(op), in_place ? "in place" : "out of place");
    /* reduce-scatter */
    fill(dtype, op, in, whole, seed_of(rank, k));
    expect_reduced(dtype, op, n, k, b->expected, whole);
    char *part = in_place ? in + (size_t)rank * count * size : b->out;
    CHECK_OK(tdm_reduce_scatter(group, in, part, count, dtype, op, NULL));
    CHECK(memcmp(part, b->expected + (size_t)rank * count * size, count * size) == 0,
          "reduce_scatter of %zu %s (%s), %s: wrong", count, tdm_dtype_name(dtype), tdm_op_name(op),
          in_place ? "in place" : "out of place");
    return NULL;
}

static const char *one_move(tdm_group *group, tdm_dtype dtype, size_t count, bool in_place, int k, const buffers *b)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group), root = k % n;
    const size_t size = tdm_dtype_size(dtype);
    char *part = in_place ? b->out + (size_t)rank * count * size : b->in;
    memset(b->out, 0x5a, count * (size_t)n * size);
    fill(dtype, TDM_SUM, part, count, seed_of(rank, k));
    for (int r = 0; r < n; r++)
        fill(dtype, TDM_SUM, b->expected + (size_t)r * count * size, count, seed_of(r, k));
    CHECK_OK(tdm_all_gather(group, part, b->out, count, dtype, NULL));
    CHECK(memcmp(b->out, b->expected, count * (size_t)n * size) == 0, "all_gather of %zu %s, %s: wrong", count,
          tdm_dtype_name(dtype), in_place ? "in place" : "out of place");
    fill(dtype, TDM_SUM, b->out, count, seed_of(rank, k));
    CHECK_OK(tdm_broadcast(group, b->out, count, dtype, root, NULL));
    CHECK(memcmp(b->out, b->expected + (size_t)root * count * size, count * size) == 0, "broadcast of %zu %s from %d: wrong", count,
          tdm_dtype_name(dtype), root);
    return NULL;
}

static const char *all_calls(tdm_group *group, const plan *p, const buffers *b)
{
    int k = 0;
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TDM_OP_COUNT; op++)
            for (int i = 0; i < p->count_count * 2; i++) {
                if (!p->all_types && (dtype != TDM_F32 || op != TDM_SUM))
                    continue;
                if (tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") != TDM_OK)
                    continue;
                if (dtype != TDM_F32 && i / 2 < p->count_count - 1)
                    continue;
                const size_t count = p->counts[i / 2];
                const char *wrong = one_call(group, (tdm_dtype)dtype, (tdm_op)op, count, i % 2 != 0, k, b);
                if (wrong == NULL && op == TDM_SUM)
                    wrong = one_move(group, (tdm_dtype)dtype, count, i % 2 != 0, k, b);
                if (wrong != NULL)
                    return wrong;
                k++;
            }
    CHECK_OK(tdm_barrier(group, NULL));
    return NULL;
}

static const char *every_operation(tdm_group *group, void *arg)
{
    const plan *p = arg;
    size_t largest = 0;
    for (int i = 0; i < p->count_count; i++)
        largest = p->counts[i] > largest ? p->counts[i] : largest;
    const size_t nbytes = (largest + 1) * 8 * (size_t)tdm_group_size(group);
    void *memory[3];
    for (int i = 0; i < 3; i++) {
        if (p->arena)
            CHECK_OK(tdm_alloc(group, nbytes, &memory[i]));
        else
            memory[i] = malloc(nbytes);
    }
    const char *wrong = all_calls(group, p, &(buffers){memory[0], memory[1], memory[2]});
    for (int i = 0; i < 3; i++) {
        if (p->arena)
            tdm_free(group, memory[i]);
        else
            free(memory[i]);
    }
    return wrong;
}

static void run_everything(const char *transport, ranks_mode mode, int n, bool arena, bool all_types)
{
    plan p = {.arena = arena, .counts = {0, 1, 5, 1003}, .count_count = 4, .all_types = all_types};
    if (!all_types) {
        const size_t large[] = {300001, 20000};
        memcpy(p.counts, large, sizeof large);
        p.count_count = 2;
    }
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = mode}, every_operation, &p);
}

static void every_type_and_operation_in_shared_memory(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        run_everything("shm", RANKS_THREADS, n, true, true);
        run_everything("shm", RANKS_THREADS, n, false, true);
    }
    run_everything("shm", RANKS_PROCESSES, 3, true, true);
    run_everything("shm", RANKS_PROCESSES, 4, false, true);
}

static void every_type_and_operation_over_tcp(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n += n == 3 ? 2 : 1)
        run_everything("tcp", RANKS_THREADS, n, n % 2 == 0, true);
    run_everything("tcp", RANKS_PROCESSES, 3, false, true);
}

#ifdef TDMI_HAVE_UCX
static void every_type_and_operation_over_ucx(void **state)
{
    (void)state;
    setenv("UCX_TLS", "tcp", 1);
    run_everything("ucx", RANKS_THREADS, 3, true, true);
    run_everything("ucx", RANKS_PROCESSES, 2, false, true);
    run_everything("ucx nodes", RANKS_PROCESSES, 3, false, true);
    run_everything("ucx", RANKS_THREADS, 2, false, false);
    setenv("UCX_TLS", "posix", 1);
    run_everything("ucx", RANKS_PROCESSES, 2, false, true);
    run_everything("ucx", RANKS_THREADS, 3, false, false);
    unsetenv("UCX_TLS");
}
#endif

static void every_type_and_operation_over_virtual_nodes(void **state)
{
    (void)state;
    for (int n = 3; n <= 4; n++)
        run_everything("nodes", RANKS_PROCESSES, n, n % 2 == 0, true);
}

static void large_messages_on_every_transport(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++) {
        run_everything("shm", RANKS_PROCESSES, n, true, false);
        run_everything("shm", RANKS_THREADS, n, false, false);
        run_everything("tcp", RANKS_THREADS, n, false, false);
        run_everything("nodes", RANKS_PROCESSES, n + 2, true, false);
    }
}

/* Every other call goes through memory backwards, in strips. */
static const char *sums_forwards_and_backwards(tdm_group *group, void *arg)
{
    const size_t count = *(size_t *)arg;
    const int n = tdm_group_size(group), rank = tdm_group_rank(group);
    float *in, *out;
    CHECK_OK(tdm_alloc(group, count * sizeof *in, (void **)&in));
    CHECK_OK(tdm_alloc(group, count * sizeof *out, (void **)&out));
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < count; i++)
            in[i] = (float)(i % 1000 + (size_t)rank), out[i] = -1;
        float *to = round < 2 ? out : in;
        CHECK_OK(tdm_allreduce(group, in, to, count, TDM_F32, TDM_SUM, NULL));
        for (size_t i = 0; i < count; i++)
            CHECK(to[i] == (float)(i % 1000 * (size_t)n) + (float)(n * (n - 1) / 2), "round %d: element %zu is %g", round, i, (double)to[i]);
        CHECK_OK(tdm_barrier(group, NULL));
        to[0] = rank == n - 1 ? (float)round : -1;
        CHECK_OK(tdm_broadcast(group, to, count, TDM_F32, n - 1, NULL));
        CHECK(to[0] == (float)round && to[count - 1] == (float)((count - 1) % 1000 * (size_t)n) + (float)(n * (n - 1) / 2),
              "round %d: broadcast ends in %g", round, (double)to[count - 1]);
        if (round % 2 == 0)
            CHECK_OK(tdm_barrier(group, NULL)); /* the next round has the other direction */
    }
    return NULL;
}

static void both_directions_through_memory_are_right(void **state)
{
    (void)state;
    for (int n = 2; n <= 3; n++) {
        size_t counts[] = {8192 * (size_t)n, 100003, 300000};
        for (int c = 0; c < 3; c++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm"}, sums_forwards_and_backwards, &counts[c]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operation_in_shared_memory),
        cmocka_unit_test(every_type_and_operation_over_tcp),
#ifdef TDMI_HAVE_UCX
        cmocka_unit_test(every_type_and_operation_over_ucx),
#endif
        cmocka_unit_test(every_type_and_operation_over_virtual_nodes),
        cmocka_unit_test(large_messages_on_every_transport),
        cmocka_unit_test(both_directions_through_memory_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
