/* simd.h - the kernels of this folder, once for each instruction set. Rows are cut into fixed tiles; each tile is summed in
 * one order, so bits depend neither on threads nor on alignment. */
#ifndef TDMI_KERNELS_SIMD_SIMD_H
#define TDMI_KERNELS_SIMD_SIMD_H

#include "kernels/kernel.h"

#define TDMI_SIMD_KERNELS(isa)                                                                                         \
    extern const tdmi_kernel tdmi_##isa##_linear, tdmi_##isa##_linear_backward_input, tdmi_##isa##_linear_backward_weight;

TDMI_SIMD_KERNELS(avx2)
TDMI_SIMD_KERNELS(avx512)

#endif
