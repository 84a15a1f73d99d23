/* own_hook.c - a reduction of your own: gradients travel in 8 bits, a quarter of float32's bytes.
 *     tandem run -n 2 ./own_hook
 * A bucket has one scale, its largest number on any rank; numbers are rounded to so few steps that the ranks' sum still fits into
 * 8 bits. What rounding took away is added to the next step's gradient, so it comes late instead of never. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>

enum { WEIGHTS = 1000, BATCH = 64, STEPS = 400 };

static void check(tdm_status status)
{
    if (status == TDM_OK)
        return;
    fprintf(stderr, "%s\n", tdm_error_text());
    exit(1);
}

/* Of the one bucket that this program has; with more, each would have its own `error`. */
typedef struct eight_bits {
    float largest, error[WEIGHTS];
    int8_t number[WEIGHTS];
} eight_bits;

static tdm_status reduce_in_eight_bits(void *arg, const tdm_bucket *b, int phase, tdm_work **work)
{
    eight_bits *h = arg;
    float *gradient = b->memory;
    const int ranks = tdm_group_size(b->group);
    const float step = h->largest * (float)ranks / 127; /* of phases 1 and 2 */
    switch (phase) {
    case 0: /* the bucket is full: agree on a scale */
        h->largest = 1e-30f;
        for (size_t i = 0; i < b->count; i++) {
            gradient[i] += h->error[i];
            h->largest = fmaxf(h->largest, fabsf(gradient[i]));
        }
        return tdm_allreduce(b->group, &h->largest, &h->largest, 1, TDM_F32, TDM_MAX, work);
    case 1: /* all know the largest number: round, add up */
        for (size_t i = 0; i < b->count; i++) {
            h->number[i] = (int8_t)(gradient[i] / step); /* towards 0: the sum cannot exceed 127 */
            h->error[i] = gradient[i] - (float)h->number[i] * step;
        }
        return tdm_allreduce(b->group, h->number, h->number, b->count, TDM_I8, TDM_SUM, work);
    default: /* the sum has come: back to the average, and no more work */
        for (size_t i = 0; i < b->count; i++)
            gradient[i] = (float)h->number[i] * step / (float)ranks;
        return TDM_OK;
    }
}

static float uniform(uint32_t number) /* in [-1, 1) */
{
    number = (number ^ number >> 16) * 0x45d9f3bu;
    number = (number ^ number >> 16) * 0x45d9f3bu;
    return (float)((number ^ number >> 16) >> 8) / (float)(1 << 23) - 1;
}

/* The mean of (w x - v x)^2 over rows of random x, and its gradient: w is to become v. */
static float loss_of_rows(uint32_t first, int rows, const float *w, const float *v, float *gradient)
{
    float x[WEIGHTS], loss = 0;
    for (int r = 0; r < rows; r++) {
        float error = 0;
        for (uint32_t i = 0; i < WEIGHTS; i++) {
            x[i] = uniform((first + (uint32_t)r) * WEIGHTS + i);
            error += (w[i] - v[i]) * x[i];
        }
        loss += error * error / (float)rows;
        for (int i = 0; i < WEIGHTS; i++)
            gradient[i] += 2 * error * x[i] / (float)rows;
    }
    return loss;
}

int main(void)
{
    static float w[WEIGHTS], v[WEIGHTS];
    static eight_bits hook;
    tdm_group *group;
    tdm_reducer *reducer;
    int id;
    check(tdm_group_create(NULL, &group));
    check(tdm_reducer_create(group, NULL, &reducer));
    check(tdm_reducer_add(reducer, "w", WEIGHTS, &id));
    check(tdm_reducer_commit(reducer));
    check(tdm_reducer_set_hook(reducer, reduce_in_eight_bits, &hook));
    const int rank = tdm_group_rank(group), rows = BATCH / tdm_group_size(group);
    float *gradient = tdm_reducer_gradient(reducer, id);
    for (uint32_t i = 0; i < WEIGHTS; i++)
        v[i] = uniform(i);
    for (int step = 1; step <= STEPS; step++) {
        tdm_reducer_zero(reducer);
        float loss = loss_of_rows((uint32_t)(step * BATCH + rank * rows), rows, w, v, gradient);
        check(tdm_reducer_ready(reducer, id));
        check(tdm_reducer_wait(reducer)); /* the hook has run */
        for (int i = 0; i < WEIGHTS; i++)
            w[i] -= 0.05f * gradient[i];
        check(tdm_allreduce(group, &loss, &loss, 1, TDM_F32, TDM_AVG, NULL));
        if (step % 40 == 0 && rank == 0)
            printf("step %d loss %.6f, %llu bytes sent\n", step, (double)loss, (unsigned long long)tdm_reducer_sent(reducer));
    }
    tdm_reducer_destroy(reducer);
    tdm_group_destroy(group);
    return 0;
}
