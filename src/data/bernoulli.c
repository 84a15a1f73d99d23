/* bernoulli.c - zeros and ones of probability p, for dropout masks, in both of PyTorch's ways.
 * MCG31m1: L'Ecuyer, Math. Comp. 68, 1999, doi:10.1090/S0025-5718-99-00996-5. */
#include "data/rng.h"

#include <math.h>

enum { CHUNK = 1024, LANES = 8 };
static const uint64_t mcg_modulus = 0x7fffffff, mcg_factor = 1132489760;

/* One 64-bit draw an element, 53 bits of it against p. */
static void plain(tdmi_rng *rng, uint8_t *out, size_t count, double p)
{
    const uint64_t limit = (uint64_t)ceil(p * 0x1p53); /* exact: a whole number is below p 2^53 if it is below its ceiling */
    uint32_t draws[2 * CHUNK];
    for (size_t done = 0; done < count; done += CHUNK) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        tdmi_rng_fill(rng, draws, 2 * n);
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = ((uint64_t)draws[2 * i] << 32 | draws[2 * i + 1]) & (((uint64_t)1 << 53) - 1);
            out[done + i] = bits < limit;
        }
    }
}

static inline uint64_t mcg_multiply(uint64_t a, uint64_t b)
{
    uint64_t product = a * b; /* both below 2^31 */
    uint64_t folded = (product & mcg_modulus) + (product >> 31);
    return folded >= mcg_modulus ? folded - mcg_modulus : folded;
}

/* The smallest x for which x / modulus < p does not hold: comparing with it is the same as dividing each time. */
static uint64_t mcg_limit(double p)
{
    uint64_t low = 0, high = mcg_modulus;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if ((double)middle / (double)mcg_modulus < p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One 32-bit draw seeds x; element i is x factor^i. Eight lanes walk in strides of eight. */
static void mkl(tdmi_rng *rng, uint8_t *out, size_t count, double p)
{
    if (count == 0)
        return;
    const uint64_t limit = mcg_limit(p);
    uint64_t x[LANES], stride = 1;
    x[0] = tdmi_rng_u32(rng) % mcg_modulus;
    if (x[0] == 0)
        x[0] = 1;
    for (int lane = 1; lane < LANES; lane++)
        x[lane] = mcg_multiply(x[lane - 1], mcg_factor);
    for (int lane = 0; lane < LANES; lane++)
        stride = mcg_multiply(stride, mcg_factor);
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            out[i + (size_t)lane] = x[lane] < limit;
            x[lane] = mcg_multiply(x[lane], stride);
        }
    for (int lane = 0; i < count; i++, lane++)
        out[i] = x[lane] < limit;
}

void tdmi_rng_bernoulli(tdmi_rng *rng, uint8_t *out, size_t count, double p)
{
    if (rng->dropout == TDMI_RNG_DROPOUT_MKL)
        mkl(rng, out, count, p);
    else
        plain(rng, out, count, p);
}
