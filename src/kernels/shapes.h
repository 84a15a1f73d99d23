/* shapes.h - sizes that kernels read from the shapes of a node. */
#ifndef TDMI_KERNELS_SHAPES_H
#define TDMI_KERNELS_SHAPES_H

#include "kernels/kernel.h"

/* Size of the last dimension, and the number of rows of that size. */
static inline int64_t tdmi_shape_width(const tdmi_shape *shape)
{
    return shape->dims[shape->ndim - 1];
}

static inline int64_t tdmi_shape_rows(const tdmi_shape *shape)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape->ndim; i++)
        rows *= shape->dims[i];
    return rows;
}

static inline bool tdmi_accumulates(const tdmi_kernel_io *io, int output)
{
    return (io->attr.accumulate >> output & 1u) != 0;
}

/* What dropout multiplies the elements it keeps with. */
static inline float tdmi_dropout_scale(float p)
{
    return (float)(1.0 / (1.0 - (double)p));
}

#endif
