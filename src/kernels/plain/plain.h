/* plain.h - the reference kernels: one clear loop nest for each op, in any C compiler's instruction set. The fast kernels
 * are tested against these. */
#ifndef TDMI_KERNELS_PLAIN_PLAIN_H
#define TDMI_KERNELS_PLAIN_PLAIN_H

#include "kernels/kernel.h"

extern const tdmi_kernel tdmi_plain_embedding, tdmi_plain_embedding_backward;
extern const tdmi_kernel tdmi_plain_linear, tdmi_plain_linear_backward_input, tdmi_plain_linear_backward_weight;
extern const tdmi_kernel tdmi_plain_layernorm, tdmi_plain_layernorm_backward;
extern const tdmi_kernel tdmi_plain_residual, tdmi_plain_add, tdmi_plain_cast;
extern const tdmi_kernel tdmi_plain_gelu, tdmi_plain_gelu_backward;
extern const tdmi_kernel tdmi_plain_attention, tdmi_plain_attention_backward;
extern const tdmi_kernel tdmi_plain_linear_gelu, tdmi_plain_residual_layernorm, tdmi_plain_linear_backward_input_gelu;
extern const tdmi_kernel tdmi_plain_dropout, tdmi_plain_dropout_backward;
extern const tdmi_kernel tdmi_plain_custom, tdmi_plain_custom_backward;
extern const tdmi_kernel tdmi_plain_loss_sum, tdmi_plain_loss_sum_backward;
extern const tdmi_kernel tdmi_plain_cross_entropy, tdmi_plain_cross_entropy_backward;

#endif
