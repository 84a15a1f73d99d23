/* fused.c - the reference of fused ops: the ops they stand for, one after the other. */
#include "kernels/plain/plain.h"

static void linear_gelu(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out, void *workspace)
{
    tdmi_kernel_io second = {.in_count = 1, .out_count = 1, .in = {io->out[0]}, .out = {io->out[1]}};
    tdmi_plain_linear.run(state, io, in, out, workspace);
    tdmi_plain_gelu.run(state, &second, (const void *const *)out, out + 1, workspace);
}

static void residual_layernorm(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                               void *workspace)
{
    tdmi_kernel_io second = {.attr = io->attr, .in_count = 3, .out_count = 3, .in = {io->out[0], io->in[2], io->in[3]},
                             .out = {io->out[1], io->out[2], io->out[3]}};
    tdmi_plain_residual.run(state, io, in, out, workspace);
    tdmi_plain_layernorm.run(state, &second, (const void *[]){out[0], in[2], in[3]}, out + 1, workspace);
}

static void linear_backward_input_gelu(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,
                                       void *workspace)
{
    tdmi_kernel_io second = {.in_count = 2, .out_count = 1, .in = {io->out[0], io->in[2]}, .out = {io->out[0]}};
    tdmi_plain_linear_backward_input.run(state, io, in, out, workspace);
    tdmi_plain_gelu_backward.run(state, &second, (const void *[]){out[0], in[2]}, out, workspace);
}

const tdmi_kernel tdmi_plain_linear_gelu = {.name = "linear_gelu/plain", .op = TDMI_OP_LINEAR_GELU, .run = linear_gelu};
const tdmi_kernel tdmi_plain_residual_layernorm = {
    .name = "residual_layernorm/plain", .op = TDMI_OP_RESIDUAL_LAYERNORM, .run = residual_layernorm};
const tdmi_kernel tdmi_plain_linear_backward_input_gelu = {
    .name = "linear_backward_input_gelu/plain", .op = TDMI_OP_LINEAR_BACKWARD_INPUT_GELU, .run = linear_backward_input_gelu};
