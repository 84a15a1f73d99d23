/* simd.h - the kernels of this folder, once for each instruction set. Rows are cut into fixed tiles; each tile is summed in
 * one order, so bits depend neither on threads nor on alignment. */
#ifndef TDMI_KERNELS_SIMD_SIMD_H
#define TDMI_KERNELS_SIMD_SIMD_H

#include "core/cpu.h"
#include "kernels/kernel.h"

#define TDMI_SIMD_KERNELS(isa)                                                                                         \
    extern const tdmi_kernel tdmi_##isa##_linear, tdmi_##isa##_linear_backward_input,                                  \
        tdmi_##isa##_linear_backward_weight, tdmi_##isa##_embedding, tdmi_##isa##_embedding_backward,                  \
        tdmi_##isa##_layernorm, tdmi_##isa##_layernorm_backward, tdmi_##isa##_residual, tdmi_##isa##_add,              \
        tdmi_##isa##_gelu, tdmi_##isa##_gelu_backward, tdmi_##isa##_attention, tdmi_##isa##_attention_backward,        \
        tdmi_##isa##_dropout, tdmi_##isa##_dropout_backward, tdmi_##isa##_cross_entropy,                               \
        tdmi_##isa##_cross_entropy_backward, tdmi_##isa##_cast,                                              \
        tdmi_##isa##_linear_widened, tdmi_##isa##_linear_backward_input_widened,                                       \
        tdmi_##isa##_linear_backward_weight_widened, tdmi_##isa##_linear_gelu, tdmi_##isa##_linear_gelu_widened,       \
        tdmi_##isa##_linear_backward_input_gelu, tdmi_##isa##_linear_backward_input_gelu_widened,                      \
        tdmi_##isa##_residual_layernorm;

/* Parts of kernels that others build on.
 * What a fused product does to a block of its result while it is in the cache: z = gelu of y; dz becomes dy, the gradient of that y.
 * Rows lie `row` elements apart, from element `at` on.
 * turn_matrix: out [columns, rows] = in^T, whose rows lie in_row elements apart; sums[columns] = those of in's columns, from the first row on. */
#define TDMI_SIMD_BLOCKS(isa)                                                                                          \
    void tdmi_##isa##_gelu_block(tdm_dtype type, const void *y, void *z, int64_t at, int64_t row, int64_t rows, int64_t columns); \
    void tdmi_##isa##_gelu_backward_block(tdm_dtype type, const void *y, void *dz, int64_t at, int64_t row, int64_t rows,          \
                                          int64_t columns);                                                            \
    void tdmi_##isa##_turn_matrix(tdm_dtype type, int64_t rows, int64_t columns, const void *in, int64_t in_row, void *out, float *sums);

TDMI_SIMD_BLOCKS(avx2)
TDMI_SIMD_BLOCKS(avx512)
TDMI_SIMD_KERNELS(avx2)
TDMI_SIMD_KERNELS(avx512)

/* The blocks of this processor, at least AVX2. */
static inline void tdmi_simd_gelu_block(tdm_dtype type, const void *y, void *z, int64_t at, int64_t row, int64_t rows, int64_t columns)
{
#if defined(__x86_64__)
    (tdmi_cpu_isa() >= TDMI_ISA_AVX512 ? tdmi_avx512_gelu_block : tdmi_avx2_gelu_block)(type, y, z, at, row, rows, columns);
#endif
}

static inline void tdmi_simd_gelu_backward_block(tdm_dtype type, const void *y, void *dz, int64_t at, int64_t row, int64_t rows,
                                                 int64_t columns)
{
#if defined(__x86_64__)
    (tdmi_cpu_isa() >= TDMI_ISA_AVX512 ? tdmi_avx512_gelu_backward_block
                                       : tdmi_avx2_gelu_backward_block)(type, y, dz, at, row, rows, columns);
#endif
}

static inline void tdmi_simd_turn_matrix(tdm_dtype type, int64_t rows, int64_t columns, const void *in, int64_t in_row, void *out, float *sums)
{
#if defined(__x86_64__)
    (tdmi_cpu_isa() >= TDMI_ISA_AVX512 ? tdmi_avx512_turn_matrix : tdmi_avx2_turn_matrix)(type, rows, columns, in, in_row, out, sums);
#endif
}

#endif
