/* linear.c - y[n,o] = sum over i of x[n,i] w[o,i], plus b[o]; and its two gradient products.
 *   dx[n,i] = sum over o of dy[n,o] w[o,i]      dw[o,i] = sum over n of dy[n,o] x[n,i]      db[o] = sum over n of dy[n,o] */
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const float *x = in[0], *w = in[1], *b = in[2];
    float *y = out[0];
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = tdmi_shape_count(&io->in[0]) / I;
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            double sum = b != NULL ? b[o] : 0.0;
            for (int64_t i = 0; i < I; i++)
                sum += (double)x[n * I + i] * w[o * I + i];
            y[n * O + o] = (float)sum;
        }
}

static void backward_input(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                           void *workspace)
{
    (void)state, (void)workspace;
    const float *dy = in[0], *w = in[1];
    float *dx = out[0];
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = tdmi_shape_count(&io->in[0]) / O;
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < I; i++) {
            double sum = tdmi_accumulates(io, 0) ? dx[n * I + i] : 0.0;
            for (int64_t o = 0; o < O; o++)
                sum += (double)dy[n * O + o] * w[o * I + i];
            dx[n * I + i] = (float)sum;
        }
}

static void backward_weight(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                            void *workspace)
{
    (void)state, (void)workspace;
    const float *dy = in[0], *x = in[1];
    float *dw = out[0], *db = out[1];
    const int64_t O = io->out[0].dims[0], I = io->out[0].dims[1], N = tdmi_shape_count(&io->in[0]) / O;
    for (int64_t o = 0; o < O; o++) {
        for (int64_t i = 0; i < I; i++) {
            double sum = tdmi_accumulates(io, 0) ? dw[o * I + i] : 0.0;
            for (int64_t n = 0; n < N; n++)
                sum += (double)dy[n * O + o] * x[n * I + i];
            dw[o * I + i] = (float)sum;
        }
        if (db == NULL)
            continue;
        double sum = tdmi_accumulates(io, 1) ? db[o] : 0.0;
        for (int64_t n = 0; n < N; n++)
            sum += dy[n * O + o];
        db[o] = (float)sum;
    }
}

const tdmi_kernel tdmi_plain_linear = {.name = "linear/plain", .op = TDMI_OP_LINEAR, .run = forward};
const tdmi_kernel tdmi_plain_linear_backward_input = {
    .name = "linear_backward_input/plain", .op = TDMI_OP_LINEAR_BACKWARD_INPUT, .run = backward_input};
const tdmi_kernel tdmi_plain_linear_backward_weight = {
    .name = "linear_backward_weight/plain", .op = TDMI_OP_LINEAR_BACKWARD_WEIGHT, .run = backward_weight};
