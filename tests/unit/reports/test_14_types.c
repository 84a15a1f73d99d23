/* test_14_types.c - elsewhere "invalid scalar type" on some backends; here one table of dtype and operation for all transports: the right
 * value, or an error that names operation, dtype and engine. 3 ranks, values rank + 1, by a reference of its own. */
#include "reports.h"

#define N 3
#define COUNT 37

/* Bits of a small whole number or a third of one in each dtype; halves by hand. */
static void put(tdm_dtype dtype, double value, void *at)
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (dtype) {
    case TDM_F32: memcpy(at, &f, 4); break;
    case TDM_F64: memcpy(at, &value, 8); break;
    case TDM_BF16: *(uint16_t *)at = (uint16_t)(bits >> 16); break; /* exact for these values */
    case TDM_F16: *(uint16_t *)at = (uint16_t)(value == 0 ? 0 : ((bits >> 16) & 0x8000u) | ((bits >> 13) - 0x1c000u)); break;
    case TDM_I32: case TDM_U32: *(int32_t *)at = (int32_t)value; break;
    case TDM_I64: case TDM_U64: *(int64_t *)at = (int64_t)value; break;
    case TDM_I8: case TDM_U8: *(int8_t *)at = (int8_t)value; break;
    case TDM_BOOL: *(uint8_t *)at = value != 0; break;
    case TDM_C64: memcpy(at, &f, 4); memset((char *)at + 4, 0, 4); break;
    case TDM_DTYPE_COUNT: break;
    }
}

/* op over 1, 2, 3: all are whole numbers. */
static double expected(tdm_dtype dtype, tdm_op op)
{
    if (dtype == TDM_BOOL)
        return op == TDM_BXOR ? 1 : 1; /* three times true */
    switch (op) {
    case TDM_SUM: case TDM_PROD: return 6;
    case TDM_AVG: return 2;
    case TDM_MIN: return 1;
    case TDM_MAX: case TDM_BOR: return 3;
    default: return 0; /* 1 and 2 and 3, 1 xor 2 xor 3 */
    }
}

static const char *works_through_the_table(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    int right = 0, refused = 0;
    for (int d = 0; d < TDM_DTYPE_COUNT; d++)
        for (int o = 0; o < TDM_OP_COUNT; o++) {
            const tdm_dtype dtype = (tdm_dtype)d;
            const tdm_op op = (tdm_op)o;
            const size_t size = tdm_dtype_size(dtype);
            _Alignas(8) char in[COUNT * 8], out[COUNT * 8], good[8];
            for (size_t i = 0; i < COUNT; i++)
                put(dtype, rank + 1, in + i * size);
            const tdm_status status = tdm_allreduce(group, in, out, COUNT, dtype, op, NULL);
            if (status == TDM_ERR_UNSUPPORTED) {
                refused++;
                CHECK(strstr(tdm_error_text(), tdm_dtype_name(dtype)) != NULL && strstr(tdm_error_text(), tdm_op_name(op)) != NULL &&
                          strstr(tdm_error_text(), "native") != NULL, "the text does not name all three: %s", tdm_error_text());
                continue;
            }
            CHECK(status == TDM_OK, "%s of %s: %s", tdm_op_name(op), tdm_dtype_name(dtype), tdm_error_text());
            put(dtype, expected(dtype, op), good);
            for (size_t i = 0; i < COUNT; i++)
                CHECK(memcmp(out + i * size, good, size) == 0, "%s of %s is wrong at %zu", tdm_op_name(op), tdm_dtype_name(dtype), i);
            right++;
        }
    /* 12 dtypes, 8 operations: bits of 5 floats and complex, min and max of complex, the average of bool do not exist */
    CHECK(right == 12 * 8 - 18 && refused == 18, "%d cells are right, %d are refused", right, refused);
    for (int d = 0; d < TDM_DTYPE_COUNT; d++) {
        const tdm_dtype dtype = (tdm_dtype)d;
        const size_t size = tdm_dtype_size(dtype);
        _Alignas(8) char in[COUNT * 8], out[N * COUNT * 8], good[8];
        for (size_t i = 0; i < COUNT; i++)
            put(dtype, rank + 1, in + i * size);
        CHECK_OK(tdm_all_gather(group, in, out, COUNT, dtype, NULL));
        for (size_t i = 0; i < N * COUNT; i++) {
            put(dtype, (double)(i / COUNT) + 1, good);
            CHECK(memcmp(out + i * size, good, size) == 0, "all_gather of %s", tdm_dtype_name(dtype));
        }
        CHECK_OK(tdm_broadcast(group, in, COUNT, dtype, 2, NULL));
        put(dtype, 3, good);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(memcmp(in + i * size, good, size) == 0, "broadcast of %s", tdm_dtype_name(dtype));
    }
    return NULL;
}

static void each_cell_is_right_or_refused_by_name(void **state)
{
    (void)state;
    const char *const transports[] = {RANKS_TRANSPORTS}; /* engine mpi: engine/mpi_ranks.c */
    for (size_t t = 0; t < sizeof transports / sizeof *transports; t++)
        ranks_run(&(ranks_spec){.n = N, .transport = transports[t]}, works_through_the_table, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_cell_is_right_or_refused_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
