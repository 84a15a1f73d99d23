/* attention.c - causal attention of each head, D = C / heads wide, on qkv = [q heads | k heads | v heads] of each position.
 *   s[t,u] = q[t] . k[u] / sqrt(D) for u <= t        lse[t] = log of sum over u of exp s[t,u]
 *   p[t,u] = exp(s[t,u] - lse[t])                    y[t] = sum over u of p[t,u] v[u]
 * Backward computes p again from lse:
 *   dp[t,u] = dy[t] . v[u]      delta[t] = dy[t] . y[t]      ds = p (dp - delta) / sqrt(D)
 *   dq[t] = sum over u of ds[t,u] k[u]      dk[u] = sum over t of ds[t,u] q[t]      dv[u] = sum over t of p[t,u] dy[t] */
#include "kernels/plain/element.h"
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include <math.h>
#include <string.h>

static tdm_status prepare(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    *state = NULL;
    *workspace_nbytes = (size_t)io->in[0].dims[1] * sizeof(double); /* one row of scores */
    return TDM_OK;
}

/* Of count elements, from a's on and from b's on. */
static double dot(tdmi_in x, int64_t a, tdmi_in y, int64_t b, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)tdmi_get(x, a + i) * tdmi_get(y, b + i);
    return sum;
}

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    const tdmi_in qkv = {io->in[0].dtype, in[0]};
    const tdmi_out y = {io->out[0].dtype, out[0]};
    float *lse = out[1];
    double *score = workspace;
    const int64_t B = io->in[0].dims[0], T = io->in[0].dims[1], C = io->in[0].dims[2] / 3, H = io->attr.heads, D = C / H;
    const double scale = 1.0 / sqrt((double)D);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++) {
                const int64_t q = (b * T + t) * 3 * C + h * D, k = b * T * 3 * C + C + h * D, v = k + C;
                double max = -INFINITY, sum = 0.0;
                for (int64_t u = 0; u <= t; u++) {
                    score[u] = scale * dot(qkv, q, qkv, k + u * 3 * C, D);
                    max = score[u] > max ? score[u] : max;
                }
                for (int64_t u = 0; u <= t; u++)
                    sum += score[u] = exp(score[u] - max);
                for (int64_t d = 0; d < D; d++) {
                    double mixed = 0.0;
                    for (int64_t u = 0; u <= t; u++)
                        mixed += score[u] * tdmi_get(qkv, v + u * 3 * C + d);
                    tdmi_put(y, (b * T + t) * C + h * D + d, mixed / sum);
                }
                lse[(b * H + h) * T + t] = (float)(max + log(sum));
            }
}

/* Gradients are summed in float32, in the workspace. */
static tdm_status prepare_backward(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    *state = NULL;
    *workspace_nbytes = tdmi_shape_count(&io->out[0]) * sizeof(float);
    return TDM_OK;
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    const tdmi_in dy = {io->in[0].dtype, in[0]}, qkv = {io->in[1].dtype, in[1]}, y = {io->in[2].dtype, in[2]};
    const tdmi_out dqkv = {io->out[0].dtype, out[0]};
    const float *lse = in[3];
    float *sum = workspace;
    const int64_t B = io->in[1].dims[0], T = io->in[1].dims[1], C = io->in[1].dims[2] / 3, H = io->attr.heads, D = C / H;
    const double scale = 1.0 / sqrt((double)D);
    memset(sum, 0, (size_t)(B * T * 3 * C) * sizeof *sum);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++) {
                const int64_t at_q = (b * T + t) * 3 * C + h * D, at_y = (b * T + t) * C + h * D;
                const double delta = dot(dy, at_y, y, at_y, D);
                for (int64_t u = 0; u <= t; u++) {
                    const int64_t at_k = (b * T + u) * 3 * C + C + h * D, at_v = at_k + C;
                    const double p = exp(scale * dot(qkv, at_q, qkv, at_k, D) - lse[(b * H + h) * T + t]);
                    const double ds = scale * p * (dot(dy, at_y, qkv, at_v, D) - delta);
                    for (int64_t d = 0; d < D; d++) {
                        sum[at_q + d] += (float)(ds * tdmi_get(qkv, at_k + d));
                        sum[at_k + d] += (float)(ds * tdmi_get(qkv, at_q + d));
                        sum[at_v + d] += (float)(p * tdmi_get(dy, at_y + d));
                    }
                }
            }
    for (int64_t i = 0; i < B * T * 3 * C; i++)
        tdmi_put(dqkv, i, sum[i]);
}

const tdmi_kernel tdmi_plain_attention = {
    .name = "attention/plain", .op = TDMI_OP_ATTENTION, .prepare = prepare, .run = forward};
const tdmi_kernel tdmi_plain_attention_backward = {
    .name = "attention_backward/plain", .op = TDMI_OP_ATTENTION_BACKWARD, .prepare = prepare_backward, .run = backward};
