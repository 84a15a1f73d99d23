/* mt19937.c - the engine: seeding, drawing, skipping, and the state as bytes.
 * Matsumoto and Nishimura, ACM TOMACS 8(1), 1998, doi:10.1145/272991.272995. */
#include "data/rng.h"

#include "core/config.h"

#include <string.h>

enum { WORDS = TDMI_RNG_WORDS, MIDDLE = 397, STATE_VERSION = 1 };

static const char *const variant_names[] = {"avx2", "default"};
static const char *const dropout_names[] = {"plain", "mkl"};

tdm_status tdmi_rng_init(tdmi_rng *rng, uint64_t seed)
{
    const char *variant = tdmi_config_text(TDMI_CONFIG_RNG), *dropout = tdmi_config_text(TDMI_CONFIG_DROPOUT_RNG);
    if (strcmp(variant, "avx2") != 0 && strcmp(variant, "default") != 0)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_RNG=%s is not one of avx2, default", variant);
    if (strcmp(dropout, "auto") != 0 && strcmp(dropout, "plain") != 0 && strcmp(dropout, "mkl") != 0)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_DROPOUT_RNG=%s is not one of auto, plain, mkl", dropout);
    rng->variant = strcmp(variant, "avx2") == 0 ? TDMI_RNG_AVX2 : TDMI_RNG_DEFAULT;
    rng->dropout = strcmp(dropout, "mkl") == 0 ? TDMI_RNG_DROPOUT_MKL : TDMI_RNG_DROPOUT_PLAIN;
    tdmi_rng_seed(rng, seed);
    return TDM_OK;
}

void tdmi_rng_seed(tdmi_rng *rng, uint64_t seed)
{
    uint32_t *s = rng->words;
    s[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < WORDS; j++)
        s[j] = 1812433253u * (s[j - 1] ^ (s[j - 1] >> 30)) + j;
    rng->used = WORDS;
    rng->has_normal = false;
    rng->normal = 0;
}

uint32_t tdmi_rng_stream_seed(uint64_t seed, uint32_t index)
{
    /* every step is a bijection of 32 bits, so different indices cannot meet */
    uint32_t x = index ^ (uint32_t)(seed * 0x9e3779b97f4a7c15u >> 32);
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

const char *tdmi_rng_variant_name(tdmi_rng_variant variant)
{
    return variant_names[variant];
}

const char *tdmi_rng_dropout_name(tdmi_rng_dropout dropout)
{
    return dropout_names[dropout];
}

static inline uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (y >> 1) ^ (-(y & 1u) & 0x9908b0dfu);
}

static inline uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* The next 624 words, in place; cut where a read would wrap, so that each loop is plain and vectorises. */
static void renew(tdmi_rng *rng)
{
    uint32_t *s = rng->words;
    for (int k = 0; k < WORDS - MIDDLE; k++)
        s[k] = s[k + MIDDLE] ^ twist(s[k], s[k + 1]);
    for (int k = WORDS - MIDDLE; k < WORDS - 1; k++)
        s[k] = s[k - (WORDS - MIDDLE)] ^ twist(s[k], s[k + 1]);
    s[WORDS - 1] = s[MIDDLE - 1] ^ twist(s[WORDS - 1], s[0]);
    rng->used = 0;
}

uint32_t tdmi_rng_u32(tdmi_rng *rng)
{
    if (rng->used == WORDS)
        renew(rng);
    return temper(rng->words[rng->used++]);
}

uint64_t tdmi_rng_u64(tdmi_rng *rng)
{
    uint64_t high = tdmi_rng_u32(rng);
    return high << 32 | tdmi_rng_u32(rng);
}

void tdmi_rng_fill(tdmi_rng *rng, uint32_t *out, size_t count)
{
    while (count > 0) {
        if (rng->used == WORDS)
            renew(rng);
        size_t take = WORDS - rng->used;
        if (take > count)
            take = count;
        const uint32_t *from = rng->words + rng->used;
        for (size_t i = 0; i < take; i++)
            out[i] = temper(from[i]);
        rng->used += (uint32_t)take;
        out += take;
        count -= take;
    }
}

void tdmi_rng_skip(tdmi_rng *rng, size_t count)
{
    while (count > WORDS - rng->used) {
        count -= WORDS - rng->used;
        renew(rng);
    }
    rng->used += (uint32_t)count;
}

/* ---- state as bytes: version, variant, dropout, has_normal, used u32, normal f64, words u32[624] ---- */
static void put(uint8_t *at, uint64_t value, int nbytes)
{
    for (int i = 0; i < nbytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, int nbytes)
{
    uint64_t value = 0;
    for (int i = 0; i < nbytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

void tdmi_rng_save(const tdmi_rng *rng, uint8_t out[TDMI_RNG_STATE_BYTES])
{
    uint64_t normal;
    memcpy(&normal, &rng->normal, sizeof normal);
    out[0] = STATE_VERSION;
    out[1] = (uint8_t)rng->variant;
    out[2] = (uint8_t)rng->dropout;
    out[3] = rng->has_normal;
    put(out + 4, rng->used, 4);
    put(out + 8, rng->has_normal ? normal : 0, 8);
    for (int i = 0; i < WORDS; i++)
        put(out + 16 + 4 * i, rng->words[i], 4);
}

tdm_status tdmi_rng_load(tdmi_rng *rng, const uint8_t *bytes, size_t nbytes)
{
    if (nbytes != TDMI_RNG_STATE_BYTES)
        return tdmi_fail(TDM_ERR_BAD_FILE, "random state has %zu bytes, expected %d", nbytes, TDMI_RNG_STATE_BYTES);
    if (bytes[0] != STATE_VERSION)
        return tdmi_fail(TDM_ERR_BAD_FILE, "random state of version %d; this Tandem reads version %d", bytes[0], STATE_VERSION);
    uint64_t used = get(bytes + 4, 4), normal = get(bytes + 8, 8);
    if (bytes[1] > TDMI_RNG_DEFAULT || bytes[2] > TDMI_RNG_DROPOUT_MKL || bytes[3] > 1 || used > WORDS)
        return tdmi_fail(TDM_ERR_BAD_FILE, "random state is damaged (variants %d %d, cached normal %d, position %llu of %d)",
                         bytes[1], bytes[2], bytes[3], (unsigned long long)used, WORDS);
    rng->variant = (tdmi_rng_variant)bytes[1];
    rng->dropout = (tdmi_rng_dropout)bytes[2];
    rng->has_normal = bytes[3] != 0;
    rng->used = (uint32_t)used;
    memcpy(&rng->normal, &normal, sizeof normal);
    for (int i = 0; i < WORDS; i++)
        rng->words[i] = (uint32_t)get(bytes + 16 + 4 * i, 4);
    return TDM_OK;
}
