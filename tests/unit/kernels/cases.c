/* cases.c - see cases.h. */
#include "cases.h"

#include "core/memory.h"
#include "kernels/plain/element.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

float case_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

const tdmi_kernel *case_plain(tdmi_op op)
{
    const tdmi_kernel *const *kernels;
    size_t count = tdmi_kernels_of(op, &kernels);
    assert_int_not_equal(count, 0);
    return kernels[count - 1];
}

static tdmi_shape shape(tdm_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c)
{
    return (tdmi_shape){.dtype = dtype, .ndim = ndim, .dims = {a, b, c}};
}

/* y = a a w, w along the last dimension. */
static void own_forward(void *user, const tdm_own_shapes *s, const float *const *in, float *out)
{
    (void)user;
    for (size_t i = 0; i < s->out.count; i++)
        out[i] = in[0][i] * in[0][i] * in[1][i % s->in[1].count];
}

static void own_backward(void *user, const tdm_own_shapes *s, const float *const *in, const float *out, const float *d_out, float *const *d_in)
{
    (void)user, (void)out;
    for (size_t i = 0; i < s->out.count; i++) {
        d_in[0][i] += 2 * in[0][i] * in[1][i % s->in[1].count] * d_out[i];
        d_in[1][i % s->in[1].count] += in[0][i] * in[0][i] * d_out[i];
    }
}

static const tdm_own_op own_op = {.forward = own_forward, .backward = own_backward};

#define F32(ndim, ...) shape(TDM_F32, ndim, __VA_ARGS__)
#define ABSENT shape(TDM_F32, -1, 0, 0, 0)

static void shapes(tdmi_kernel_io *io, const case_sizes *s)
{
    const int64_t B = s->B, T = s->T, C = s->C, H = s->H, V = s->V, P = s->P, I = s->I, O = s->O;
    const tdm_dtype t = s->type, g = s->gradient;
    const tdmi_shape btc = F32(3, B, T, C), bt = F32(2, B, T, 0), c = F32(1, C, 0, 0), bti_t = shape(t, 3, B, T, I);
    const tdmi_shape bto_t = shape(t, 3, B, T, O), tokens = shape(TDM_I32, 2, B, T, 0), vc = F32(2, V, C, 0), pc = F32(2, P, C, 0);
    const tdmi_shape qkv_t = shape(t, 3, B, T, 3 * C), lse = F32(3, B, H, T), btv_t = shape(t, 3, B, T, V), one = F32(1, 1, 0, 0);
    const tdmi_shape mask = shape(TDM_U8, 3, B, T, C), o = s->no_bias ? ABSENT : F32(1, O, 0, 0), oi_t = shape(t, 2, O, I, 0);
    const tdmi_shape p = s->no_positions ? ABSENT : pc, btc_t = shape(t, 3, B, T, C);
    const tdmi_shape narrow = t == TDM_F32 ? ABSENT : btc_t;
    tdmi_shape vc_g = vc, p_g = p, oi_g = oi_t, o_g = o, c_g = c;
    vc_g.dtype = p_g.dtype = oi_g.dtype = o_g.dtype = c_g.dtype = g;
#define IN(...) memcpy(io->in, ((tdmi_shape[]){__VA_ARGS__}), sizeof((tdmi_shape[]){__VA_ARGS__})), \
    io->in_count = (int)(sizeof((tdmi_shape[]){__VA_ARGS__}) / sizeof(tdmi_shape))
#define OUT(...) memcpy(io->out, ((tdmi_shape[]){__VA_ARGS__}), sizeof((tdmi_shape[]){__VA_ARGS__})), \
    io->out_count = (int)(sizeof((tdmi_shape[]){__VA_ARGS__}) / sizeof(tdmi_shape))
    switch (io->op) {
    case TDMI_OP_EMBEDDING: IN(tokens, vc, p), OUT(btc); break;
    case TDMI_OP_LINEAR: IN(bti_t, oi_t, o), OUT(bto_t); break;
    case TDMI_OP_LAYERNORM: IN(btc, c, c), OUT(btc_t, bt, bt); break;
    case TDMI_OP_RESIDUAL: IN(btc, btc_t), OUT(btc); break;
    case TDMI_OP_ADD: IN(btc_t, btc_t), OUT(btc_t); break;
    case TDMI_OP_GELU: IN(btc_t), OUT(btc_t); break;
    case TDMI_OP_ATTENTION: IN(qkv_t), OUT(btc_t, lse); break;
    case TDMI_OP_DROPOUT:
    case TDMI_OP_DROPOUT_BACKWARD: IN(btc_t, mask), OUT(btc_t); break;
    case TDMI_OP_CROSS_ENTROPY: IN(btv_t, tokens), OUT(one, bt); break;
    case TDMI_OP_CAST: IN(btc), OUT(btc_t); break;
    case TDMI_OP_EMBEDDING_BACKWARD: IN(btc, tokens), OUT(vc_g, p_g); break;
    case TDMI_OP_LINEAR_BACKWARD_INPUT: IN(bto_t, oi_t), OUT(bti_t); break;
    case TDMI_OP_LINEAR_GELU: IN(bti_t, oi_t, o), OUT(bto_t, bto_t); break;
    case TDMI_OP_RESIDUAL_LAYERNORM: IN(btc, btc_t, c, c), OUT(btc, btc_t, bt, bt); break;
    case TDMI_OP_LINEAR_BACKWARD_INPUT_GELU: IN(bto_t, oi_t, bti_t), OUT(bti_t); break;
    case TDMI_OP_LINEAR_BACKWARD_WEIGHT: IN(bto_t, bti_t), OUT(oi_g, o_g); break;
    case TDMI_OP_LAYERNORM_BACKWARD: IN(btc_t, btc, c, bt, bt), OUT(btc, c_g, c_g, narrow); break;
    case TDMI_OP_GELU_BACKWARD: IN(btc_t, btc_t), OUT(btc_t); break;
    case TDMI_OP_ATTENTION_BACKWARD: IN(btc_t, qkv_t, btc_t, lse), OUT(qkv_t); break;
    case TDMI_OP_CROSS_ENTROPY_BACKWARD: IN(btv_t, tokens, bt, one), OUT(btv_t); break;
    case TDMI_OP_CUSTOM: IN(btc, c, ABSENT, ABSENT), OUT(btc); break;
    case TDMI_OP_CUSTOM_BACKWARD: IN(btc, btc, btc, c, ABSENT, ABSENT), OUT(btc, c_g, ABSENT, ABSENT); break;
    case TDMI_OP_LOSS_SUM: IN(one, one, ABSENT, ABSENT), OUT(one); break;
    case TDMI_OP_LOSS_SUM_BACKWARD: IN(one), OUT(one, one, ABSENT, ABSENT); break;
    default: fail_msg("%s is not an op of kernels", tdmi_op_text(io->op));
    }
    io->attr = (tdmi_attr){.own = &own_op, .weight = {0.5f, 2.0f}, .eps = 1e-5f, .heads = (int)H, .p = 0.2f, .micro_batches = s->micro_batches > 0 ? s->micro_batches : 1, .accumulate = s->accumulate};
}

/* Contents by dtype: floats in -spread..spread, tokens below V, masks of 0 and 1. */
static void *filled(const tdmi_shape *shape, const case_sizes *sizes, unsigned *seed)
{
    if (shape->ndim < 0)
        return NULL;
    const size_t count = tdmi_shape_count(shape);
    void *block = tdmi_malloc(tdmi_shape_nbytes(shape), "test tensor");
    assert_non_null(block);
    for (size_t i = 0; i < count; i++) {
        const float r = case_random(seed);
        if (shape->dtype == TDM_F32)
            ((float *)block)[i] = r * (sizes->spread > 0.0f ? sizes->spread : 1.0f);
        else if (shape->dtype == TDM_BF16 || shape->dtype == TDM_F16)
            tdmi_set_element(shape->dtype, block, (int64_t)i, r * (sizes->spread > 0.0f ? sizes->spread : 1.0f));
        else if (shape->dtype == TDM_I32)
            ((int32_t *)block)[i] = (int32_t)((r + 1.0f) * 0.499f * (float)sizes->V);
        else
            ((uint8_t *)block)[i] = r > -0.6f;
    }
    return block;
}

/* Runs the plain forward op on some inputs of a backward node, to make others of its inputs. */
static void run_forward(node_case *c, tdmi_op op, const case_sizes *sizes, const int *from, const int *to)
{
    node_case f = {.io = {.op = op}};
    shapes(&f.io, sizes);
    for (int i = 0; i < f.io.in_count; i++)
        f.in[i] = from[i] >= 0 ? c->in[from[i]] : NULL;
    float *bias = tdmi_calloc((size_t)sizes->C, sizeof *bias, "test tensor");
    float *unused = tdmi_malloc((size_t)(sizes->B * sizes->T * (sizes->C + 1)) * sizeof *unused, "test tensor");
    if (op == TDMI_OP_LAYERNORM)
        f.in[2] = bias;
    for (int i = 0; i < f.io.out_count; i++)
        f.out[i] = to[i] >= 0 ? c->in[to[i]] : unused;
    case_run(&f, case_plain(op));
    tdmi_free(bias);
    tdmi_free(unused);
}

void case_create(node_case *c, tdmi_op op, const case_sizes *sizes, unsigned seed)
{
    *c = (node_case){.io = {.op = op}};
    shapes(&c->io, sizes);
    for (int i = 0; i < c->io.in_count; i++)
        c->in[i] = filled(&c->io.in[i], sizes, &seed);
    for (int i = 0; i < c->io.out_count; i++)
        c->out[i] = filled(&c->io.out[i], sizes, &seed);
    const bool has_targets = op == TDMI_OP_CROSS_ENTROPY || op == TDMI_OP_CROSS_ENTROPY_BACKWARD;
    for (int64_t n = 1; sizes->ignored && has_targets && n < sizes->B * sizes->T; n += 3)
        ((int32_t *)c->in[1])[n] = -1;
    if (op == TDMI_OP_LAYERNORM_BACKWARD)
        run_forward(c, TDMI_OP_LAYERNORM, sizes, (int[]){1, 2, -1}, (int[]){-1, 3, 4});
    if (op == TDMI_OP_ATTENTION_BACKWARD)
        run_forward(c, TDMI_OP_ATTENTION, sizes, (int[]){1}, (int[]){2, 3});
    if (op == TDMI_OP_CROSS_ENTROPY_BACKWARD)
        *(float *)c->in[3] = sizes->spread > 0.0f ? sizes->spread : 1.0f;
    if (op == TDMI_OP_CROSS_ENTROPY_BACKWARD)
        run_forward(c, TDMI_OP_CROSS_ENTROPY, sizes, (int[]){0, 1}, (int[]){-1, 2});
}

void case_destroy(node_case *c)
{
    for (int i = 0; i < TDMI_NODE_IN_MAX; i++)
        tdmi_free(c->in[i]);
    for (int i = 0; i < TDMI_NODE_OUT_MAX; i++)
        tdmi_free(c->out[i]);
    *c = (node_case){0};
}

void case_run(node_case *c, const tdmi_kernel *kernel)
{
    tdmi_bound_kernel bound = {.kernel = kernel, .io = c->io};
    if (kernel->prepare != NULL)
        assert_int_equal(kernel->prepare(&bound.io, &bound.state, &bound.workspace_nbytes), TDM_OK);
    void *workspace = tdmi_malloc(bound.workspace_nbytes, "test workspace");
    assert_non_null(workspace);
    tdmi_kernel_run(&bound, (const void *const *)c->in, c->out, workspace);
    tdmi_free(workspace);
    tdmi_kernel_unbind(&bound);
}
