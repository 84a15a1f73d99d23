/* test_op.c - which operations exist, and those that callers make: lifetime, order, types, premultiplied sums. */
#include "coll/reduce.h"

#include "core/dtype.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 33, COUNT = 1100 };

static unsigned char memory[RANKS + 3][COUNT * 8 + 16] __attribute__((aligned(64)));

/* ---- what exists ---- */

static void what_does_not_exist_is_refused_by_name(void **state)
{
    (void)state;
    int refused = 0;
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TDM_OP_COUNT; op++) {
            tdm_status status = tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "reduce", "mpi");
            if (status == TDM_OK)
                continue;
            refused++;
            assert_int_equal(status, TDM_ERR_UNSUPPORTED);
            assert_non_null(strstr(tdm_error_text(), tdm_dtype_name((tdm_dtype)dtype)));
            assert_non_null(strstr(tdm_error_text(), tdm_op_name((tdm_op)op)));
            assert_non_null(strstr(tdm_error_text(), "engine mpi"));
        }
    assert_int_equal(refused, 4 * 3 + 2 + 3 + 1); /* bits of floats; order and bits of complex; average of bool */
    assert_int_equal(tdmi_op_check(TDM_C64, TDM_MAX, "allreduce", "native"), TDM_ERR_UNSUPPORTED);
    assert_string_equal(tdm_error_text(),
                        "allreduce: max of complex64 does not exist on engine native; complex numbers have no order");
    assert_int_equal(tdmi_op_check((tdm_dtype)TDM_DTYPE_COUNT, TDM_SUM, "allreduce", "native"), TDM_ERR_INVALID);
    assert_int_equal(tdmi_op_check(TDM_F32, TDM_OP_COUNT, "allreduce", "native"), TDM_ERR_INVALID);
    assert_int_equal(tdmi_op_check(TDM_F32, (tdm_op)-1, "allreduce", "native"), TDM_ERR_INVALID);
}

/* ---- lifetime ---- */

/* a + b, for every dtype it is given; says when it is not called as promised. */
static void add(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    const size_t unit = dtype == TDM_C64 ? 4 : tdm_dtype_size(dtype);
    if ((uintptr_t)a % unit != 0 || (uintptr_t)b % unit != 0 || (uintptr_t)out % unit != 0 || dtype == TDM_BF16 || dtype == TDM_F16)
        *(atomic_bool *)context = true;
    for (size_t i = 0; i < count; i++)
        switch (dtype) {
        case TDM_F32: ((float *)out)[i] = ((const float *)a)[i] + ((const float *)b)[i]; break;
        case TDM_F64: ((double *)out)[i] = ((const double *)a)[i] + ((const double *)b)[i]; break;
        case TDM_C64:
            for (size_t k = 2 * i; k < 2 * i + 2; k++)
                ((float *)out)[k] = ((const float *)a)[k] + ((const float *)b)[k];
            break;
        case TDM_I32:
        case TDM_U32: ((uint32_t *)out)[i] = ((const uint32_t *)a)[i] + ((const uint32_t *)b)[i]; break;
        case TDM_I64:
        case TDM_U64: ((uint64_t *)out)[i] = ((const uint64_t *)a)[i] + ((const uint64_t *)b)[i]; break;
        case TDM_BOOL: ((uint8_t *)out)[i] = ((const uint8_t *)a)[i] != 0 || ((const uint8_t *)b)[i] != 0 ? 1 : 0; break;
        default: ((uint8_t *)out)[i] = (uint8_t)(((const uint8_t *)a)[i] + ((const uint8_t *)b)[i]);
        }
}

static void a_freed_operation_is_refused_and_its_number_does_not_come_back(void **state)
{
    (void)state;
    tdm_op op, next;
    assert_int_equal(tdm_op_create(NULL, NULL, "none", &op), TDM_ERR_INVALID);
    assert_int_equal(tdm_op_create(add, NULL, NULL, NULL), TDM_ERR_INVALID);
    assert_int_equal(tdm_op_create(add, NULL, "adds", &op), TDM_OK);
    assert_true((int)op > TDM_OP_COUNT);
    assert_string_equal(tdm_op_name(op), "adds");
    assert_int_equal(tdmi_op_check(TDM_BF16, op, "allreduce", "native"), TDM_OK);
    assert_int_equal(tdm_op_free(op), TDM_OK);
    assert_int_equal(tdmi_op_check(TDM_BF16, op, "allreduce", "native"), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "it was freed or never made"));
    assert_string_equal(tdm_op_name(op), "unknown");
    assert_int_equal(tdm_op_free(op), TDM_ERR_INVALID);
    assert_int_equal(tdm_op_free(TDM_SUM), TDM_ERR_INVALID);
    assert_false(tdmi_op_hold(op));
    assert_int_equal(tdm_op_create(add, NULL, NULL, &next), TDM_OK);
    assert_int_not_equal(next, op);
    assert_int_equal(tdmi_op_wire_code(next), tdmi_op_wire_code(op)); /* a function is a function to other ranks */
    assert_true(tdmi_op_wire_code(next) >= TDM_OP_COUNT && tdmi_op_wire_code(TDM_BXOR) == TDM_BXOR);
    assert_int_equal(tdm_op_free(next), TDM_OK);
}

static void a_call_under_way_keeps_its_operation(void **state)
{
    (void)state;
    tdm_op op, one_more, others[1024];
    atomic_bool wrong = false;
    float a[2] = {1, 2}, b[2] = {3, 4};
    assert_int_equal(tdm_op_create(add, &wrong, "held", &op), TDM_OK);
    assert_true(tdmi_op_hold(op) && tdmi_op_hold(op));
    assert_int_equal(tdm_op_free(op), TDM_OK);
    assert_false(tdmi_op_hold(op));
    int made = 0;
    while (made < 1024 && tdm_op_create(add, NULL, "filler", &others[made]) == TDM_OK)
        made++;
    assert_int_equal(made, 1023);
    assert_non_null(strstr(tdm_error_text(), "no room for operation filler: 1024 exist"));
    tdmi_reduce_pair(TDM_F32, op, a, b, a, 2);
    assert_true(a[0] == 4 && a[1] == 6 && !wrong);
    tdmi_op_release(op);
    assert_int_equal(tdm_op_create(add, NULL, "one more", &one_more), TDM_ERR_NO_SPACE);
    tdmi_op_release(op); /* the last use empties the place */
    assert_int_equal(tdm_op_create(add, NULL, "one more", &one_more), TDM_OK);
    assert_int_equal(tdm_op_free(one_more), TDM_OK);
    for (int i = 0; i < made; i++)
        assert_int_equal(tdm_op_free(others[i]), TDM_OK);
}

/* ---- functions ---- */

static void fill(tdm_dtype dtype, unsigned char *to, unsigned seed)
{
    for (size_t i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int whole = (int)(seed >> 20) - 2048;
        const float real = (float)whole * 0.37f, pair[2] = {real, 1.0f - real};
        const double wide = (double)whole * 0.1;
        const uint64_t bits = (uint64_t)seed * 2654435761u;
        const uint16_t half = dtype == TDM_BF16 ? tdmi_f32_to_bf16(real) : tdmi_f32_to_f16(real);
        unsigned char *at = to + i * tdm_dtype_size(dtype);
        switch (dtype) {
        case TDM_F32: memcpy(at, &real, 4); break;
        case TDM_F64: memcpy(at, &wide, 8); break;
        case TDM_C64: memcpy(at, pair, 8); break;
        case TDM_BF16:
        case TDM_F16: memcpy(at, &half, 2); break;
        case TDM_BOOL: *at = whole % 3 == 0; break;
        default: memcpy(at, &bits, tdm_dtype_size(dtype));
        }
    }
}

/* A function that adds gives the bits of the built-in sum: same tree, same type, rounded once, whatever the alignment. */
static void a_function_sees_the_tree_of_the_built_in_sum(void **state)
{
    (void)state;
    static const int ns[] = {2, 3, 4, 5, 8, 13, RANKS};
    static const size_t counts[] = {0, 1, 63, 257, COUNT};
    atomic_bool wrong = false;
    tdm_op op;
    assert_int_equal(tdm_op_create(add, &wrong, "add", &op), TDM_OK);
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t i = 0; i < sizeof ns / sizeof *ns; i++) {
                const void *in[RANKS];
                unsigned char *own = memory[RANKS] + (i % 3), *expected = memory[RANKS + 1];
                for (int r = 0; r < ns[i]; r++) {
                    in[r] = memory[r] + (i % 2 != 0 ? r % 8 : 0);
                    fill((tdm_dtype)dtype, memory[r] + (i % 2 != 0 ? r % 8 : 0), (unsigned)r);
                }
                tdmi_reduce_tree((tdm_dtype)dtype, op, in, ns[i], (void *const[]){own}, 1, counts[c], false);
                tdmi_reduce_tree((tdm_dtype)dtype, TDM_SUM, in, ns[i], (void *const[]){expected}, 1, counts[c], false);
                assert_memory_equal(own, expected, counts[c] * tdm_dtype_size((tdm_dtype)dtype));
            }
    assert_false(wrong);
    /* as over links: widened, paired at odd addresses, rounded */
    float acc[2][COUNT];
    for (int r = 0; r < 2; r++) {
        fill(TDM_F16, memory[r], (unsigned)r);
        tdmi_reduce_widen(TDM_F16, op, memory[r], acc[r], COUNT);
    }
    memcpy(memory[2] + 1, acc[1], sizeof acc[1]);
    tdmi_reduce_pair(TDM_F32, op, acc[0], memory[2] + 1, memory[3] + 3, COUNT);
    memcpy(acc[0], memory[3] + 3, sizeof acc[0]);
    tdmi_reduce_finish(TDM_F16, op, 2, acc[0], memory[4], COUNT);
    tdmi_reduce_tree(TDM_F16, TDM_SUM, (const void *const[]){memory[0], memory[1]}, 2, (void *const[]){memory[5]}, 1, COUNT, false);
    assert_memory_equal(memory[4], memory[5], COUNT * 2);
    assert_false(wrong);
    assert_int_equal(tdm_op_free(op), TDM_OK);
}

/* Products of 2x2 matrices modulo 256, packed in 32 bits: associative, not commutative. */
static void multiply_matrices(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    (void)context, (void)dtype;
    for (size_t i = 0; i < count; i++) {
        unsigned char x[4], y[4], z[4];
        memcpy(x, (const char *)a + 4 * i, 4);
        memcpy(y, (const char *)b + 4 * i, 4);
        for (int row = 0; row < 2; row++)
            for (int column = 0; column < 2; column++)
                z[2 * row + column] = (unsigned char)(x[2 * row] * y[column] + x[2 * row + 1] * y[2 + column]);
        memcpy((char *)out + 4 * i, z, 4);
    }
}

static void an_operation_need_not_commute(void **state)
{
    (void)state;
    tdm_op op;
    assert_int_equal(tdm_op_create(multiply_matrices, NULL, "matrix product", &op), TDM_OK);
    for (int n = 2; n <= RANKS; n++) {
        const void *in[RANKS];
        for (int r = 0; r < n; r++) {
            fill(TDM_U32, memory[r], (unsigned)r + 7);
            in[r] = memory[r];
        }
        memcpy(memory[RANKS], memory[0], sizeof memory[0]);
        for (int r = 1; r < n; r++)
            multiply_matrices(NULL, memory[RANKS], memory[r], memory[RANKS], 50, TDM_U32);
        tdmi_reduce_tree(TDM_U32, op, in, n, (void *const[]){memory[RANKS + 1]}, 1, 50, false);
        assert_memory_equal(memory[RANKS], memory[RANKS + 1], 200);
    }
    assert_int_equal(tdm_op_free(op), TDM_OK);
}

/* ---- premultiplied sums ---- */

static void prepare_as(tdm_dtype dtype, const void *scalar, size_t shift)
{
    tdm_op op;
    assert_int_equal(tdm_op_create_premul(dtype, scalar, &op), TDM_OK);
    assert_true(tdmi_op_prepares(op) && tdmi_op_base(op) == TDM_SUM);
    assert_int_equal(tdmi_op_check(dtype, op, "allreduce", "native"), TDM_OK);
    tdmi_op_prepare(dtype, op, memory[0] + shift, memory[1] + shift, COUNT);
    memmove(memory[2], memory[0] + shift, COUNT * tdm_dtype_size(dtype));
    tdmi_op_prepare(dtype, op, memory[2], memory[2], COUNT); /* in place */
    assert_memory_equal(memory[1] + shift, memory[2], COUNT * tdm_dtype_size(dtype));
    assert_int_equal(tdm_op_free(op), TDM_OK);
}

static void an_input_is_multiplied_and_rounded_once(void **state)
{
    (void)state;
    const float third = 1.0f / 3.0f, turn[2] = {0.5f, -2.0f};
    const double wide = 1.0 / 3.0;
    const int32_t minus = -7;
    const uint8_t many = 200;
    for (size_t shift = 0; shift < 3; shift++) {
        fill(TDM_F32, memory[0] + shift, 1);
        memcpy(memory[0] + shift, (const float[]){-0.0f, INFINITY, NAN}, 12);
        prepare_as(TDM_F32, &third, shift);
        for (size_t i = 0; i < COUNT; i++) {
            float in, out;
            memcpy(&in, memory[0] + shift + 4 * i, 4);
            memcpy(&out, memory[1] + shift + 4 * i, 4);
            assert_true(isnan(in) ? isnan(out) : out == in * third && signbit(out) == signbit(in));
        }
        for (int dtype = TDM_BF16; dtype <= TDM_F16; dtype++) {
            fill((tdm_dtype)dtype, memory[0] + shift, 2);
            prepare_as((tdm_dtype)dtype, &third, shift);
            for (size_t i = 0; i < COUNT; i++) {
                uint16_t in, out;
                memcpy(&in, memory[0] + shift + 2 * i, 2);
                memcpy(&out, memory[1] + shift + 2 * i, 2);
                assert_int_equal(out, dtype == TDM_BF16 ? tdmi_f32_to_bf16(tdmi_bf16_to_f32(in) * third)
                                                        : tdmi_f32_to_f16(tdmi_f16_to_f32(in) * third));
            }
        }
        fill(TDM_F64, memory[0] + shift, 3);
        prepare_as(TDM_F64, &wide, shift);
        fill(TDM_I32, memory[0] + shift, 4);
        prepare_as(TDM_I32, &minus, shift);
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t in, out;
            memcpy(&in, memory[0] + shift + 4 * i, 4);
            memcpy(&out, memory[1] + shift + 4 * i, 4);
            assert_true(out == in * (uint32_t)-7);
        }
        fill(TDM_U8, memory[0] + shift, 5);
        prepare_as(TDM_U8, &many, shift);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(memory[1][shift + i], (uint8_t)(memory[0][shift + i] * 200));
        fill(TDM_C64, memory[0] + shift, 6);
        prepare_as(TDM_C64, turn, shift);
        for (size_t i = 0; i < COUNT; i++) {
            float in[2], out[2];
            memcpy(in, memory[0] + shift + 8 * i, 8);
            memcpy(out, memory[1] + shift + 8 * i, 8);
            assert_true(out[0] == in[0] * 0.5f - in[1] * -2.0f && out[1] == in[0] * -2.0f + in[1] * 0.5f);
        }
    }
}

static void a_premultiplied_sum_is_of_its_own_type(void **state)
{
    (void)state;
    const double scalar = 2;
    tdm_op op;
    assert_int_equal(tdm_op_create_premul(TDM_BOOL, &scalar, &op), TDM_ERR_UNSUPPORTED);
    assert_int_equal(tdm_op_create_premul((tdm_dtype)77, &scalar, &op), TDM_ERR_INVALID);
    assert_int_equal(tdm_op_create_premul(TDM_F64, NULL, &op), TDM_ERR_INVALID);
    assert_int_equal(tdm_op_create_premul(TDM_F64, &scalar, &op), TDM_OK);
    assert_int_equal(tdmi_op_check(TDM_F32, op, "reduce", "native"), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "was made for float64 and cannot be used with float32"));
    assert_int_equal(tdmi_op_wire_code(op), TDM_SUM); /* to the others */
    assert_int_equal(tdm_op_free(op), TDM_OK);
}

/* ---- threads ---- */

static void *make_and_use(void *arg)
{
    atomic_bool *wrong = arg;
    for (int i = 0; i < 2000; i++) {
        tdm_op op;
        float a = 1, b = 2;
        if (tdm_op_create(add, wrong, "short-lived", &op) != TDM_OK || !tdmi_op_hold(op) || tdm_op_free(op) != TDM_OK) {
            *wrong = true;
            break;
        }
        tdmi_reduce_pair(TDM_F32, op, &a, &b, &a, 1);
        if (a != 3)
            *wrong = true;
        tdmi_op_release(op);
    }
    return NULL;
}

static void threads_make_use_and_free_operations_at_once(void **state)
{
    (void)state;
    atomic_bool wrong = false;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_use, &wrong), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_false(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_exist_is_refused_by_name),
        cmocka_unit_test(a_freed_operation_is_refused_and_its_number_does_not_come_back),
        cmocka_unit_test(a_call_under_way_keeps_its_operation),
        cmocka_unit_test(a_function_sees_the_tree_of_the_built_in_sum),
        cmocka_unit_test(an_operation_need_not_commute),
        cmocka_unit_test(an_input_is_multiplied_and_rounded_once),
        cmocka_unit_test(a_premultiplied_sum_is_of_its_own_type),
        cmocka_unit_test(threads_make_use_and_free_operations_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
