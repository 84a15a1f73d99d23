/* elementwise.c - residual, add, gelu, dropout: one pass over memory, in place or not.
 *   gelu(x) = x s, s = 1 / (1 + exp(-2u)) = (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)
 *   gelu'(x) = s + 2 x s (1 - s) u' */
#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

#include "kernels/shapes.h"
#include "kernels/threads.h"

#define TILE 16384 /* elements */
#define SQRT_2_OVER_PI 0.79788456080286535588f
#define CUBE 0.044715f

typedef struct {
    const float *a, *b;
    const uint8_t *mask;
    float *y, scale;
    int64_t count;
} operands;

typedef uint8_t bytes __attribute__((vector_size(LANES)));

INLINE vf sum(const operands *o, vf a, vf b, vi mask)
{
    (void)o, (void)mask;
    return a + b;
}

INLINE vf sigmoid_of_2u(vf x)
{
    const vf u = x * (x * x * CUBE + 1.0f);
    return 1.0f / (exponential(u * (-2.0f * SQRT_2_OVER_PI)) + 1.0f);
}

INLINE vf gelu(const operands *o, vf x, vf b, vi mask)
{
    (void)o, (void)b, (void)mask;
    return x * sigmoid_of_2u(x);
}

INLINE vf gelu_backward(const operands *o, vf dy, vf x, vi mask)
{
    (void)o, (void)mask;
    const vf s = sigmoid_of_2u(x), du = x * x * (3.0f * CUBE * SQRT_2_OVER_PI) + SQRT_2_OVER_PI;
    return dy * (s + 2.0f * x * (s * (1.0f - s)) * du);
}

INLINE vf dropout(const operands *o, vf x, vf b, vi mask)
{
    (void)b;
    return as_float(as_int(x * o->scale) & (mask != 0));
}

/* f over one tile; what f does not use is not read. */
INLINE void over_tile(const operands *o, int64_t tile, vf (*f)(const operands *, vf, vf, vi), bool b_used, bool mask_used)
{
    const int64_t from = tile * TILE, to = least(from + TILE, o->count);
    const float *a = o->a, *b = o->b;
    float *y = o->y;
    int64_t i = from;
    for (; i + LANES <= to; i += LANES) {
        bytes mask = {0};
        if (mask_used)
            memcpy(&mask, o->mask + i, sizeof mask);
        store(y + i, f(o, load(a + i), b_used ? load(b + i) : (vf){0}, __builtin_convertvector(mask, vi)));
    }
    if (i < to) {
        bytes mask = {0};
        if (mask_used)
            memcpy(&mask, o->mask + i, (size_t)(to - i));
        const vf last = b_used ? load_part(b + i, to - i, 0.0f) : (vf){0};
        store_part(y + i, f(o, load_part(a + i, to - i, 0.0f), last, __builtin_convertvector(mask, vi)), to - i);
    }
}

/* One kernel: its tile and its run; in[0] is a, in[1] is b or the mask. */
#define KERNEL(kernel, f, OP, b_used, mask_used)                                                                       \
    static void kernel##_tile(void *arg, int64_t tile, int worker)                                                     \
    {                                                                                                                  \
        (void)worker;                                                                                                  \
        over_tile(arg, tile, f, b_used, mask_used);                                                                    \
    }                                                                                                                  \
    static void kernel##_run(const void *state, const tdmi_kernel_io *io, const void *const *in, void *const *out,     \
                             void *workspace)                                                                          \
    {                                                                                                                  \
        (void)state, (void)workspace;                                                                                  \
        operands o = {.a = in[0], .y = out[0], .count = (int64_t)tdmi_shape_count(&io->in[0])};                        \
        if (mask_used)                                                                                                 \
            o.mask = in[1], o.scale = tdmi_dropout_scale(io->attr.p);                                                  \
        else if (b_used)                                                                                               \
            o.b = in[1];                                                                                               \
        tdmi_kernels_tiles((o.count + TILE - 1) / TILE, kernel##_tile, &o);                                            \
    }                                                                                                                  \
    const tdmi_kernel SIMD_NAME(kernel) = {                                                                            \
        .name = SIMD_LABEL(#kernel), .op = TDMI_OP_##OP, .isa = SIMD_NEEDS, .run = kernel##_run};

KERNEL(residual, sum, RESIDUAL, true, false)
KERNEL(add, sum, ADD, true, false)
KERNEL(gelu, gelu, GELU, false, false)
KERNEL(gelu_backward, gelu_backward, GELU_BACKWARD, true, false)
KERNEL(dropout, dropout, DROPOUT, false, true)
KERNEL(dropout_backward, dropout, DROPOUT_BACKWARD, false, true)
