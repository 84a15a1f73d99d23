/* layernorm.c - h = (x - mean) rstd over a row, rstd = 1 / sqrt(variance + eps); y = h w + b.
 *   dh = dy w        dx = rstd (dh - mean of dh - h mean of (dh h))        dw = sum of dy h, db = sum of dy over rows */
#include "kernels/plain/element.h"
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include <math.h>

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const float *x = in[0], *w = in[1], *b = in[2];
    const tdmi_out y = {io->out[0].dtype, out[0]};
    float *mean = out[1], *rstd = out[2];
    const int64_t N = tdmi_shape_rows(&io->in[0]), C = tdmi_shape_width(&io->in[0]);
    for (int64_t n = 0; n < N; n++, x += C) {
        double m = 0.0, v = 0.0;
        for (int64_t c = 0; c < C; c++)
            m += x[c];
        m /= (double)C;
        for (int64_t c = 0; c < C; c++)
            v += (x[c] - m) * (x[c] - m);
        const double r = 1.0 / sqrt(v / (double)C + (double)io->attr.eps);
        for (int64_t c = 0; c < C; c++)
            tdmi_put(y, n * C + c, (x[c] - m) * r * w[c] + b[c]);
        mean[n] = (float)m;
        rstd[n] = (float)r;
    }
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in dy = {io->in[0].dtype, in[0]};
    const float *x = in[1], *w = in[2], *mean = in[3], *rstd = in[4];
    const tdmi_out dw = {io->out[1].dtype, out[1]}, db = {io->out[2].dtype, out[2]};
    const tdmi_out narrow = {io->out[3].dtype, io->out_count > 3 ? out[3] : NULL};
    float *dx = out[0];
    const int64_t N = tdmi_shape_rows(&io->in[1]), C = tdmi_shape_width(&io->in[1]);
    for (int64_t c = 0; c < C; c++) {
        double sum_w = tdmi_accumulates(io, 1) ? tdmi_before(dw, c) : 0.0, sum_b = tdmi_accumulates(io, 2) ? tdmi_before(db, c) : 0.0;
        for (int64_t n = 0; n < N; n++) {
            sum_w += tdmi_get(dy, n * C + c) * ((double)x[n * C + c] - mean[n]) * rstd[n];
            sum_b += tdmi_get(dy, n * C + c);
        }
        tdmi_put(dw, c, sum_w);
        tdmi_put(db, c, sum_b);
    }
    for (int64_t n = 0; n < N; n++, x += C, dx += C) {
        double mean_dh = 0.0, mean_dh_h = 0.0;
        for (int64_t c = 0; c < C; c++) {
            const double dh = (double)tdmi_get(dy, n * C + c) * w[c];
            mean_dh += dh / (double)C;
            mean_dh_h += dh * ((double)x[c] - mean[n]) * rstd[n] / (double)C;
        }
        for (int64_t c = 0; c < C; c++) {
            const double h = ((double)x[c] - mean[n]) * rstd[n];
            const double d = rstd[n] * ((double)tdmi_get(dy, n * C + c) * w[c] - mean_dh - h * mean_dh_h);
            dx[c] = (float)((tdmi_accumulates(io, 0) ? dx[c] : 0.0) + d);
            if (narrow.at != NULL)
                tdmi_put(narrow, n * C + c, dx[c]);
        }
    }
}

const tdmi_kernel tdmi_plain_layernorm = {.name = "layernorm/plain", .op = TDMI_OP_LAYERNORM, .run = forward};
const tdmi_kernel tdmi_plain_layernorm_backward = {
    .name = "layernorm_backward/plain", .op = TDMI_OP_LAYERNORM_BACKWARD, .run = backward};
