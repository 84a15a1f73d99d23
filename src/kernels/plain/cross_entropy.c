/* cross_entropy.c - mean over rows of lse - logits[target], lse = log of the row's sum of exp; fused with softmax.
 *   dlogits[n,v] = (exp(logits[n,v] - lse[n]) - [v = targets[n]]) / (N micro_batches)
 * A row whose target is negative gives nothing: it adds no loss, its lse and dlogits are 0. Targets are below V: whoever fills
 * the input checks them. */
#include "kernels/plain/plain.h"
#include "kernels/shapes.h"

#include <math.h>

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const float *logits = in[0];
    const int32_t *targets = in[1];
    float *loss = out[0], *lse = out[1];
    const int64_t N = tdmi_shape_rows(&io->in[0]), V = tdmi_shape_width(&io->in[0]);
    double total = 0.0;
    for (int64_t n = 0; n < N; n++, logits += V) {
        if (targets[n] < 0) {
            lse[n] = 0;
            continue;
        }
        double max = -INFINITY, sum = 0.0;
        for (int64_t v = 0; v < V; v++)
            max = logits[v] > max ? logits[v] : max;
        for (int64_t v = 0; v < V; v++)
            sum += exp(logits[v] - max);
        lse[n] = (float)(max + log(sum));
        total += max + log(sum) - logits[targets[n]];
    }
    *loss = (float)(total / ((double)N * io->attr.micro_batches));
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const float *logits = in[0], *lse = in[2];
    const int32_t *targets = in[1];
    float *dlogits = out[0];
    const int64_t N = tdmi_shape_rows(&io->in[0]), V = tdmi_shape_width(&io->in[0]);
    const double rows = (double)N * io->attr.micro_batches;
    for (int64_t n = 0; n < N; n++, logits += V, dlogits += V)
        for (int64_t v = 0; v < V; v++)
            dlogits[v] = targets[n] < 0
                             ? 0.0f
                             : (float)((exp((double)logits[v] - lse[n]) - (v == targets[n] ? 1.0 : 0.0)) / rows);
}

const tdmi_kernel tdmi_plain_cross_entropy = {.name = "cross_entropy/plain", .op = TDMI_OP_CROSS_ENTROPY, .run = forward};
const tdmi_kernel tdmi_plain_cross_entropy_backward = {
    .name = "cross_entropy_backward/plain", .op = TDMI_OP_CROSS_ENTROPY_BACKWARD, .run = backward};
