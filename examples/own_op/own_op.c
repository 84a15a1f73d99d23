/* own_op.c - a model with operations that Tandem does not have, an activation and a loss, on any number of ranks:
 *     tandem run -n 2 ./own_op */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>

enum { WIDTH = 32, BATCH = 64, STEPS = 200 };

static void check(tdm_status status)
{
    if (status == TDM_OK)
        return;
    fprintf(stderr, "%s\n", tdm_error_text());
    exit(1);
}

/* out = x sigmoid(x) */
static void silu(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    (void)user;
    for (size_t i = 0; i < s->out.count; i++)
        out[i] = in[0][i] / (1 + expf(-in[0][i]));
}

static void silu_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out,
                          float *const *d_in)
{
    (void)user;
    for (size_t i = 0; i < s->out.count; i++) {
        const float sigmoid = 1 / (1 + expf(-in[0][i]));
        d_in[0][i] += d_out[i] * (out[i] * (1 - sigmoid) + sigmoid);
    }
}

/* out[1] = the mean of (a - b)^2 */
static void square_error(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < s->in[0].count; i++)
        sum += pow((double)(in[0][i] - in[1][i]), 2);
    *out = (float)(sum / (double)s->in[0].count);
}

static void square_error_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out,
                                  float *const *d_in)
{
    (void)user, (void)out;
    for (size_t i = 0; i < s->in[0].count; i++) {
        const float d = *d_out * 2 * (in[0][i] - in[1][i]) / (float)s->in[0].count;
        d_in[0][i] += d;
        d_in[1][i] -= d;
    }
}

/* y as a function of x. */
static tdm_model *build(int batch)
{
    static const tdm_own_op silu_op = {silu, silu_backward, NULL}, error_op = {square_error, square_error_backward, NULL};
    const int64_t column[] = {batch, 1}, hidden[] = {batch, WIDTH};
    tdm_model *m;
    check(tdm_model_create("curve", &m));
    const tdm_tensor x = tdm_model_input(m, "x", TDM_F32, 2, column), y = tdm_model_input(m, "y", TDM_F32, 2, column);
    tdm_tensor h = tdm_model_dense(m, "in", x, WIDTH);
    h = tdm_model_own_op(m, "silu", &silu_op, 1, &h, 2, hidden);
    const tdm_tensor pair[] = {tdm_model_dense(m, "out", h, 1), y};
    tdm_model_loss(m, tdm_model_own_op(m, "square error", &error_op, 2, pair, 1, (const int64_t[]){1}), 1);
    return m;
}

int main(void)
{
    tdm_group *group;
    tdm_training *training;
    tdm_training_result result;
    check(tdm_group_create(NULL, &group));
    const int rank = tdm_group_rank(group), rows = BATCH / tdm_group_size(group);
    tdm_model *model = build(rows);
    check(tdm_training_create(model, group, NULL, &training));
    tdm_training_set_lr(training, 0.02);
    float *x = tdm_training_input(training, "x"), *y = tdm_training_input(training, "y");
    for (int step = 1; step <= STEPS; step++) {
        for (int r = 0; r < rows; r++) { /* a rank's share of the step's points, which go through [-3, 3] again and again */
            x[r] = 6 * fmodf((float)(step * BATCH + rank * rows + r) * 0.618034f, 1) - 3;
            y[r] = sinf(2 * x[r]);
        }
        check(tdm_training_step(training, 1, NULL, NULL, &result));
        if (step % 20 == 0 && rank == 0)
            printf("step %d loss %.6f\n", step, result.loss);
    }
    tdm_training_destroy(training);
    tdm_model_destroy(model);
    tdm_group_destroy(group);
    return 0;
}
