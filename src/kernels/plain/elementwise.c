/* elementwise.c - sums of two tensors, gelu and dropout with their gradients, casts: one element at a time, in place or not.
 *   gelu(x) = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
 *   gelu'(x) = (1 + tanh u)/2 + x/2 (1 - tanh^2 u) u'
 *   dropout: y = x mask / (1 - p), and the same for its gradient */
#include "kernels/plain/element.h"
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include <math.h>

#define SQRT_2_OVER_PI 0.79788456080286535588
#define CUBE 0.044715

static void sum(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in a = {io->in[0].dtype, in[0]}, b = {io->in[1].dtype, in[1]};
    const tdmi_out y = {io->out[0].dtype, out[0]};
    const int64_t count = tdmi_shape_count(&io->in[0]);
    for (int64_t i = 0; i < count; i++)
        tdmi_put(y, i, tdmi_get(a, i) + tdmi_get(b, i));
}

static void gelu(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in x = {io->in[0].dtype, in[0]};
    const tdmi_out y = {io->out[0].dtype, out[0]};
    const int64_t count = tdmi_shape_count(&io->in[0]);
    for (int64_t i = 0; i < count; i++) {
        const double v = tdmi_get(x, i), t = tanh(SQRT_2_OVER_PI * (v + CUBE * v * v * v));
        tdmi_put(y, i, 0.5 * v * (1.0 + t));
    }
}

static void gelu_backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                          void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in dy = {io->in[0].dtype, in[0]}, x = {io->in[1].dtype, in[1]};
    const tdmi_out dx = {io->out[0].dtype, out[0]};
    const int64_t count = tdmi_shape_count(&io->in[1]);
    for (int64_t i = 0; i < count; i++) {
        const double v = tdmi_get(x, i), t = tanh(SQRT_2_OVER_PI * (v + CUBE * v * v * v));
        const double du = SQRT_2_OVER_PI * (1.0 + 3.0 * CUBE * v * v);
        tdmi_put(dx, i, tdmi_get(dy, i) * (0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * du));
    }
}

static void dropout(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in x = {io->in[0].dtype, in[0]};
    const uint8_t *mask = in[1];
    const tdmi_out y = {io->out[0].dtype, out[0]};
    const int64_t count = tdmi_shape_count(&io->in[0]);
    const float scale = tdmi_dropout_scale(io->attr.p);
    for (int64_t i = 0; i < count; i++)
        tdmi_put(y, i, mask[i] != 0 ? tdmi_get(x, i) * scale : 0.0f);
}

static void cast(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in x = {io->in[0].dtype, in[0]};
    const tdmi_out y = {io->out[0].dtype, out[0]};
    const int64_t count = tdmi_shape_count(&io->in[0]);
    for (int64_t i = 0; i < count; i++)
        tdmi_put(y, i, tdmi_get(x, i));
}

const tdmi_kernel tdmi_plain_cast = {.name = "cast/plain", .op = TDMI_OP_CAST, .run = cast};
const tdmi_kernel tdmi_plain_residual = {.name = "residual/plain", .op = TDMI_OP_RESIDUAL, .run = sum};
const tdmi_kernel tdmi_plain_add = {.name = "add/plain", .op = TDMI_OP_ADD, .run = sum};
const tdmi_kernel tdmi_plain_gelu = {.name = "gelu/plain", .op = TDMI_OP_GELU, .run = gelu};
const tdmi_kernel tdmi_plain_gelu_backward = {
    .name = "gelu_backward/plain", .op = TDMI_OP_GELU_BACKWARD, .run = gelu_backward};
const tdmi_kernel tdmi_plain_dropout = {.name = "dropout/plain", .op = TDMI_OP_DROPOUT, .run = dropout};
const tdmi_kernel tdmi_plain_dropout_backward = {
    .name = "dropout_backward/plain", .op = TDMI_OP_DROPOUT_BACKWARD, .run = dropout};
