/* elementwise.c - residual, add, gelu, dropout, cast: one pass over memory, in place or not.
 *   gelu(x) = x s, s = 1 / (1 + exp(-2u)) = (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3); exp(-2u) is made as a power of 2
 *   gelu'(x) = s + 2 x s (1 - s) u' */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define TILE 16384 /* elements */
#define SQRT_2_OVER_PI 0.79788456080286535588f
#define CUBE 0.044715f

typedef struct {
    const void *a, *b; /* of the type of the node, but a residual's a and y may be float32, and a cast's x or y is */
    const uint8_t *mask;
    void *y;
    float scale;
    int64_t count;
    tdm_dtype a_type, b_type, y_type;
} operands;

typedef uint8_t bytes __attribute__((vector_size(LANES)));

INLINE vf sum(const operands *o, vf a, vf b, vi mask)
{
    (void)o, (void)mask;
    return a + b;
}

INLINE vf same(const operands *o, vf a, vf b, vi mask)
{
    (void)o, (void)b, (void)mask;
    return a;
}

/* 1 / s */
INLINE vf one_and_exponential(vf x)
{
    const float linear = -2.0f * SQRT_2_OVER_PI * LOG2_E;
    return power_of_2(x * (x * x * (linear * CUBE) + linear)) + 1.0f;
}

INLINE vf gelu(const operands *o, vf x, vf b, vi mask)
{
    (void)o, (void)b, (void)mask;
    return x / one_and_exponential(x);
}

INLINE vf gelu_backward(const operands *o, vf dy, vf x, vi mask)
{
    (void)o, (void)mask;
    const vf s = 1.0f / one_and_exponential(x), du = x * x * (3.0f * CUBE * SQRT_2_OVER_PI) + SQRT_2_OVER_PI;
    return dy * (s + 2.0f * x * (s * (1.0f - s)) * du);
}

INLINE vf dropout(const operands *o, vf x, vf b, vi mask)
{
    (void)b;
    return as_float(as_int(x * o->scale) & (mask != 0));
}

/* f over one tile; what f does not use is not read. The types are constants here. */
INLINE void over_tile(const operands *o, int64_t tile, vf (*f)(const operands *, vf, vf, vi), bool b_used, bool mask_used,
                      tdm_dtype a_type, tdm_dtype b_type, tdm_dtype y_type)
{
    const int64_t from = tile * TILE, to = least(from + TILE, o->count);
    int64_t i = from;
    for (; i + LANES <= to; i += LANES) {
        bytes mask = {0};
        if (mask_used)
            memcpy(&mask, o->mask + i, sizeof mask);
        store_as(y_type, o->y, i, f(o, load_as(a_type, o->a, i), b_used ? load_as(b_type, o->b, i) : (vf){0},
                                    __builtin_convertvector(mask, vi)));
    }
    if (i < to) {
        bytes mask = {0};
        if (mask_used)
            memcpy(&mask, o->mask + i, (size_t)(to - i));
        const vf last = b_used ? load_part_as(b_type, o->b, i, to - i, 0.0f) : (vf){0};
        store_part_as(y_type, o->y, i, f(o, load_part_as(a_type, o->a, i, to - i, 0.0f), last, __builtin_convertvector(mask, vi)),
                      to - i);
    }
}

/* Rows of a matrix, `row` elements apart from element `at` on. */
void SIMD_NAME(gelu_block)(tdm_dtype type, const void *y, void *z, int64_t at, int64_t row, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, at += row) {
#define ROW(T)                                                                                                         \
    for (int64_t i = at, end = at + columns; i < end; i += LANES)                                                      \
    put_as(T, z, i, end, gelu(NULL, part_as(T, y, i, end), (vf){0}, (vi){0}))
        FOR_TYPE(type, ROW);
#undef ROW
    }
}

void SIMD_NAME(gelu_backward_block)(tdm_dtype type, const void *y, void *dz, int64_t at, int64_t row, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, at += row) {
#define ROW(T)                                                                                                         \
    for (int64_t i = at, end = at + columns; i < end; i += LANES)                                                      \
    put_as(T, dz, i, end, gelu_backward(NULL, part_as(T, dz, i, end), part_as(T, y, i, end), (vi){0}))
        FOR_TYPE(type, ROW);
#undef ROW
    }
}

/* One kernel: its tile and its run; in[0] is a, in[1] is b or the mask. All operands have the type of in[0]. */
#define KERNEL(kernel, f, OP, b_used, mask_used)                                                                       \
    static void kernel##_tile(void *arg, int64_t tile, int worker)                                                     \
    {                                                                                                                  \
        const operands *o = arg;                                                                                       \
        (void)worker;                                                                                                  \
        TILES_OF_##OP(o, tile, f, b_used, mask_used);                                                                  \
    }                                                                                                                  \
    static void kernel##_run(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,     \
                             void *workspace)                                                                          \
    {                                                                                                                  \
        (void)state, (void)workspace;                                                                                  \
        operands o = {.a = in[0], .y = out[0], .count = (int64_t)tdmi_shape_count(&io->in[0]),                         \
                      .a_type = io->in[0].dtype, .b_type = b_used ? io->in[1].dtype : io->in[0].dtype,                 \
                      .y_type = io->out[0].dtype};                                                                     \
        if (mask_used)                                                                                                 \
            o.mask = in[1], o.scale = tdmi_dropout_scale(io->attr.p);                                                  \
        else if (b_used)                                                                                               \
            o.b = in[1];                                                                                               \
        tdmi_kernels_tiles((o.count + TILE - 1) / TILE, kernel##_tile, &o);                                            \
    }                                                                                                                  \
    const tdmi_kernel SIMD_NAME(kernel) = {                                                                            \
        .name = SIMD_LABEL(#kernel), .op = TDMI_OP_##OP, .isa = SIMD_NEEDS, .run = kernel##_run};

/* Which types the operands of an op may have. */
#define ONE_TYPE(o, tile, f, b_used, mask_used)                                                                        \
    do {                                                                                                               \
        if ((o)->a_type == TDM_BF16)                                                                                   \
            over_tile(o, tile, f, b_used, mask_used, TDM_BF16, TDM_BF16, TDM_BF16);                                    \
        else if ((o)->a_type == TDM_F16)                                                                               \
            over_tile(o, tile, f, b_used, mask_used, TDM_F16, TDM_F16, TDM_F16);                                       \
        else                                                                                                           \
            over_tile(o, tile, f, b_used, mask_used, TDM_F32, TDM_F32, TDM_F32);                                       \
    } while (0)
#define TILES_OF_ADD ONE_TYPE
#define TILES_OF_GELU ONE_TYPE
#define TILES_OF_GELU_BACKWARD ONE_TYPE
#define TILES_OF_DROPOUT ONE_TYPE
#define TILES_OF_DROPOUT_BACKWARD ONE_TYPE
#define TILES_OF_RESIDUAL(o, tile, f, b_used, mask_used)                                                               \
    do {                                                                                                               \
        if ((o)->a_type != TDM_F32 || (o)->b_type == TDM_F32)                                                          \
            ONE_TYPE(o, tile, f, b_used, mask_used);                                                                   \
        else if ((o)->b_type == TDM_BF16)                                                                              \
            over_tile(o, tile, f, b_used, mask_used, TDM_F32, TDM_BF16, TDM_F32);                                      \
        else                                                                                                           \
            over_tile(o, tile, f, b_used, mask_used, TDM_F32, TDM_F16, TDM_F32);                                       \
    } while (0)
#define TILES_OF_CAST(o, tile, f, b_used, mask_used)                                                                   \
    do {                                                                                                               \
        if ((o)->y_type == TDM_BF16)                                                                                   \
            over_tile(o, tile, f, b_used, mask_used, TDM_F32, TDM_F32, TDM_BF16);                                      \
        else if ((o)->y_type == TDM_F16)                                                                               \
            over_tile(o, tile, f, b_used, mask_used, TDM_F32, TDM_F32, TDM_F16);                                       \
        else if ((o)->a_type == TDM_BF16)                                                                              \
            over_tile(o, tile, f, b_used, mask_used, TDM_BF16, TDM_F32, TDM_F32);                                      \
        else                                                                                                           \
            over_tile(o, tile, f, b_used, mask_used, TDM_F16, TDM_F32, TDM_F32);                                       \
    } while (0)

KERNEL(residual, sum, RESIDUAL, true, false)
KERNEL(add, sum, ADD, true, false)
KERNEL(gelu, gelu, GELU, false, false)
KERNEL(gelu_backward, gelu_backward, GELU_BACKWARD, true, false)
KERNEL(dropout, dropout, DROPOUT, false, true)
KERNEL(dropout_backward, dropout, DROPOUT_BACKWARD, false, true)
KERNEL(cast, same, CAST, false, false)
