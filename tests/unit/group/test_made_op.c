/* test_made_op.c - operations that callers make, in whole calls: functions, premultiplied sums, freeing one that is in use. */
#include "on_ranks.h"

#include "core/memory.h"

#include <tandem/op.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 40000 };

typedef struct plan {
    bool arena;
} plan;

/* Affine maps x -> ax + b modulo 2^16, packed in 32 bits; their composition is associative and does not commute. */
static uint32_t compose(uint32_t f, uint32_t g)
{
    const uint32_t a = (f & 0xffff) * (g & 0xffff), b = (f & 0xffff) * (g >> 16) + (f >> 16);
    return (a & 0xffff) | b << 16;
}

static void compose_all(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    (void)context, (void)dtype;
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)out)[i] = compose(((const uint32_t *)a)[i], ((const uint32_t *)b)[i]);
}

static uint32_t map_of(int rank, size_t i)
{
    return (uint32_t)(i * 2654435761u + (unsigned)rank * 40503u) | 1;
}

static const char *functions(tdm_group *group, uint32_t *in, uint32_t *out)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    static const size_t counts[] = {0, 1, 77, COUNT};
    tdm_op op;
    CHECK_OK(tdm_op_create(compose_all, NULL, "composition", &op));
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int in_place = 0; in_place < 2; in_place++) {
            uint32_t *from = in_place != 0 ? out : in;
            for (size_t i = 0; i < counts[c]; i++)
                from[i] = map_of(rank, i);
            CHECK_OK(tdm_allreduce(group, from, out, counts[c], TDM_U32, op, NULL));
            for (size_t i = 0; i < counts[c]; i++) {
                uint32_t expected = map_of(0, i);
                for (int r = 1; r < n; r++)
                    expected = compose(expected, map_of(r, i));
                CHECK(out[i] == expected, "element %zu of %zu is wrong", i, counts[c]);
            }
        }
    CHECK_OK(tdm_op_free(op));
    CHECK(tdm_allreduce(group, in, out, 4, TDM_U32, op, NULL) == TDM_ERR_INVALID, "a freed operation was taken");
    CHECK(tdm_allreduce(group, in, out, 4, TDM_C64, TDM_MAX, NULL) == TDM_ERR_UNSUPPORTED, "max of complex64 was taken");
    return NULL;
}

/* Rank r counts r + 1 times; every second call is freed while it is under way. */
static const char *premultiplied(tdm_group *group, float *in, float *out)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    static const size_t counts[] = {0, 1, 77, COUNT};
    const float scalar = (float)(rank + 1);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int in_place = 0; in_place < 2; in_place++) {
            float *from = in_place != 0 ? out : in;
            tdm_op op;
            tdm_work *work;
            for (size_t i = 0; i < counts[c]; i++)
                from[i] = (float)(i % 100) + (float)rank;
            CHECK_OK(tdm_op_create_premul(TDM_F32, &scalar, &op));
            CHECK_OK(tdm_allreduce(group, from, out, counts[c], TDM_F32, op, &work));
            CHECK_OK(tdm_op_free(op));
            CHECK_OK(tdm_work_wait(work));
            for (size_t i = 0; i < counts[c]; i++) {
                float expected = 0;
                for (int r = 0; r < n; r++)
                    expected += ((float)(i % 100) + (float)r) * (float)(r + 1);
                CHECK(out[i] == expected, "element %zu of %zu: %g, not %g", i, counts[c], (double)out[i], (double)expected);
                CHECK(in_place != 0 || in[i] == (float)(i % 100) + (float)rank, "the input was changed");
            }
        }
    return NULL;
}

static const char *made_operations(tdm_group *group, void *arg)
{
    const plan *p = arg;
    const size_t nbytes = COUNT * sizeof(float);
    void *memory[2];
    for (int i = 0; i < 2; i++) {
        if (p->arena)
            CHECK_OK(tdm_alloc(group, nbytes, &memory[i]));
        else
            memory[i] = malloc(nbytes);
    }
    const char *wrong = functions(group, memory[0], memory[1]);
    if (wrong == NULL)
        wrong = premultiplied(group, memory[0], memory[1]);
    CHECK_OK(tdm_barrier(group, NULL));
    for (int i = 0; i < 2; i++) {
        if (p->arena)
            tdm_free(group, memory[i]);
        else
            free(memory[i]);
    }
    return wrong;
}

static void made_operations_work_on_every_transport(void **state)
{
    (void)state;
    for (int arena = 0; arena < 2; arena++) {
        plan p = {arena != 0};
        for (int n = 1; n <= 3; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = RANKS_THREADS}, made_operations, &p);
        ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, made_operations, &p);
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp", .mode = RANKS_THREADS}, made_operations, &p);
        ranks_run(&(ranks_spec){.n = 3, .transport = "nodes", .mode = RANKS_PROCESSES}, made_operations, &p);
    }
}

static const char *disagrees(tdm_group *group, void *arg)
{
    (void)arg;
    uint32_t data[4] = {1, 2, 3, 4};
    tdm_op op;
    CHECK_OK(tdm_op_create(compose_all, NULL, "composition", &op));
    tdm_status status = tdm_allreduce(group, data, data, 4, TDM_U32, tdm_group_rank(group) == 0 ? op : TDM_SUM, NULL);
    CHECK(status == TDM_ERR_MISMATCH, "%s", tdm_status_name(status));
    CHECK(strstr(tdm_error_text(), "(a user's operation)") != NULL && strstr(tdm_error_text(), "(sum)") != NULL, "%s",
          tdm_error_text());
    CHECK_OK(tdm_op_free(op));
    return NULL;
}

static void a_function_on_one_rank_only_is_a_mismatch(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_THREADS}, disagrees, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp", .mode = RANKS_THREADS}, disagrees, NULL);
}

static const char *allocates_nothing(tdm_group *group, void *arg)
{
    (void)arg;
    float data[64] = {0};
    const float half = 0.5f;
    tdm_op op;
    uint64_t before = 0;
    CHECK_OK(tdm_op_create_premul(TDM_F32, &half, &op));
    for (int i = 0; i < 20; i++) {
        if (i == 10)
            before = tdmi_memory_allocations();
        CHECK_OK(tdm_allreduce(group, data, data, 64, TDM_F32, op, NULL));
    }
    CHECK(tdmi_memory_allocations() == before, "a warm call allocates");
    CHECK_OK(tdm_op_free(op));
    return NULL;
}

static void a_warm_premultiplied_sum_allocates_nothing(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES}, allocates_nothing, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_operations_work_on_every_transport),
        cmocka_unit_test(a_function_on_one_rank_only_is_a_mismatch),
        cmocka_unit_test(a_warm_premultiplied_sum_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
