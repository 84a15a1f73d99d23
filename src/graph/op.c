/* op.c - the table of op.h as data: operands, which are optional, which are added to, which may share memory. */
#include "graph/op.h"

#define BIT(i) (1u << (i))
#define MAX_OPERANDS (TDMI_NODE_IN_MAX + TDMI_NODE_OUT_MAX)

static const char *const names[TDMI_OP_COUNT] = {
#define TEXT(NAME, name) name,
    TDMI_OP_MAP(TEXT)
#undef TEXT
};

typedef struct row {
    tdmi_op_info info;
    const char *operand[MAX_OPERANDS]; /* names of the inputs, then of the outputs */
} row;

static const row rows[TDMI_OP_COUNT] = {
    [TDMI_OP_EMBEDDING] = {{3, 1, BIT(2), 0, 0, 0}, {"tokens", "wte", "wpe", "y"}},
    [TDMI_OP_LINEAR] = {{3, 1, BIT(2), 0, 0, 0}, {"x", "w", "b", "y"}},
    [TDMI_OP_LAYERNORM] = {{3, 3, 0, 0, 0, 0}, {"x", "w", "b", "y", "mean", "rstd"}},
    [TDMI_OP_RESIDUAL] = {{2, 1, 0, 0, 0, BIT(0) | BIT(1)}, {"a", "b", "y"}},
    [TDMI_OP_GELU] = {{1, 1, 0, 0, 0, BIT(0)}, {"x", "y"}},
    [TDMI_OP_ATTENTION] = {{1, 2, 0, 0, 0, 0}, {"qkv", "y", "lse"}},
    [TDMI_OP_DRAW_MASK] = {{0, 1, 0, 0, 0, 0}, {"mask"}},
    [TDMI_OP_DROPOUT] = {{2, 1, 0, 0, 0, BIT(0)}, {"x", "mask", "y"}},
    [TDMI_OP_CROSS_ENTROPY] = {{2, 2, 0, 0, 0, 0}, {"logits", "targets", "loss", "lse"}},
    [TDMI_OP_CAST] = {{1, 1, 0, 0, 0, 0}, {"x", "y"}},
    [TDMI_OP_EMBEDDING_BACKWARD] = {{2, 2, 0, BIT(0) | BIT(1), BIT(0) | BIT(1), 0},
                                    {"dy", "tokens", "dwte", "dwpe"}},
    [TDMI_OP_LINEAR_BACKWARD_INPUT] = {{2, 1, 0, 0, BIT(0), 0}, {"dy", "w", "dx"}},
    [TDMI_OP_LINEAR_BACKWARD_WEIGHT] = {{2, 2, 0, BIT(1), BIT(0) | BIT(1), 0},
                                        {"dy", "x", "dw", "db"}},
    [TDMI_OP_LAYERNORM_BACKWARD] = {{5, 4, 0, BIT(3), BIT(0) | BIT(1) | BIT(2), 0},
                                    {"dy", "x", "w", "mean", "rstd", "dx", "dw", "db", "narrow"}},
    [TDMI_OP_GELU_BACKWARD] = {{2, 1, 0, 0, 0, BIT(0)}, {"dy", "x", "dx"}},
    [TDMI_OP_ATTENTION_BACKWARD] = {{4, 1, 0, 0, 0, 0}, {"dy", "qkv", "y", "lse", "dqkv"}},
    [TDMI_OP_DROPOUT_BACKWARD] = {{2, 1, 0, 0, 0, BIT(0)}, {"dy", "mask", "dx"}},
    [TDMI_OP_CROSS_ENTROPY_BACKWARD] = {{4, 1, BIT(3), 0, 0, BIT(0)},
                                        {"logits", "targets", "lse", "scale", "dlogits"}},
    [TDMI_OP_ADD] = {{2, 1, 0, 0, 0, BIT(0) | BIT(1)}, {"a", "b", "y"}},
    [TDMI_OP_CUSTOM] = {{4, 1, BIT(1) | BIT(2) | BIT(3), 0, 0, 0}, {"a", "b", "c", "d", "y"}},
    [TDMI_OP_CUSTOM_BACKWARD] = {{6, 4, BIT(3) | BIT(4) | BIT(5), BIT(0) | BIT(1) | BIT(2) | BIT(3), BIT(0) | BIT(1) | BIT(2) | BIT(3), 0},
                                 {"dy", "y", "a", "b", "c", "d", "da", "db", "dc", "dd"}},
    [TDMI_OP_LOSS_SUM] = {{4, 1, BIT(1) | BIT(2) | BIT(3), 0, 0, 0}, {"a", "b", "c", "d", "loss"}},
    [TDMI_OP_LOSS_SUM_BACKWARD] = {{1, 4, BIT(0), BIT(0) | BIT(1) | BIT(2) | BIT(3), 0, 0}, {"scale", "da", "db", "dc", "dd"}},
    [TDMI_OP_LINEAR_GELU] = {{3, 2, BIT(2), 0, 0, 0}, {"x", "w", "b", "y", "z"}},
    [TDMI_OP_RESIDUAL_LAYERNORM] = {{4, 4, 0, 0, 0, BIT(0) | BIT(1)}, {"a", "b", "w", "bias", "y", "z", "mean", "rstd"}},
    [TDMI_OP_LINEAR_BACKWARD_INPUT_GELU] = {{3, 1, 0, 0, 0, 0}, {"dz", "w", "y", "dy"}},
    [TDMI_OP_VERDICT] = {{1, 0, 0, 0, 0, 0}, {"loss"}},
};

/* Ops that stand for a bucket have no operands. */
static const row none;

static const row *row_of(tdmi_op op)
{
    return (unsigned)op < TDMI_OP_COUNT ? &rows[op] : &none;
}

const char *tdmi_op_text(tdmi_op op)
{
    return (unsigned)op < TDMI_OP_COUNT ? names[op] : "unknown";
}

const tdmi_op_info *tdmi_op_info_of(tdmi_op op)
{
    return &row_of(op)->info;
}

static const char *operand(tdmi_op op, int i)
{
    const char *name = i >= 0 && i < MAX_OPERANDS ? row_of(op)->operand[i] : NULL;
    return name != NULL ? name : "";
}

const char *tdmi_op_in_name(tdmi_op op, int i)
{
    return i < row_of(op)->info.in_count ? operand(op, i) : "";
}

const char *tdmi_op_out_name(tdmi_op op, int i)
{
    return i < row_of(op)->info.out_count ? operand(op, row_of(op)->info.in_count + i) : "";
}
