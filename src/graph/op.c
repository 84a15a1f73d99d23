/* op.c - names of operations, sizes of shapes. */
#include "graph/op.h"

static const char *const names[TDMI_OP_COUNT] = {
#define TEXT(NAME, name) name,
    TDMI_OP_MAP(TEXT)
#undef TEXT
};

const char *tdmi_op_text(tdmi_op op)
{
    return (unsigned)op < TDMI_OP_COUNT ? names[op] : "unknown";
}

size_t tdmi_shape_count(const tdmi_shape *shape)
{
    size_t count = 1;
    for (int i = 0; i < shape->ndim; i++)
        count *= (size_t)shape->dims[i];
    return count;
}

size_t tdmi_shape_nbytes(const tdmi_shape *shape)
{
    return tdmi_shape_count(shape) * tdm_dtype_size(shape->dtype);
}
