/* op.h (internal) - what a reduction operation is: which dtypes it exists for, the type it is computed in, and the process-wide
 * table of operations that callers made.
 *
 * Threads: making and freeing take a lock; everything else reads one atomic word of the operation's slot. */
#ifndef TDMI_COLL_OP_H
#define TDMI_COLL_OP_H

#include "core/error.h"

#include <tandem/op.h>

/* The kind of a made operation lies in its number, with its slot and how often the slot was used before. */
#define TDMI_OP_FUNCTION 0x20000000u
#define TDMI_OP_PREMUL 0x40000000u

static inline bool tdmi_op_is_function(tdm_op op)
{
    return ((unsigned)op & (TDMI_OP_FUNCTION | TDMI_OP_PREMUL)) == TDMI_OP_FUNCTION;
}

/* What is supported, said once: TDM_OK, TDM_ERR_INVALID (no dtype, no operation: never made or freed) or TDM_ERR_UNSUPPORTED
 * with a text that names op, dtype and engine. what: the call, "allreduce". An engine that can less than that says so with
 * tdmi_op_refuse, in the same words; reason: half a sentence behind the semicolon. */
tdm_status tdmi_op_check(tdm_dtype dtype, tdm_op op, const char *what, const char *engine);
tdm_status tdmi_op_refuse(tdm_dtype dtype, tdm_op op, const char *what, const char *engine, const char *reason);

/* A premultiplied sum prepares its input (reduce.h: tdmi_op_prepare) and is a sum then; the others are what they are. */
static inline bool tdmi_op_prepares(tdm_op op)
{
    return ((unsigned)op & (TDMI_OP_FUNCTION | TDMI_OP_PREMUL)) == TDMI_OP_PREMUL;
}
static inline tdm_op tdmi_op_base(tdm_op op)
{
    return tdmi_op_prepares(op) ? TDM_SUM : op;
}

/* The type sums are kept in: float32 for halves; for averages of integers int64, of 64-bit ones TDMI_I128; else the dtype. */
tdm_dtype tdmi_accumulate_dtype(tdm_dtype dtype, tdm_op op);

/* A call under way holds its operation: it outlives tdm_op_free. False: freed or never made. Built-in ones need no hold. */
bool tdmi_op_hold(tdm_op op);
void tdmi_op_release(tdm_op op);

/* Of an operation that lives: runs the function of a FUNCTION; this rank's scalar (accumulate type) of a PREMUL. */
void tdmi_op_run(tdm_op op, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype);
const void *tdmi_op_scalar(tdm_op op);

/* What other ranks compare: the same for all functions, whose numbers are local; a premultiplied sum is a sum. */
uint8_t tdmi_op_wire_code(tdm_op op);
const char *tdmi_op_wire_name(uint8_t code); /* any byte is safe */

#endif
