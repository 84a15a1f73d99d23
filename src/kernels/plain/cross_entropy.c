/* cross_entropy.c - mean over rows of lse - logits[target], lse = log of the row's sum of exp; fused with softmax.
 *   dlogits[n,v] = scale (exp(logits[n,v] - lse[n]) - [v = targets[n]]) / (N micro_batches), scale 1 where absent
 * A row whose target is negative gives nothing: it adds no loss, its lse and dlogits are 0. Targets are below V: whoever fills
 * the input checks them. */
#include "kernels/plain/element.h"
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include <math.h>

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in logits = {io->in[0].dtype, in[0]};
    const int32_t *targets = in[1];
    float *loss = out[0], *lse = out[1];
    const int64_t N = tdmi_shape_rows(&io->in[0]), V = tdmi_shape_width(&io->in[0]);
    double total = 0.0;
    for (int64_t n = 0; n < N; n++) {
        if (targets[n] < 0) {
            lse[n] = 0;
            continue;
        }
        double max = -INFINITY, sum = 0.0;
        for (int64_t v = 0; v < V; v++)
            max = fmax(max, tdmi_get(logits, n * V + v));
        for (int64_t v = 0; v < V; v++)
            sum += exp(tdmi_get(logits, n * V + v) - max);
        lse[n] = (float)(max + log(sum));
        total += max + log(sum) - tdmi_get(logits, n * V + targets[n]);
    }
    *loss = (float)(total / ((double)N * io->attr.micro_batches));
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const tdmi_in logits = {io->in[0].dtype, in[0]};
    const tdmi_out dlogits = {io->out[0].dtype, out[0]};
    const float *lse = in[2];
    const int32_t *targets = in[1];
    const double scale = in[3] != NULL ? *(const float *)in[3] : 1.0;
    const int64_t N = tdmi_shape_rows(&io->in[0]), V = tdmi_shape_width(&io->in[0]);
    const double share = scale / ((double)N * io->attr.micro_batches);
    for (int64_t n = 0; n < N; n++)
        for (int64_t v = 0; v < V; v++)
            tdmi_put(dlogits, n * V + v,
                     targets[n] < 0 ? 0.0
                                    : (exp((double)tdmi_get(logits, n * V + v) - lse[n]) - (v == targets[n] ? 1.0 : 0.0)) * share);
}

const tdmi_kernel tdmi_plain_cross_entropy = {.name = "cross_entropy/plain", .op = TDMI_OP_CROSS_ENTROPY, .run = forward};
const tdmi_kernel tdmi_plain_cross_entropy_backward = {
    .name = "cross_entropy_backward/plain", .op = TDMI_OP_CROSS_ENTROPY_BACKWARD, .run = backward};
