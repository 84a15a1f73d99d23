/* kernels.c - the arithmetic of the optimizers, one pass over memory. Built once per instruction set with KERNELS naming the
 * table. The loops are plain C that the compiler turns into vectors; fmaf stands exactly where PyTorch's kernels fuse, and
 * nothing else is fused (-ffp-contract=off), so every set gives the same bits. */
#include "optim/isa.h"

#include <math.h>
#include <string.h>

/*   g   <- grad_scale g
 *   w   <- w (1 - lr weight_decay)          where the range decays
 *   m   <- m + (1 - beta1) (g - m)
 *   v   <- beta2 v + (1 - beta2) g g
 *   w   <- w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps) */
static void adamw(const tdmi_optimizer_step *s, bool decay, float *restrict w, const float *restrict gradient,
                  float *restrict m, float *restrict v, size_t count)
{
    const float scale = s->grad_scale, shrink = decay ? s->decay_factor : 1, b1 = s->one_minus_beta1, b2 = s->one_minus_beta2;
    const float beta2 = s->beta2, root = s->bias2_sqrt, eps = s->eps, size = s->neg_step_size;
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        float mean = fmaf(b1, g - m[i], m[i]);
        float square = fmaf(b2 * g, g, v[i] * beta2);
        m[i] = mean;
        v[i] = square;
        w[i] = w[i] * shrink + size * mean / (sqrtf(square) / root + eps);
    }
}

/*   g   <- grad_scale g + weight_decay w    the decay where the range decays
 *   buf <- momentum buf + (1 - dampening) g
 *   w   <- w - lr buf,   nesterov: w - lr (g + momentum buf),   without momentum: w - lr g */
static void sgd(const tdmi_optimizer_step *s, bool decay, float *restrict w, const float *restrict gradient,
                float *restrict buffer, size_t count)
{
    const float scale = s->grad_scale, wd = decay ? s->weight_decay : 0, lr = s->neg_lr, momentum = s->momentum, keep = s->keep;
    if (buffer == NULL) {
        for (size_t i = 0; i < count; i++)
            w[i] = fmaf(fmaf(w[i], wd, gradient[i] * scale), lr, w[i]);
        return;
    }
    const float ahead = s->optimizer.nesterov ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        float g = fmaf(w[i], wd, gradient[i] * scale);
        float b = fmaf(g, keep, buffer[i] * momentum);
        buffer[i] = b;
        w[i] = fmaf(ahead != 0 ? fmaf(b, momentum, g) : b, lr, w[i]);
    }
}

/* onebit_adam.h has the formulas. */
static void onebit_momentum(const tdmi_optimizer_step *s, const float *restrict gradient, const float *restrict m,
                            const float *restrict v, float *restrict out, size_t count)
{
    const float scale = s->grad_scale, b1 = s->one_minus_beta1;
    for (size_t i = 0; i < count; i++) {
        const float mean = fmaf(b1, gradient[i] * scale - m[i], m[i]);
        out[i] = v[i] > 0 ? mean : 0;
    }
}

/* What writes waits for lines, and the machine's own prefetching ends at each page: they are asked for 16 KiB ahead. */
enum { AHEAD = 4096, STRIP = 64 };

static inline void ask(const float *at)
{
    for (size_t i = 0; i < STRIP; i += 16)
        __builtin_prefetch(at + AHEAD + i, 0, 2);
}

static inline void take(const float *restrict average, float *restrict m, const float *restrict v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        m[i] = v[i] > 0 ? average[i] : 0;
}

static void onebit_take(const float *restrict average, float *restrict m, const float *restrict v, size_t count)
{
    size_t i = 0;
    for (; i + STRIP <= count; i += STRIP) {
        ask(m + i);
        ask(v + i);
        take(average + i, m + i, v + i, STRIP);
    }
    take(average + i, m + i, v + i, count - i);
}

static inline void update(const tdmi_optimizer_step *s, bool decay, float *restrict w, const float *restrict average,
                          float *restrict m, const float *restrict v, size_t count)
{
    const float shrink = decay ? s->decay_factor : 1, root = s->bias2_sqrt, eps = s->eps, size = s->neg_step_size;
    for (size_t i = 0; i < count; i++) {
        const float mean = v[i] > 0 ? average[i] : 0, step = size * mean / (sqrtf(v[i]) / root + eps);
        m[i] = mean;
        w[i] = w[i] * shrink + (v[i] > 0 ? step : 0);
    }
}

static void onebit_update(const tdmi_optimizer_step *s, bool decay, float *restrict w, const float *restrict average,
                          float *restrict m, const float *restrict v, size_t count)
{
    size_t i = 0;
    for (; i + STRIP <= count; i += STRIP) {
        ask(w + i);
        ask(m + i);
        ask(v + i);
        update(s, decay, w + i, average + i, m + i, v + i, STRIP);
    }
    update(s, decay, w + i, average + i, m + i, v + i, count - i);
}

enum { LANES = 4, SUMS = 4, BLOCK = LANES * SUMS, TILE = 4096 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef float floats __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

/* sum[k] += squares of x[4k..4k+3]. The product of two floats is exact in double: fusing would change nothing here. */
static inline void add_block(lanes sum[SUMS], const float *x)
{
    for (int k = 0; k < SUMS; k++) {
        lanes v = __builtin_convertvector(*(const floats *)(const void *)(x + k * LANES), lanes);
        sum[k] += v * v;
    }
}

/* Sixteen sums, whatever the width of the machine's vectors, so that every instruction set adds in the same order. */
static double squares(const float *values, size_t count)
{
    double total = 0;
    for (size_t first = 0; first < count; first += TILE) {
        const float *x = values + first;
        size_t n = count - first < TILE ? count - first : TILE, i = 0;
        lanes sum[SUMS] = {{0}};
        for (; i + BLOCK <= n; i += BLOCK)
            add_block(sum, x + i);
        float rest[BLOCK] = {0};
        memcpy(rest, x + i, (n - i) * sizeof *rest);
        add_block(sum, rest);
        lanes all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        total += (all[0] + all[1]) + (all[2] + all[3]);
    }
    return total;
}

const tdmi_optim_kernels KERNELS = {.adamw = adamw, .sgd = sgd, .squares = squares, .onebit_momentum = onebit_momentum,
                                    .onebit_take = onebit_take, .onebit_update = onebit_update};
