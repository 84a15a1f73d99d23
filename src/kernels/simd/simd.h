/* simd.h - the kernels of this folder, once for each instruction set. Rows are cut into fixed tiles; each tile is summed in
 * one order, so bits depend neither on threads nor on alignment. */
#ifndef TDMI_KERNELS_SIMD_SIMD_H
#define TDMI_KERNELS_SIMD_SIMD_H

#include "kernels/kernel.h"

#define TDMI_SIMD_KERNELS(isa)                                                                                         \
    extern const tdmi_kernel tdmi_##isa##_linear, tdmi_##isa##_linear_backward_input,                                  \
        tdmi_##isa##_linear_backward_weight, tdmi_##isa##_embedding, tdmi_##isa##_embedding_backward,                  \
        tdmi_##isa##_layernorm, tdmi_##isa##_layernorm_backward, tdmi_##isa##_residual, tdmi_##isa##_add,              \
        tdmi_##isa##_gelu, tdmi_##isa##_gelu_backward, tdmi_##isa##_attention, tdmi_##isa##_attention_backward,        \
        tdmi_##isa##_dropout, tdmi_##isa##_dropout_backward, tdmi_##isa##_cross_entropy,                               \
        tdmi_##isa##_cross_entropy_backward, tdmi_##isa##_cast,                                              \
        tdmi_##isa##_linear_widened, tdmi_##isa##_linear_backward_input_widened,                                       \
        tdmi_##isa##_linear_backward_weight_widened;

TDMI_SIMD_KERNELS(avx2)
TDMI_SIMD_KERNELS(avx512)

#endif
