/* onednn.h - the products of linear layers by oneDNN, on the layouts that the graph has. */
#ifndef TDMI_KERNELS_ONEDNN_ONEDNN_H
#define TDMI_KERNELS_ONEDNN_ONEDNN_H

#include "kernels/kernel.h"

extern const tdmi_kernel tdmi_onednn_linear, tdmi_onednn_linear_backward_input, tdmi_onednn_linear_backward_weight, tdmi_onednn_linear_gelu,
    tdmi_onednn_linear_backward_input_gelu;

/* "2.6.3": the library in use. */
const char *tdmi_onednn_version(void);

#endif
