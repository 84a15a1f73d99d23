/* loss_sum.c - the loss of several parts: sum of weight[k] part[k]; its gradient by part k is weight[k], times the loss scale. */
#include "kernels/plain/plain.h"

static void forward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    double sum = 0;
    for (int k = 0; k < io->in_count; k++)
        if (in[k] != NULL)
            sum += (double)io->attr.weight[k] * (double)*(const float *)in[k];
    *(float *)out[0] = (float)sum;
}

static void backward(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    (void)state, (void)workspace;
    const float scale = in[0] != NULL ? *(const float *)in[0] : 1;
    for (int k = 0; k < io->out_count; k++)
        if (out[k] != NULL)
            *(float *)out[k] = io->attr.weight[k] * scale;
}

const tdmi_kernel tdmi_plain_loss_sum = {.name = "loss_sum/plain", .op = TDMI_OP_LOSS_SUM, .run = forward};
const tdmi_kernel tdmi_plain_loss_sum_backward = {.name = "loss_sum_backward/plain", .op = TDMI_OP_LOSS_SUM_BACKWARD, .run = backward};
