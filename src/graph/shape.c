/* shape.c - sizes of shapes, and the rule of each op on the shapes of its operands. Builders and verify ask the same rule. */
#include "graph/op.h"

#include <string.h>

#define NBYTES_MAX ((size_t)1 << 48) /* so that sums over a graph do not overflow */

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

const char *tdmi_shape_fault(const tdmi_shape *shape)
{
    size_t nbytes = tdm_dtype_size(shape->dtype);
    if (nbytes == 0)
        return "its dtype does not exist";
    if (shape->ndim < 0 || shape->ndim > TDMI_DIMS_MAX)
        return "it must have 0 to 4 dimensions";
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dims[i] < 1)
            return "each dimension must be 1 or more";
        if ((uint64_t)shape->dims[i] > NBYTES_MAX / nbytes)
            return "it is larger than 256 TiB";
        nbytes *= (size_t)shape->dims[i];
    }
    return NULL;
}

bool tdmi_shape_equal(const tdmi_shape *a, const tdmi_shape *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof a->dims[0]) == 0;
}

/* The rules below speak in these words; an absent operand obeys all of them. */
static bool is_real(const tdmi_shape *s) /* the t of op.h */
{
    return s == NULL || s->dtype == TDM_F32 || s->dtype == TDM_BF16 || s->dtype == TDM_F16;
}

static bool is_vector(const tdmi_shape *s, int64_t n, tdm_dtype dtype)
{
    return s == NULL || (s->dtype == dtype && s->ndim == 1 && s->dims[0] == n);
}

static bool is_matrix(const tdmi_shape *s, int64_t rows, int64_t columns, tdm_dtype dtype) /* rows -1: any */
{
    return s == NULL || (s->dtype == dtype && s->ndim == 2 && (rows < 0 || s->dims[0] == rows) && s->dims[1] == columns);
}

static bool is_rows(const tdmi_shape *s) /* of a real type, with at least one row of at least one column */
{
    return is_real(s) && s->ndim >= 2;
}

static int64_t columns(const tdmi_shape *s)
{
    return s->ndim > 0 ? s->dims[s->ndim - 1] : 1;
}

/* `s` has the leading dimensions of `x`, then one of n; n 0: no last dimension. */
static bool has_rows_of(const tdmi_shape *s, const tdmi_shape *x, int64_t n, tdm_dtype dtype)
{
    if (s->dtype != dtype || s->ndim != x->ndim - (n == 0) || (n != 0 && columns(s) != n))
        return false;
    return memcmp(s->dims, x->dims, (size_t)(x->ndim - 1) * sizeof s->dims[0]) == 0;
}

static bool same_dims(const tdmi_shape *a, const tdmi_shape *b)
{
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof a->dims[0]) == 0;
}

/* The type of those that are there; they must have one. F32 where none is. */
static tdm_dtype type_of_gradients(const tdmi_shape *a, const tdmi_shape *b)
{
    return a != NULL ? a->dtype : b != NULL ? b->dtype : TDM_F32;
}

/* wte and wpe: the parameters, or their gradients of type g. */
static const char *embedding(const tdmi_shape *y, const tdmi_shape *tokens, const tdmi_shape *wte, const tdmi_shape *wpe, tdm_dtype g)
{
    if (tokens->dtype != TDM_I32 || tokens->ndim != 2)
        return "tokens must be int32 [B,T]";
    if (y->dtype != TDM_F32 || y->ndim != 3 || y->dims[0] != tokens->dims[0] || y->dims[1] != tokens->dims[1])
        return "the output must be float32 [B,T,C]";
    if (!is_real(wte) || !is_matrix(wte, -1, columns(y), g))
        return "wte must be float32 [V,C]";
    if (!is_real(wpe) || !is_matrix(wpe, -1, columns(y), g))
        return "wpe must be float32 [P,C]";
    if (wpe != NULL && wpe->dims[0] < tokens->dims[1])
        return "wpe must have at least T rows (positions)";
    return NULL;
}

/* w and b of the types given: the weight and bias, or their gradients. */
static const char *linear(const tdmi_shape *y, const tdmi_shape *x, const tdmi_shape *w, const tdmi_shape *b, tdm_dtype w_type,
                          tdm_dtype b_type)
{
    if (!is_rows(x) || !is_rows(y))
        return "x and y must be float32, bfloat16 or float16 with at least 2 dimensions";
    if (!is_real(w) || !is_matrix(w, columns(y), columns(x), w_type))
        return "w must be [O,I] of x's type, with I the last dimension of x and O that of y";
    if (!is_real(b) || !is_vector(b, columns(y), b_type))
        return "b must be float32 [O]";
    if (!has_rows_of(y, x, columns(y), x->dtype))
        return "y must have the rows and the type of x";
    return NULL;
}

static const char *layernorm(const tdmi_shape *y, const tdmi_shape *x, const tdmi_shape *w, const tdmi_shape *b,
                             const tdmi_shape *mean, const tdmi_shape *rstd)
{
    if (!is_rows(x) || x->dtype != TDM_F32 || !is_real(y) || !same_dims(x, y))
        return "x must be float32 with at least 2 dimensions, y of its shape";
    if (!is_vector(w, columns(x), TDM_F32) || !is_vector(b, columns(x), TDM_F32))
        return "w and b must be float32 [C], with C the last dimension of x";
    if (!has_rows_of(mean, x, 0, TDM_F32) || !has_rows_of(rstd, x, 0, TDM_F32))
        return "mean and rstd must be float32, one value a row of x";
    return NULL;
}

static const char *attention(const tdmi_shape *y, const tdmi_shape *qkv, const tdmi_shape *lse, int heads)
{
    if (!is_real(y) || y->ndim != 3)
        return "y must be float32, bfloat16 or float16 [B,T,C]";
    if (heads < 1 || columns(y) % heads != 0)
        return "the width C must be divisible by the number of heads";
    if (!has_rows_of(qkv, y, 3 * columns(y), y->dtype))
        return "qkv must be [B,T,3C] of y's type";
    if (lse->dtype != TDM_F32 || lse->ndim != 3 || lse->dims[0] != y->dims[0] || lse->dims[1] != heads ||
        lse->dims[2] != y->dims[1])
        return "lse must be float32 [B,H,T]";
    return NULL;
}

static const char *elementwise(const tdmi_shape *a, const tdmi_shape *b, const tdmi_shape *y)
{
    if (!is_real(a) || !tdmi_shape_equal(a, y) || (b != NULL && !tdmi_shape_equal(a, b)))
        return "all operands must be float32, bfloat16 or float16 of one type and shape";
    return NULL;
}

static const char *residual(const tdmi_shape *a, const tdmi_shape *b, const tdmi_shape *y)
{
    if (!is_real(a) || !is_real(b) || !tdmi_shape_equal(a, y) || !same_dims(a, b) || (a->dtype != TDM_F32 && a->dtype != b->dtype))
        return "y must have a's type and all operands one shape; b's type is a's, or a is float32";
    return NULL;
}

static const char *cast(const tdmi_shape *x, const tdmi_shape *y)
{
    if (!is_real(x) || !is_real(y) || !same_dims(x, y) || (x->dtype == TDM_F32) == (y->dtype == TDM_F32))
        return "x and y must have one shape; one of them is float32, the other bfloat16 or float16";
    return NULL;
}

static const char *layernorm_backward(const tdmi_shape *const *in, const tdmi_shape *const *out)
{
    const tdm_dtype g = type_of_gradients(out[1], out[2]);
    if (!tdmi_shape_equal(in[1], out[0]) || !is_real(out[1]) || !is_real(out[2]) || !is_vector(out[1], columns(in[1]), g) ||
        !is_vector(out[2], columns(in[1]), g))
        return "dx must have x's shape, dw and db w's";
    if (out[3] != NULL && cast(out[0], out[3]) != NULL)
        return "dx in another type must have its shape and be bfloat16 or float16";
    return layernorm(in[0], in[1], in[2], NULL, in[3], in[4]);
}

static const char *dropout(const tdmi_shape *x, const tdmi_shape *mask, const tdmi_shape *y, float p)
{
    tdmi_shape as_mask = *x;
    as_mask.dtype = TDM_U8;
    if (!(p > 0 && p < 1))
        return "p must lie between 0 and 1";
    if (!tdmi_shape_equal(mask, &as_mask))
        return "the mask must be uint8 of x's shape";
    return elementwise(x, NULL, y);
}

static const char *cross_entropy(const tdmi_shape *logits, const tdmi_shape *targets, const tdmi_shape *lse, int micro_batches)
{
    if (micro_batches < 1)
        return "a step has at least one micro-batch";
    if (!is_rows(logits))
        return "logits must be float32, bfloat16 or float16 with at least 2 dimensions";
    if (!has_rows_of(targets, logits, 0, TDM_I32))
        return "targets must be int32, one a row of logits";
    if (!has_rows_of(lse, logits, 0, TDM_F32))
        return "lse must be float32, one value a row of logits";
    return NULL;
}

/* in, out: of the op itself; d_out: what its backward gives, or NULL. */
static const char *custom(const tdmi_attr *attr, const tdmi_shape *const *in, const tdmi_shape *out, const tdmi_shape *const *d_out)
{
    if (attr->own == NULL || attr->own->forward == NULL || attr->own->backward == NULL)
        return "its forward and backward functions must be given";
    if (out->dtype != TDM_F32)
        return "its output must be float32";
    for (int k = 0; k < TDM_OWN_OP_INPUTS; k++) {
        if (in[k] != NULL && in[k]->dtype != TDM_F32)
            return "its inputs must be float32";
        if (d_out != NULL && d_out[k] != NULL && (in[k] == NULL || !is_real(d_out[k]) || !same_dims(d_out[k], in[k])))
            return "each gradient must have its input's shape";
    }
    return NULL;
}

static const char *loss_sum(const tdmi_attr *attr, const tdmi_shape *loss, const tdmi_shape *const *parts)
{
    for (int k = 0; k < TDMI_LOSSES_MAX; k++)
        if (!is_vector(parts[k], 1, TDM_F32) || (parts[k] != NULL && !(attr->weight[k] > 0)))
            return "each part must be float32 [1], with a weight above 0";
    return is_vector(loss, 1, TDM_F32) ? NULL : "the loss or its scale must be float32 [1]";
}

const char *tdmi_op_fault(tdmi_op op, const tdmi_attr *attr, const tdmi_shape *const *in, const tdmi_shape *const *out)
{
    const tdmi_op_info *info = tdmi_op_info_of(op);
    for (int i = 0; i < info->in_count; i++) {
        if (in[i] == NULL && (info->optional_in >> i & 1u) == 0)
            return "an input is missing";
        if (in[i] != NULL && tdmi_shape_fault(in[i]) != NULL)
            return tdmi_shape_fault(in[i]);
    }
    for (int i = 0; i < info->out_count; i++) {
        if (out[i] == NULL && (info->optional_out >> i & 1u) == 0)
            return "an output is missing";
        if (out[i] != NULL && tdmi_shape_fault(out[i]) != NULL)
            return tdmi_shape_fault(out[i]);
    }
    if ((attr->accumulate & ~info->accumulates) != 0)
        return "it cannot add to this output";
    switch (op) {
    case TDMI_OP_EMBEDDING: return embedding(out[0], in[0], in[1], in[2], TDM_F32);
    case TDMI_OP_LINEAR: return linear(out[0], in[0], in[1], in[2], in[0]->dtype, TDM_F32);
    case TDMI_OP_LAYERNORM:
        if (!(attr->eps > 0))
            return "eps must be positive";
        return layernorm(out[0], in[0], in[1], in[2], out[1], out[2]);
    case TDMI_OP_RESIDUAL: return residual(in[0], in[1], out[0]);
    case TDMI_OP_CAST: return cast(in[0], out[0]);
    case TDMI_OP_ADD:
    case TDMI_OP_GELU_BACKWARD: return elementwise(in[0], in[1], out[0]);
    case TDMI_OP_GELU: return elementwise(in[0], NULL, out[0]);
    case TDMI_OP_ATTENTION: return attention(out[0], in[0], out[1], attr->heads);
    case TDMI_OP_DRAW_MASK:
        if (!(attr->p > 0 && attr->p < 1))
            return "p must lie between 0 and 1";
        return out[0]->dtype == TDM_U8 ? NULL : "the mask must be uint8";
    case TDMI_OP_DROPOUT:
    case TDMI_OP_DROPOUT_BACKWARD: return dropout(in[0], in[1], out[0], attr->p);
    case TDMI_OP_CROSS_ENTROPY:
        if (!is_vector(out[0], 1, TDM_F32))
            return "the loss must be float32 [1]";
        return cross_entropy(in[0], in[1], out[1], attr->micro_batches);
    case TDMI_OP_EMBEDDING_BACKWARD: return embedding(in[0], in[1], out[0], out[1], type_of_gradients(out[0], out[1]));
    case TDMI_OP_LINEAR_BACKWARD_INPUT: return linear(in[0], out[0], in[1], NULL, in[0]->dtype, TDM_F32);
    case TDMI_OP_LINEAR_BACKWARD_WEIGHT: return linear(in[0], in[1], out[0], out[1], out[0]->dtype, out[0]->dtype);
    case TDMI_OP_LAYERNORM_BACKWARD: return layernorm_backward(in, out);
    case TDMI_OP_ATTENTION_BACKWARD:
        if (!tdmi_shape_equal(in[0], in[2]) || !tdmi_shape_equal(in[1], out[0]))
            return "dy must have y's shape, dqkv qkv's";
        return attention(in[2], in[1], in[3], attr->heads);
    case TDMI_OP_CROSS_ENTROPY_BACKWARD:
        if (!tdmi_shape_equal(in[0], out[0]))
            return "dlogits must have logits' shape and type";
        if (!is_vector(in[3], 1, TDM_F32))
            return "the scale must be float32 [1]";
        return cross_entropy(in[0], in[1], in[2], attr->micro_batches);
    case TDMI_OP_LINEAR_GELU:
        return tdmi_shape_equal(out[0], out[1]) ? linear(out[0], in[0], in[1], in[2], in[0]->dtype, TDM_F32)
                                                : "z must have y's shape and type";
    case TDMI_OP_RESIDUAL_LAYERNORM:
        if (!(attr->eps > 0) || residual(in[0], in[1], out[0]) != NULL)
            return "y must have the shape of a and b and be float32, eps positive";
        return layernorm(out[1], out[0], in[2], in[3], out[2], out[3]);
    case TDMI_OP_LINEAR_BACKWARD_INPUT_GELU:
        return tdmi_shape_equal(in[2], out[0]) ? linear(in[0], out[0], in[1], NULL, in[0]->dtype, TDM_F32)
                                               : "dy must have y's shape and type";
    case TDMI_OP_CUSTOM: return custom(attr, in, out[0], NULL);
    case TDMI_OP_CUSTOM_BACKWARD:
        return tdmi_shape_equal(in[0], in[1]) ? custom(attr, in + 2, in[1], out) : "dy must have y's shape";
    case TDMI_OP_LOSS_SUM: return loss_sum(attr, out[0], in);
    case TDMI_OP_LOSS_SUM_BACKWARD: return loss_sum(attr, in[0], out);
    case TDMI_OP_VERDICT: return is_vector(in[0], 1, TDM_F32) ? NULL : "the loss must be float32 [1]";
    case TDMI_OP_BUCKET_START:
    case TDMI_OP_BUCKET_WAIT:
    case TDMI_OP_UPDATE:
    case TDMI_OP_PARAMETERS_READY:
    case TDMI_OP_GATHER_START:
    case TDMI_OP_GATHER_WAIT:
    case TDMI_OP_RELEASE: return NULL;
    case TDMI_OP_COUNT: break;
    }
    return "the op does not exist";
}
