/* rng.h - PyTorch's CPU random numbers, bit for bit: the same seed gives the same weights, order and dropout masks.
 *
 * The engine is mt19937, seeded with the low 32 bits of the seed. PyTorch's values depend on how it was compiled, so a
 * generator carries two variants: TANDEM_RNG says which code drew uniform and normal numbers (avx2: CPUs with AVX2 and FMA,
 * AVX-512 ones included; default: the baseline code), TANDEM_DROPOUT_RNG which one drew Bernoulli numbers (plain: one
 * 64-bit draw an element; mkl: one draw seeds the generator MCG31m1). PyTorch 2.13's own wheels draw the plain way on
 * every CPU, Intel with MKL included, so that is what auto means. Every draw is float32, contiguous, one thread.
 *
 * Where `out` may be NULL the call draws as many numbers and keeps none: how initial values that will be overwritten are
 * skipped at the cost of moving the state (about 0.2 ns a number). */
#ifndef TDMI_DATA_RNG_H
#define TDMI_DATA_RNG_H

#include "core/error.h"

#define TDMI_RNG_WORDS 624
#define TDMI_RNG_STATE_BYTES (16 + 4 * TDMI_RNG_WORDS)

typedef enum { TDMI_RNG_AVX2, TDMI_RNG_DEFAULT } tdmi_rng_variant;
typedef enum { TDMI_RNG_DROPOUT_PLAIN, TDMI_RNG_DROPOUT_MKL } tdmi_rng_dropout;

typedef struct tdmi_rng {
    uint32_t words[TDMI_RNG_WORDS];
    uint32_t used;   /* words already handed out; TDMI_RNG_WORDS: the next draw makes new ones */
    bool has_normal; /* a small normal draw left its second value behind */
    double normal;
    tdmi_rng_variant variant;
    tdmi_rng_dropout dropout;
} tdmi_rng;

/* Seeds a generator of the variants that TANDEM_RNG and TANDEM_DROPOUT_RNG name.  Errors  TDM_ERR_INVALID names the variable. */
tdm_status tdmi_rng_init(tdmi_rng *rng, uint64_t seed);
/* torch.manual_seed: only the low 32 bits count. Keeps the variants. */
void tdmi_rng_seed(tdmi_rng *rng, uint64_t seed);
/* The seed of stream `index` (a rank, a worker, an epoch: any numbering) of a job: different for every index, so that no two
 * streams draw the same numbers. */
uint32_t tdmi_rng_stream_seed(uint64_t seed, uint32_t index);
/* "avx2", "default"; "plain", "mkl": what a checkpoint records. */
const char *tdmi_rng_variant_name(tdmi_rng_variant variant);
const char *tdmi_rng_dropout_name(tdmi_rng_dropout dropout);

/* The whole state as bytes (little endian, versioned), and back. The variants travel along, so a restored generator goes on
 * with the numbers it would have drawn.  Errors of load  TDM_ERR_BAD_FILE says what is wrong; `rng` is unchanged then. */
void tdmi_rng_save(const tdmi_rng *rng, uint8_t out[TDMI_RNG_STATE_BYTES]);
tdm_status tdmi_rng_load(tdmi_rng *rng, const uint8_t *bytes, size_t nbytes);

uint32_t tdmi_rng_u32(tdmi_rng *rng);
uint64_t tdmi_rng_u64(tdmi_rng *rng);
void tdmi_rng_fill(tdmi_rng *rng, uint32_t *out, size_t count); /* `count` draws of 32 bits */
void tdmi_rng_skip(tdmi_rng *rng, size_t count);                /* the same, thrown away */

/* torch.randperm(count).   out [count].   Cost  about 5 ns an element */
void tdmi_rng_permutation(tdmi_rng *rng, uint32_t *out, uint32_t count);
/* torch.randint(low, high, (count,)).   low < high;   out [count] */
void tdmi_rng_integers(tdmi_rng *rng, int64_t *out, size_t count, int64_t low, int64_t high);
/* tensor.uniform_(low, high); torch.rand is (0, 1).   out [count] or NULL */
void tdmi_rng_uniform(tdmi_rng *rng, float *out, size_t count, double low, double high);
/* tensor.normal_(mean, std); torch.randn is (0, 1).   out [count] or NULL.   Cost  about 3 ns an element with AVX2 */
void tdmi_rng_normal(tdmi_rng *rng, float *out, size_t count, double mean, double std);
/* tensor.bernoulli_(p): out[i] = 1 with probability p, else 0. Dropout of probability q draws its mask with p = 1 - q. */
void tdmi_rng_bernoulli(tdmi_rng *rng, uint8_t *out, size_t count, double p);

/* ---- what modules of torch.nn start with; every pointer may be NULL: drawn and not kept ----
 * kaiming_uniform  nn.init.kaiming_uniform_(w, a=sqrt(5)).   out [count]
 * linear           nn.Linear(in, out, bias): weight [out, in], then bias [out] if there is one
 * embedding        nn.Embedding(rows, width): weight [rows, width], normal(0, 1) */
void tdmi_rng_kaiming_uniform(tdmi_rng *rng, float *out, size_t count, size_t fan_in);
void tdmi_rng_linear(tdmi_rng *rng, float *weight, float *bias, size_t out_features, size_t in_features, bool has_bias);
void tdmi_rng_embedding(tdmi_rng *rng, float *weight, size_t rows, size_t width);

#endif
