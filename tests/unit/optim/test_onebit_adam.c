/* test_onebit_adam.c - 1-bit Adam step by step against the paper's algorithm in double, with real ranks and bits; and its loops. */
#include "optim/isa.h"
#include "optim/onebit_adam.h"

#include "on_ranks.h"

#include <tandem/reducer.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 5000, BLOCK = 2048, BLOCKS = (COUNT + BLOCK - 1) / BLOCK, WARMUP = 6, STEPS = 18, RANKS_MOST = 3, DEAD = 100 };

static const tdmi_optimizer adamw = {.kind = TDMI_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.05};
#define LR 1e-2

/* Of a quadratic that each rank sees with noise; the first DEAD elements have none. */
static double gradient_of(int rank, int step, size_t i, double w)
{
    if (i < DEAD)
        return 0;
    uint64_t z = ((uint64_t)rank * 1000 + (uint64_t)step) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 30) * 0x94d049bb133111ebu;
    return (1 + (double)(i % 7)) * (w - sin((double)i)) + 0.5 * (double)(int32_t)((z ^ z >> 27) >> 32) * 0x1p-31;
}

/* What all ranks hold in common, and what each keeps. */
typedef struct reference {
    double w[COUNT], m[COUNT], v[COUNT], error[RANKS_MOST][COUNT], served[COUNT];
} reference;

/* x becomes +-scale, block by block; error what that lost. */
static void one_bit(double *x, double *error)
{
    for (size_t first = 0; first < COUNT; first += BLOCK) {
        const size_t end = first + BLOCK < COUNT ? first + BLOCK : COUNT;
        double squares = 0;
        for (size_t i = first; i < end; i++) {
            x[i] += error[i];
            squares += x[i] * x[i];
        }
        const double scale = sqrt(squares / (double)(end - first));
        for (size_t i = first; i < end; i++) {
            error[i] = x[i] - (x[i] >= 0 ? scale : -scale);
            x[i] = x[i] >= 0 ? scale : -scale;
        }
    }
}

static void average_momenta(reference *r, int ranks, int step, double *sum)
{
    static double own[COUNT];
    memset(sum, 0, COUNT * sizeof *sum);
    for (int rank = 0; rank < ranks; rank++) {
        for (size_t i = 0; i < COUNT; i++)
            own[i] = r->v[i] > 0 ? adamw.beta1 * r->m[i] + (1 - adamw.beta1) * gradient_of(rank, step, i, r->w[i]) : 0;
        one_bit(own, r->error[rank]);
        for (size_t i = 0; i < COUNT; i++)
            sum[i] += own[i] / ranks;
    }
    one_bit(sum, r->served);
}

static void reference_step(reference *r, int ranks, int step)
{
    static double average[COUNT];
    if (step > WARMUP)
        average_momenta(r, ranks, step, average);
    const int seen = step < WARMUP ? step : WARMUP;
    for (size_t i = 0; i < COUNT; i++) {
        if (step <= WARMUP) {
            double g = 0;
            for (int rank = 0; rank < ranks; rank++)
                g += gradient_of(rank, step, i, r->w[i]) / ranks;
            r->m[i] = adamw.beta1 * r->m[i] + (1 - adamw.beta1) * g;
            r->v[i] = adamw.beta2 * r->v[i] + (1 - adamw.beta2) * g * g;
        } else {
            r->m[i] = r->v[i] > 0 ? average[i] : 0;
        }
        const double root = sqrt(r->v[i]) / sqrt(1 - pow(adamw.beta2, seen)) + adamw.eps;
        r->w[i] = r->w[i] * (1 - LR * adamw.weight_decay) - LR / (1 - pow(adamw.beta1, step)) * r->m[i] / root;
    }
}

typedef struct own_run {
    float w[COUNT], m[COUNT], v[COUNT];
    tdm_reducer *reducer;
    int id;
} own_run;

static const char *own_step(tdm_group *group, own_run *run, int step)
{
    tdmi_optimizer_step s;
    float *g = tdm_reducer_gradient(run->reducer, run->id);
    for (size_t i = 0; i < COUNT; i++)
        g[i] = (float)gradient_of(tdm_group_rank(group), step, i, (double)run->w[i]);
    if (step == WARMUP + 1)
        CHECK_OK(tdm_reducer_set_compress(run->reducer, true));
    if (step > WARMUP) {
        float own[COUNT];
        tdmi_onebit_step_init(&s, &adamw, step, WARMUP, LR, 1);
        tdmi_onebit_momentum(&s, g, run->m, run->v, own, COUNT);
        memcpy(g, own, sizeof own);
    } else {
        tdmi_optimizer_step_init(&s, &adamw, step, LR, 1);
    }
    CHECK_OK(tdm_reducer_ready(run->reducer, run->id));
    CHECK_OK(tdm_reducer_wait(run->reducer));
    if (step > WARMUP) {
        tdmi_onebit_update(&s, true, run->w, g, run->m, run->v, COUNT / 2);
        tdmi_onebit_update(&s, true, run->w + COUNT / 2, g + COUNT / 2, run->m + COUNT / 2, run->v + COUNT / 2, COUNT / 2);
    } else {
        float *moment[TDMI_MOMENTS_MAX] = {run->m, run->v};
        tdmi_optimizer_update(&s, true, run->w, g, moment, COUNT);
    }
    return NULL;
}

/* Signs of numbers that rounding moves over 0 differ: the two may part there by one scale, and the error comes back to it. */
static const char *compare(const own_run *run, const reference *r, int step)
{
    int apart = 0;
    for (size_t i = 0; i < COUNT; i++) {
        apart += fabs((double)run->w[i] - r->w[i]) > 1e-5;
        CHECK(fabs((double)run->w[i] - r->w[i]) < 0.1, "step %d, element %zu: %g is not %g", step, i, (double)run->w[i], r->w[i]);
        CHECK(i >= DEAD || run->m[i] == 0, "element %zu has momentum %g and never had a gradient", i, (double)run->m[i]);
    }
    CHECK(apart <= COUNT / 500, "step %d: %d of %d weights are apart", step, apart, COUNT);
    return NULL;
}

static const char *paper_body(tdm_group *group, void *arg)
{
    (void)arg;
    own_run *run = calloc(1, sizeof *run);
    reference *r = calloc(1, sizeof *r);
    tdm_reducer_options options;
    tdm_reducer_options_init(&options);
    options.compress.codec = TDM_CODEC_ONEBIT;
    CHECK_OK(tdm_reducer_create(group, &options, &run->reducer));
    CHECK_OK(tdm_reducer_add(run->reducer, "w", COUNT, &run->id));
    CHECK_OK(tdm_reducer_commit(run->reducer));
    CHECK_OK(tdm_reducer_set_compress(run->reducer, false));
    for (size_t i = 0; i < COUNT; i++)
        r->w[i] = (double)(run->w[i] = (float)cos((double)i));
    const char *wrong = NULL;
    for (int step = 1; step <= STEPS && wrong == NULL; step++) {
        reference_step(r, tdm_group_size(group), step);
        wrong = own_step(group, run, step);
        if (wrong == NULL)
            wrong = compare(run, r, step);
    }
    tdm_reducer_destroy(run->reducer);
    free(run);
    free(r);
    return wrong;
}

static void steps_are_those_of_the_paper(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MOST; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = RANKS_PROCESSES}, paper_body, NULL);
}

static void loops_have_the_same_bits_on_every_instruction_set(void **state)
{
    (void)state;
    const tdmi_isa isas[] = {TDMI_ISA_AVX2, TDMI_ISA_AVX512};
    tdmi_optimizer_step s;
    tdmi_onebit_step_init(&s, &adamw, 30, 10, LR, 0.7f);
    const tdmi_optim_kernels *plain = tdmi_optim_kernels_of(TDMI_ISA_PLAIN);
    float start[4][101], expected[6][101];
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < 101; i++)
            start[k][i] = (float)sin((double)(i * 7) + k) * (k == 3 ? 1e-3f : 1);
    for (size_t i = 0; i < 101; i++)
        start[3][i] = i % 5 == 0 ? 0 : start[3][i] * start[3][i];
    for (size_t at = 0; at <= 2; at++) {
        const tdmi_optim_kernels *kernels = at == 0 ? plain : tdmi_optim_kernels_of(isas[at - 1]);
        if (at > 0 && isas[at - 1] > tdmi_cpu_isa())
            continue;
        float x[6][101] = {{0}};
        memcpy(x, start, sizeof start);
        kernels->onebit_momentum(&s, x[0], x[1], x[3], x[4], 101);
        kernels->onebit_take(x[0], x[5], x[3], 101);
        kernels->onebit_update(&s, true, x[2], x[0], x[1], x[3], 101);
        assert_memory_equal(x[1], x[5], sizeof x[1]);
        if (at == 0)
            memcpy(expected, x, sizeof x);
        assert_memory_equal(x, expected, sizeof x);
        for (size_t i = 0; i < 101; i += 5)
            assert_true(x[4][i] == 0 && x[1][i] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_paper),
        cmocka_unit_test(loops_have_the_same_bits_on_every_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
