/* dtype.h - element types and reduction operations of collectives. */
#ifndef TANDEM_DTYPE_H
#define TANDEM_DTYPE_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name", bytes an element). A bool is a byte, complex64 two float32: real and imaginary part. */
#define TDM_DTYPE_MAP(X)                                                                                               \
    X(F32, "float32", 4)                                                                                               \
    X(F64, "float64", 8)                                                                                               \
    X(BF16, "bfloat16", 2)                                                                                             \
    X(F16, "float16", 2)                                                                                               \
    X(I32, "int32", 4)                                                                                                 \
    X(I64, "int64", 8)                                                                                                 \
    X(I8, "int8", 1)                                                                                                   \
    X(U8, "uint8", 1)                                                                                                  \
    X(U32, "uint32", 4)                                                                                                \
    X(U64, "uint64", 8)                                                                                                \
    X(BOOL, "bool", 1)                                                                                                 \
    X(C64, "complex64", 8)

typedef enum tdm_dtype {
#define TDM_DTYPE_ENUM(NAME, name, size) TDM_##NAME,
    TDM_DTYPE_MAP(TDM_DTYPE_ENUM)
#undef TDM_DTYPE_ENUM
    TDM_DTYPE_COUNT
} tdm_dtype;

/* Meaning of the built-in operations, equal on every transport and algorithm; docs/types.md has the table:
 *   SUM   integers wrap (two's complement); float16 and bfloat16 are summed in float32 and rounded once
 *   AVG   the sum times 1/n. float32, float64 and complex64 in their own type; halves in float32, rounded once;
 *         integers: the exact sum divided by n, truncated toward zero
 *   MIN MAX  a NaN in any rank gives NaN; -0 is less than +0
 *   PROD  as SUM, with products; (a+bi)(c+di) = (ac-bd) + (ad+bc)i, each of the six operations rounded
 *   BAND BOR BXOR  bit by bit, integers only
 * bool: a byte that is not 0 is true, results are 0 and 1. SUM MAX BOR are `or`, MIN PROD BAND `and`, BXOR `xor`.
 * What does not exist is refused (TDM_ERR_UNSUPPORTED): AVG of bool, MIN and MAX of complex64, bits of floats. */
#define TDM_OP_MAP(X)                                                                                                  \
    X(SUM, "sum") X(AVG, "avg") X(MIN, "min") X(MAX, "max") X(PROD, "prod") X(BAND, "band") X(BOR, "bor") X(BXOR, "bxor")

typedef enum tdm_op {
#define TDM_OP_ENUM(NAME, name) TDM_##NAME,
    TDM_OP_MAP(TDM_OP_ENUM)
#undef TDM_OP_ENUM
    TDM_OP_COUNT,
    TDM_OP_LAST = 0x7fffffff /* values between are made by tdm_op_create (op.h) */
} tdm_op;

/* Bytes of one element; 0 for a value that is no dtype. */
TDM_API size_t tdm_dtype_size(tdm_dtype dtype);
/* "float32", "sum", ...; "unknown" for a value out of range. Static storage; the name of a made operation (op.h) lives as long
 * as the operation. */
TDM_API const char *tdm_dtype_name(tdm_dtype dtype);
TDM_API const char *tdm_op_name(tdm_op op);
/* The dtype or built-in op of this name (also f32, bf16, half ...); false if there is none. */
TDM_API bool tdm_dtype_parse(const char *name, tdm_dtype *out);
TDM_API bool tdm_op_parse(const char *name, tdm_op *out);

#ifdef __cplusplus
}
#endif
#endif
