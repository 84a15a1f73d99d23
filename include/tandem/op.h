/* op.h - reduction operations made by the caller: a function of two arrays, or a sum with a factor for each rank.
 *
 * An operation belongs to the process: every thread and every group may use it. Its number means nothing to other ranks, so
 * each rank makes its own. That all ranks passed a function is checked, that they meant the same one is not; a premultiplied sum
 * is a sum to the others. */
#ifndef TANDEM_OP_H
#define TANDEM_OP_H

#include <tandem/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = a[i] op b[i] for [count] elements of `dtype`; a comes from lower ranks than b. out may be a or b.
 * It must be associative, and commutative too under TANDEM_SUM_ORDER=fast; it must give the same bits on all ranks, and must not
 * call Tandem.
 * dtype: what lies in the arrays. It is the dtype of the call, but TDM_F32 for float16 and bfloat16: like the built-in
 * operations it sees partial results that were not rounded yet, and the end result is rounded once. A group of one rank calls
 * nothing and copies. Arrays are aligned to the element; bool bytes come as they are. Thread: any; several at once. */
typedef void (*tdm_op_fn)(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype);

/* tdm_op_create - an operation from a function, for any dtype that the function knows.
 *   context  handed to fn; must live until tdm_op_free, and until the calls that use it are over
 *   name     for messages, up to 31 bytes are kept; NULL: "user"
 *   out      a value above TDM_OP_COUNT
 * Errors  TDM_ERR_INVALID fn or out is NULL | TDM_ERR_NO_SPACE 1024 operations exist already
 * Result  a call's tree has the canonical order (docs/determinism.md)       Cost  a lock; using it: no lock
 * Thread  any                                      Source  meaning of MPI_Op_create                Since  0.2 */
TDM_API TDM_MUST_CHECK tdm_status tdm_op_create(tdm_op_fn fn, void *context, const char *name, tdm_op *out);

/* tdm_op_create_premul - a sum to which this rank gives its input times `scalar`; other ranks have their own scalars.
 *   dtype    the only one it may be used with: float, integer (wraps) or complex64
 *   scalar   one number of the type that sums are kept in: a float for float16 and bfloat16, else an element of dtype. Copied
 * An input is multiplied in that type and rounded to dtype, also in a group of one; then it is an ordinary SUM.
 * Errors  TDM_ERR_INVALID an argument is NULL or no dtype | TDM_ERR_UNSUPPORTED bool | TDM_ERR_NO_SPACE as above
 * Thread  any                                      Source  meaning of ncclRedOpCreatePreMulSum     Since  0.2 */
TDM_API TDM_MUST_CHECK tdm_status tdm_op_create_premul(tdm_dtype dtype, const void *scalar, tdm_op *out);

/* tdm_op_free - no new call may use it; calls that were started with it go on. A built-in operation is refused.
 * Errors  TDM_ERR_INVALID no such operation: never made, or freed before      Thread  any          Since  0.2 */
TDM_API tdm_status tdm_op_free(tdm_op op);

#ifdef __cplusplus
}
#endif
#endif
