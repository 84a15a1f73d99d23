/* test_powersgd.c - low-rank factors against their definition in double, on matrices of every kind. Run once per instruction set. */
#include <tandem/compress.h>

#include "random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tandem/status.h>

enum { MOST = 5000, FACTORS = 4000 };

/* A step of one rank: what it sends is its own average. */
static void step(tdm_powersgd *p, float *gradient, float *residual)
{
    static float first[FACTORS], second[FACTORS];
    size_t first_count, second_count;
    tdm_powersgd_sizes(p, &first_count, &second_count);
    assert_true(first_count <= FACTORS && second_count <= FACTORS);
    tdm_powersgd_begin(p, gradient, residual, first);
    tdm_powersgd_middle(p, gradient, first, second);
    tdm_powersgd_end(p, gradient, residual, first, second);
}

static tdm_powersgd *made(const tdm_part *part, int parts, int rank, double min_saving)
{
    tdm_powersgd *p = NULL;
    const tdm_compression c = {.codec = TDM_CODEC_POWERSGD, .rank = rank, .min_saving = min_saving, .seed = 3};
    assert_int_equal(tdm_powersgd_create(part, parts, &c, &p), TDM_OK);
    return p;
}

/* Orthonormal columns as the definition has them: each minus its part in those before it. */
static void orthonormal(double *a, size_t n, int k)
{
    for (int j = 0; j < k; j++)
        for (int pass = 0; pass < 2; pass++) {
            double squares = 0;
            for (int i = 0; i < j; i++) {
                double d = 0;
                for (size_t r = 0; r < n; r++)
                    d += a[(size_t)i * n + r] * a[(size_t)j * n + r];
                for (size_t r = 0; r < n; r++)
                    a[(size_t)j * n + r] -= d * a[(size_t)i * n + r];
            }
            for (size_t r = 0; r < n; r++)
                squares += a[(size_t)j * n + r] * a[(size_t)j * n + r];
            for (size_t r = 0; r < n; r++)
                a[(size_t)j * n + r] /= sqrt(squares);
        }
}

/* M ~ P (M^T P)^T with P orthonormal columns of M Q; q becomes M^T P, m its own approximation, e what that lost. */
static void reference(double *m, double *e, size_t rows, size_t columns, double *q, int k)
{
    double *p = calloc((size_t)k * rows, sizeof *p);
    for (size_t i = 0; i < rows * columns; i++)
        m[i] += e[i];
    orthonormal(q, columns, k);
    for (int j = 0; j < k; j++)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                p[(size_t)j * rows + r] += m[r * columns + c] * q[(size_t)j * columns + c];
    orthonormal(p, rows, k);
    for (int j = 0; j < k; j++)
        for (size_t c = 0; c < columns; c++) {
            q[(size_t)j * columns + c] = 0;
            for (size_t r = 0; r < rows; r++)
                q[(size_t)j * columns + c] += m[r * columns + c] * p[(size_t)j * rows + r];
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            double v = 0;
            for (int j = 0; j < k; j++)
                v += p[(size_t)j * rows + r] * q[(size_t)j * columns + c];
            e[r * columns + c] = m[r * columns + c] - v;
            m[r * columns + c] = v;
        }
    free(p);
}

static void steps_are_those_of_the_definition(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{40, 30}, {17, 61}, {70, 33}};
    for (size_t s = 0; s < 3; s++)
        for (int rank = 1; rank <= 7; rank += 2) {
            const size_t rows = shapes[s][0], columns = shapes[s][1], count = rows * columns;
            const tdm_part part = {16, count, rows};
            static float gradient[MOST], residual[MOST], m[MOST];
            static double rm[MOST], re[MOST], rq[MOST];
            memset(residual, 0, sizeof residual);
            memset(re, 0, sizeof re);
            tdm_powersgd *p = made(&part, 1, rank, 0.01);
            size_t factors;
            float *q = tdm_powersgd_factor(p, 0, &factors);
            assert_int_equal(factors, (size_t)rank * columns);
            fill_values(q, factors, 77); /* both begin with these */
            for (size_t i = 0; i < factors; i++)
                rq[i] = (double)q[i];
            fill_values(m, count, 9); /* the same from step to step but for noise: there is something to find */
            for (uint64_t n = 0; n < 5; n++) {
                fill_values(gradient + 16, count, 10 + n);
                for (size_t i = 0; i < count; i++)
                    gradient[16 + i] = m[i] + 0.3f * gradient[16 + i], rm[i] = (double)gradient[16 + i];
                step(p, gradient, residual);
                reference(rm, re, rows, columns, rq, rank);
                for (size_t i = 0; i < count; i++) {
                    assert_true(fabs((double)gradient[16 + i] - rm[i]) < 2e-4);
                    assert_true(fabs((double)residual[16 + i] - re[i]) < 2e-4);
                }
            }
            tdm_powersgd_destroy(p);
        }
}

static double norm(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static void a_rank_that_reaches_the_smaller_side_is_exact(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{4, 4}, {3, 100}, {100, 3}, {2, 2}, {8, 8}, {2, 300}};
    for (size_t s = 0; s < 6; s++)
        for (int rank = 1; rank <= 8; rank *= 2) {
            const size_t rows = shapes[s][0], columns = shapes[s][1], count = rows * columns;
            if ((size_t)rank < rows && (size_t)rank < columns)
                continue;
            const tdm_part part = {0, count, rows};
            float gradient[600], before[600], residual[600] = {0};
            tdm_powersgd *p = made(&part, 1, rank, 0.001);
            for (uint64_t n = 0; n < 6; n++) {
                fill_values(gradient, count, n);
                for (size_t i = 0; i < count; i++) {
                    if (n == 2)
                        gradient[i] = 0; /* what was found so far is lost, and found again */
                    if (n == 3)
                        gradient[i] = gradient[i % columns]; /* one row repeated */
                    if (n == 5)
                        gradient[i] *= 1e-30f;
                    before[i] = gradient[i] + residual[i];
                }
                step(p, gradient, residual);
                for (size_t i = 0; i < count; i++) {
                    assert_true(fabs((double)gradient[i] - (double)before[i]) <= 1e-5 * norm(before, count));
                    assert_true(n != 2 || fabs((double)gradient[i]) < 1e-5);
                }
            }
            tdm_powersgd_destroy(p);
        }
}

static void zeros_are_exactly_zero_and_never_nan(void **state)
{
    (void)state;
    const tdm_part part = {0, 600, 30};
    float gradient[600], residual[600] = {0};
    for (int rank = 1; rank <= 8; rank *= 2) {
        tdm_powersgd *p = made(&part, 1, rank, 1);
        memset(residual, 0, sizeof residual);
        for (int n = 0; n < 4; n++) {
            memset(gradient, 0, sizeof gradient);
            step(p, gradient, residual);
            for (size_t i = 0; i < 600; i++)
                assert_true(gradient[i] == 0 && residual[i] == 0);
        }
        tdm_powersgd_destroy(p);
    }
}

static void a_matrix_of_lower_rank_is_found(void **state)
{
    (void)state;
    const tdm_part part = {0, 600, 30};
    float gradient[600], row[20], residual[600] = {0};
    tdm_powersgd *p = made(&part, 1, 4, 1);
    for (uint64_t n = 0; n < 5; n++) {
        fill_values(row, 20, n);
        for (size_t i = 0; i < 600; i++)
            gradient[i] = row[i % 20] * (float)(i / 20 + 1);
        float before[600];
        for (size_t i = 0; i < 600; i++)
            before[i] = gradient[i] + residual[i];
        step(p, gradient, residual);
        for (size_t i = 0; i < 600; i++)
            assert_true(fabs((double)gradient[i] - (double)before[i]) <= 1e-5 * norm(before, 600));
    }
    tdm_powersgd_destroy(p);
}

static void what_is_not_finite_is_seen_once_and_forgotten(void **state)
{
    (void)state;
    const tdm_part part = {0, 600, 30};
    float gradient[600], residual[600] = {0};
    tdm_powersgd *p = made(&part, 1, 2, 1);
    for (uint64_t n = 0; n < 4; n++) {
        fill_values(gradient, 600, n);
        if (n == 1)
            gradient[77] = INFINITY, gradient[300] = NAN;
        step(p, gradient, residual);
        bool all = true;
        for (size_t i = 0; i < 600; i++) {
            all = all && isfinite(gradient[i]);
            assert_true(isfinite(residual[i]));
        }
        assert_int_equal(all, n != 1);
    }
    tdm_powersgd_destroy(p);
}

/* Of a matrix that no cache holds the residual is stored in another way where it is aligned: the same numbers. */
static void large_matrices_are_the_same_wherever_they_lie(void **state)
{
    (void)state;
    enum { LARGE_ROWS = 515, LARGE_COLUMNS = 512, LARGE = LARGE_ROWS * LARGE_COLUMNS };
    const tdm_part part = {0, LARGE, LARGE_ROWS};
    static _Alignas(64) float gradient[2][LARGE + 16], residual[2][LARGE + 16], given[LARGE];
    tdm_powersgd *p[2] = {made(&part, 1, 3, 1), made(&part, 1, 3, 1)};
    for (uint64_t n = 0; n < 3; n++) {
        for (size_t i = 0; i < 2; i++) {
            fill_values(gradient[i] + i, LARGE, n);
            for (size_t c = 0; c < LARGE && i == 0; c++)
                given[c] = gradient[0][c] + residual[0][c];
            step(p[i], gradient[i] + i, residual[i] + i);
        }
        assert_memory_equal(gradient[0], gradient[1] + 1, LARGE * sizeof(float));
        assert_memory_equal(residual[0], residual[1] + 1, LARGE * sizeof(float));
        for (size_t c = 0; c < LARGE; c++)
            assert_true(residual[0][c] == given[c] - gradient[0][c]);
        assert_true(residual[1][0] == 0 && residual[1][LARGE + 1] == 0);
    }
    tdm_powersgd_destroy(p[0]);
    tdm_powersgd_destroy(p[1]);
}

static void what_would_not_get_smaller_travels_whole(void **state)
{
    (void)state;
    const tdm_part parts[] = {{0, 30, 0}, {32, 600, 30}, {640, 16, 4}, {656, 1, 1}};
    float gradient[660], before[660], residual[660] = {0};
    tdm_powersgd *p = made(parts, 4, 2, 0);
    size_t first, second, count;
    tdm_powersgd_sizes(p, &first, &second);
    assert_int_equal(first, 30 + 2 * 30 + 16 + 1);
    assert_int_equal(second, 2 * 20);
    assert_null(tdm_powersgd_factor(p, 0, &count));
    assert_non_null(tdm_powersgd_factor(p, 1, &count));
    fill_values(gradient, 660, 1);
    memcpy(before, gradient, sizeof before);
    step(p, gradient, residual);
    for (size_t i = 0; i < 660; i++)
        assert_true((i >= 32 && i < 632) == (gradient[i] != before[i]));
    tdm_powersgd_destroy(p);
}

static void parts_and_ranks_that_cannot_be_are_refused(void **state)
{
    (void)state;
    tdm_powersgd *p = NULL;
    const tdm_part part = {0, 601, 30};
    assert_int_equal(tdm_powersgd_create(&part, 1, &(tdm_compression){.codec = TDM_CODEC_POWERSGD}, &p), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "601 elements, which are no 30 rows"));
    assert_int_equal(tdm_powersgd_create(&part, 1, &(tdm_compression){.rank = 300}, &p), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "rank 300"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_definition),
        cmocka_unit_test(a_rank_that_reaches_the_smaller_side_is_exact),
        cmocka_unit_test(zeros_are_exactly_zero_and_never_nan),
        cmocka_unit_test(a_matrix_of_lower_rank_is_found),
        cmocka_unit_test(what_is_not_finite_is_seen_once_and_forgotten),
        cmocka_unit_test(large_matrices_are_the_same_wherever_they_lie),
        cmocka_unit_test(what_would_not_get_smaller_travels_whole),
        cmocka_unit_test(parts_and_ranks_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
