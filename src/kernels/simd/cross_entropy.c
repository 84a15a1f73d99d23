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
    const void *logits;
    const float *lse;
    const int32_t *targets;
    float *lse_out;
    void *dlogits;
    float share;    /* of a row in the mean, times the scale */
    tdm_dtype type; /* of logits and dlogits */
    double *losses; /* one a row */
    int64_t N, V;
} operands;

INLINE float largest(tdm_dtype type, const void *x, int64_t v, int64_t end)
{
    vf most[SUMS];
    UNROLL
    for (int i = 0; i < SUMS; i++)
        most[i] = splat(-INFINITY);
    for (; v + SUMS * LANES <= end; v += SUMS * LANES)
        UNROLL
        for (int i = 0; i < SUMS; i++)
            most[i] = larger(load_as(type, x, v + i * LANES), most[i]);
    for (; v < end; v += LANES)
        most[0] = larger(end - v >= LANES ? load_as(type, x, v) : load_part_as(type, x, v, end - v, -INFINITY), most[0]);
    return largest_lane(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

INLINE float sum_of_exponentials(tdm_dtype type, const void *x, int64_t v, int64_t end, float most)
{
    vf sum[SUMS];
    UNROLL
    for (int i = 0; i < SUMS; i++)
        sum[i] = (vf){0};
    for (; v + SUMS * LANES <= end; v += SUMS * LANES)
        UNROLL
        for (int i = 0; i < SUMS; i++)
            sum[i] += exponential(load_as(type, x, v + i * LANES) - most);
    for (; v < end; v += LANES)
        sum[0] += exponential((end - v >= LANES ? load_as(type, x, v) : load_part_as(type, x, v, end - v, -INFINITY)) - most);
    return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

INLINE void forward_row_as(tdm_dtype type, const operands *o, int64_t n)
{
    const int64_t row = n * o->V, end = row + o->V;
    float most = -FLT_MAX; /* not infinity: a chunk of nothing but -infinity adds nothing */
    double sum = 0.0;
    for (int64_t v = row; v < end; v += CHUNK) {
        const int64_t to = least(end, v + CHUNK);
        const float here = largest(type, o->logits, v, to);
        if (here > most) {
            sum *= exp((double)most - (double)here);
            most = here;
        }
        sum += (double)sum_of_exponentials(type, o->logits, v, to, most);
    }
    const double lse = (double)most + log(sum);
    o->lse_out[n] = (float)lse;
    o->losses[n] = lse - (double)load_part_as(type, o->logits, row + o->targets[n], 1, 0.0f)[0];
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
#define ROW(type) forward_row_as(type, o, n)
    FOR_TYPE(o->type, ROW);
#undef ROW
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
    operands o = {.logits = in[0], .targets = in[1], .lse_out = out[1], .losses = workspace, .type = io->in[0].dtype,
                  .N = tdmi_shape_rows(&io->in[0]), .V = tdmi_shape_width(&io->in[0])};
    float *loss = out[0];
    tdmi_kernels_tiles(o.N, forward_row, &o);
    double total = 0.0;
    for (int64_t n = 0; n < o.N; n++)
        total += o.losses[n];
    *loss = (float)(total / ((double)o.N * io->attr.micro_batches));
}

/* The target's share is taken off before the element is rounded. */
INLINE void backward_row_as(tdm_dtype type, const operands *o, int64_t n)
{
    const int64_t row = n * o->V, end = row + o->V, target = row + o->targets[n];
    const float lse = o->lse[n];
    const vf own = exponential(load_part_as(type, o->logits, target, 1, 0.0f) - lse) * o->share - o->share;
    int64_t v = row;
    for (; v + LANES <= end; v += LANES)
        store_as(type, o->dlogits, v, exponential(load_as(type, o->logits, v) - lse) * o->share);
    if (v < end)
        store_part_as(type, o->dlogits, v, exponential(load_part_as(type, o->logits, v, end - v, 0.0f) - lse) * o->share, end - v);
    store_part_as(type, o->dlogits, target, own, 1);
}

static void backward_row(void *arg, int64_t n, int worker)
{
    const operands *o = arg;
    (void)worker;
    if (o->targets[n] < 0) {
        const size_t nbytes = (size_t)o->V * tdm_dtype_size(o->type);
        memset((char *)o->dlogits + (size_t)n * nbytes, 0, nbytes);
        return;
    }
#define ROW(type) backward_row_as(type, o, n)
    FOR_TYPE(o->type, ROW);
#undef ROW
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    operands o = {.logits = in[0], .targets = in[1], .lse = in[2], .dlogits = out[0], .type = io->in[0].dtype,
                  .N = tdmi_shape_rows(&io->in[0]), .V = tdmi_shape_width(&io->in[0])};
    o.share = (in[3] != NULL ? *(const float *)in[3] : 1.0f) / (float)(o.N * io->attr.micro_batches);
    tdmi_kernels_tiles(o.N, backward_row, &o);
}

const tdmi_kernel SIMD_NAME(cross_entropy) = {.name = SIMD_LABEL("cross_entropy"),
                                              .op = TDMI_OP_CROSS_ENTROPY,
                                              .isa = SIMD_NEEDS,
                                              .prepare = prepare,
                                              .run = forward};
const tdmi_kernel SIMD_NAME(cross_entropy_backward) = {
    .name = SIMD_LABEL("cross_entropy_backward"), .op = TDMI_OP_CROSS_ENTROPY_BACKWARD, .isa = SIMD_NEEDS, .run = backward};
