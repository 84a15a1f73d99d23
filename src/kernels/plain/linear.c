/* linear.c - y[n,o] = sum over i of x[n,i] w[o,i], plus b[o]; and its two gradient products.
 *   dx[n,i] = sum over o of dy[n,o] w[o,i]      dw[o,i] = sum over n of dy[n,o] x[n,i]      db[o] = sum over n of dy[n,o] */
#include "kernels/plain/element.h"
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in x = {io->in[0].dtype, in[0]}, w = {io->in[1].dtype, in[1]};
    const float *b = in[2];
    const tdmi_out y = {io->out[0].dtype, out[0]};
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = tdmi_shape_count(&io->in[0]) / I;
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            double sum = b != NULL ? b[o] : 0.0;
            for (int64_t i = 0; i < I; i++)
                sum += (double)tdmi_get(x, n * I + i) * tdmi_get(w, o * I + i);
            tdmi_put(y, n * O + o, sum);
        }
}

static void backward_input(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                           void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in dy = {io->in[0].dtype, in[0]}, w = {io->in[1].dtype, in[1]};
    const tdmi_out dx = {io->out[0].dtype, out[0]};
    const int64_t O = io->in[1].dims[0], I = io->in[1].dims[1], N = tdmi_shape_count(&io->in[0]) / O;
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < I; i++) {
            double sum = tdmi_accumulates(io, 0) ? tdmi_before(dx, n * I + i) : 0.0;
            for (int64_t o = 0; o < O; o++)
                sum += (double)tdmi_get(dy, n * O + o) * tdmi_get(w, o * I + i);
            tdmi_put(dx, n * I + i, sum);
        }
}

static void backward_weight(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                            void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in dy = {io->in[0].dtype, in[0]}, x = {io->in[1].dtype, in[1]};
    const tdmi_out dw = {io->out[0].dtype, out[0]}, db = {io->out[1].dtype, out[1]};
    const int64_t O = io->out[0].dims[0], I = io->out[0].dims[1], N = tdmi_shape_count(&io->in[0]) / O;
    for (int64_t o = 0; o < O; o++) {
        for (int64_t i = 0; i < I; i++) {
            double sum = tdmi_accumulates(io, 0) ? tdmi_before(dw, o * I + i) : 0.0;
            for (int64_t n = 0; n < N; n++)
                sum += (double)tdmi_get(dy, n * O + o) * tdmi_get(x, n * I + i);
            tdmi_put(dw, o * I + i, sum);
        }
        if (db.at == NULL)
            continue;
        double sum = tdmi_accumulates(io, 1) ? tdmi_before(db, o) : 0.0;
        for (int64_t n = 0; n < N; n++)
            sum += tdmi_get(dy, n * O + o);
        tdmi_put(db, o, sum);
    }
}

const tdmi_kernel tdmi_plain_linear = {.name = "linear/plain", .op = TDMI_OP_LINEAR, .run = forward};
const tdmi_kernel tdmi_plain_linear_backward_input = {
    .name = "linear_backward_input/plain", .op = TDMI_OP_LINEAR_BACKWARD_INPUT, .run = backward_input};
const tdmi_kernel tdmi_plain_linear_backward_weight = {
    .name = "linear_backward_weight/plain", .op = TDMI_OP_LINEAR_BACKWARD_WEIGHT, .run = backward_weight};
