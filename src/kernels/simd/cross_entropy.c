/* cross_entropy.c - softmax and its loss in one pass over the logits: each chunk of a row is read from memory for its largest
 * value and again from the first cache for its sum of exponentials; the sum so far is rescaled when a larger value appears. */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define CHUNK 4096 /* logits */
#define SUMS 4     /* sums side by side, so that one does not wait for the other */

typedef struct {
    const float *logits, *lse;
    const int32_t *targets;
    float *lse_out, *dlogits;
    double *losses; /* one a row */
    int64_t N, V;
    float share; /* of a row in the mean */
} operands;

static float largest(const float *x, int64_t count)
{
    vf most[SUMS];
    UNROLL
    for (int i = 0; i < SUMS; i++)
        most[i] = splat(-INFINITY);
    int64_t v = 0;
    for (; v + SUMS * LANES <= count; v += SUMS * LANES)
        UNROLL
        for (int i = 0; i < SUMS; i++)
            most[i] = larger(load(x + v + i * LANES), most[i]);
    for (; v < count; v += LANES)
        most[0] = larger(count - v >= LANES ? load(x + v) : load_part(x + v, count - v, -INFINITY), most[0]);
    return largest_lane(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

static float sum_of_exponentials(const float *x, int64_t count, float most)
{
    vf sum[SUMS];
    UNROLL
    for (int i = 0; i < SUMS; i++)
        sum[i] = (vf){0};
    int64_t v = 0;
    for (; v + SUMS * LANES <= count; v += SUMS * LANES)
        UNROLL
        for (int i = 0; i < SUMS; i++)
            sum[i] += exponential(load(x + v + i * LANES) - most);
    for (; v < count; v += LANES)
        sum[0] += exponential((count - v >= LANES ? load(x + v) : load_part(x + v, count - v, -INFINITY)) - most);
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static void forward_row(void *arg, int64_t n, int worker)
{
    const operands *o = arg;
    (void)worker;
    if (o->targets[n] < 0) {
        o->lse_out[n] = 0;
        o->losses[n] = 0;
        return;
    }
    const float *x = o->logits + n * o->V;
    float most = -FLT_MAX; /* not infinity: a chunk of nothing but -infinity adds nothing */
    double sum = 0.0;
    for (int64_t v = 0; v < o->V; v += CHUNK) {
        const int64_t count = least(o->V - v, CHUNK);
        const float here = largest(x + v, count);
        if (here > most) {
            sum *= exp((double)most - (double)here);
            most = here;
        }
        sum += (double)sum_of_exponentials(x + v, count, most);
    }
    const double lse = (double)most + log(sum);
    o->lse_out[n] = (float)lse;
    o->losses[n] = lse - (double)x[o->targets[n]];
}

static tdm_status prepare(const tdmi_kernel_io *io, void **state, size_t *workspace_nbytes)
{
    *workspace_nbytes = (size_t)tdmi_shape_rows(&io->in[0]) * sizeof(double);
    *state = NULL;
    return TDM_OK;
}

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state;
    operands o = {.logits = in[0], .targets = in[1], .lse_out = out[1], .losses = workspace,
                  .N = tdmi_shape_rows(&io->in[0]), .V = tdmi_shape_width(&io->in[0])};
    float *loss = out[0];
    tdmi_kernels_tiles(o.N, forward_row, &o);
    double total = 0.0;
    for (int64_t n = 0; n < o.N; n++)
        total += o.losses[n];
    *loss = (float)(total / ((double)o.N * io->attr.micro_batches));
}

static void backward_row(void *arg, int64_t n, int worker)
{
    const operands *o = arg;
    (void)worker;
    const float *x = o->logits + n * o->V, lse = o->lse[n], share = o->share;
    float *dx = o->dlogits + n * o->V;
    if (o->targets[n] < 0) {
        memset(dx, 0, (size_t)o->V * sizeof *dx);
        return;
    }
    int64_t v = 0;
    for (; v + LANES <= o->V; v += LANES)
        store(dx + v, exponential(load(x + v) - lse) * share);
    if (v < o->V)
        store_part(dx + v, exponential(load_part(x + v, o->V - v, 0.0f) - lse) * share, o->V - v);
    dx[o->targets[n]] -= share;
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    operands o = {.logits = in[0], .targets = in[1], .lse = in[2], .dlogits = out[0], .N = tdmi_shape_rows(&io->in[0]),
                  .V = tdmi_shape_width(&io->in[0])};
    o.share = 1.0f / (float)(o.N * io->attr.micro_batches);
    tdmi_kernels_tiles(o.N, backward_row, &o);
}

const tdmi_kernel SIMD_NAME(cross_entropy) = {.name = SIMD_LABEL("cross_entropy"),
                                              .op = TDMI_OP_CROSS_ENTROPY,
                                              .isa = SIMD_NEEDS,
                                              .prepare = prepare,
                                              .run = forward};
const tdmi_kernel SIMD_NAME(cross_entropy_backward) = {
    .name = SIMD_LABEL("cross_entropy_backward"), .op = TDMI_OP_CROSS_ENTROPY_BACKWARD, .isa = SIMD_NEEDS, .run = backward};
