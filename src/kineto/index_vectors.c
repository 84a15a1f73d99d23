/* index_vectors.c - the index 64 bytes at a time: a bit a byte for every question, and few instructions for 64 answers.
 *
 *   text       {"a":"x\"[y]"}        quotes outnumbered by one are inside of a string: the exclusive-or of all bits up to each
 *   quotes     .#.#.#......#.        bit, which is a carry-less multiplication by all ones
 *   inside     .##..#######..        escaped quotes are none; brackets inside are none
 *
 * Built once for AVX2 and once for AVX-512 with VBMI2; index.c chooses. */
#include "kineto/index.h"

#include <immintrin.h>

/* The bytes that follow a backslash which is not escaped itself. Backslashes are rare: one at a time. */
static uint64_t escaped_by(uint64_t backslash, uint64_t *carry)
{
    uint64_t escaped = *carry;
    *carry = 0;
    backslash &= ~escaped;
    while (backslash != 0) {
        const uint64_t first = backslash & -backslash;
        if (first >> 63 != 0)
            *carry = 1;
        escaped |= first << 1;
        backslash &= ~(first | first << 1);
    }
    return escaped;
}

static inline uint64_t running_xor(uint64_t bits)
{
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)bits), _mm_set1_epi8(-1), 0));
}

typedef struct masks {
    uint64_t quote, backslash, bracket;
} masks;

#if defined(__AVX512VBMI2__)
#define NAME tdmi_index_avx512

static inline masks look(const uint8_t *at)
{
    const __m512i v = _mm512_loadu_si512(at);
    const __m512i low = _mm512_or_si512(v, _mm512_set1_epi8(0x20)); /* [ and { become one, ] and } too */
    return (masks){.quote = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')),
                   .backslash = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\')),
                   .bracket = _mm512_cmpeq_epi8_mask(low, _mm512_set1_epi8('{')) | _mm512_cmpeq_epi8_mask(low, _mm512_set1_epi8('}'))};
}

static inline uint32_t *put(uint32_t *next, size_t base, uint64_t bits)
{
    const __m512i all = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30,
        29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i found = _mm512_maskz_compress_epi8(bits, all), start = _mm512_set1_epi32((int)base);
    const int count = __builtin_popcountll(bits);
    _mm512_storeu_si512(next, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(found)), start));
    if (__builtin_expect(count > 16, 0)) {
        _mm512_storeu_si512(next + 16, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(found, 1)), start));
        if (count > 32) {
            _mm512_storeu_si512(next + 32, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(found, 2)), start));
            _mm512_storeu_si512(next + 48, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(found, 3)), start));
        }
    }
    return next + count;
}
#else
#define NAME tdmi_index_avx2

static inline uint64_t equal(__m256i a, __m256i b, char c)
{
    const __m256i wanted = _mm256_set1_epi8(c);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, wanted)) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, wanted)) << 32;
}

static inline masks look(const uint8_t *at)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)at), b = _mm256_loadu_si256((const __m256i *)(at + 32));
    const __m256i space = _mm256_set1_epi8(0x20); /* [ and { become one, ] and } too */
    const __m256i low_a = _mm256_or_si256(a, space), low_b = _mm256_or_si256(b, space);
    return (masks){.quote = equal(a, b, '"'), .backslash = equal(a, b, '\\'), .bracket = equal(low_a, low_b, '{') | equal(low_a, low_b, '}')};
}

static inline uint32_t *put(uint32_t *next, size_t base, uint64_t bits)
{
    const int count = __builtin_popcountll(bits);
    for (int done = 0; done < count; done += 8) /* eight without a branch; what is too much is overwritten */
        for (int i = 0; i < 8; i++) {
            next[done + i] = (uint32_t)base + (uint32_t)__builtin_ctzll(bits | (uint64_t)1 << 63);
            bits &= bits - 1;
        }
    return next + count;
}
#endif

size_t NAME(const uint8_t *text, size_t from, size_t to, tdmi_index_state *state, uint32_t *token)
{
    uint32_t *next = token;
    uint64_t in_string = state->in_string, carry = state->escaped;
    for (size_t base = from; base < to; base += 64) {
        masks m = look(text + base);
        const uint64_t valid = to - base >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << (to - base)) - 1;
        m.quote &= valid;
        if (__builtin_expect((m.backslash & valid) != 0 || carry != 0, 0))
            m.quote &= ~escaped_by(m.backslash & valid, &carry);
        const uint64_t inside = running_xor(m.quote) ^ in_string;
        in_string = (uint64_t)((int64_t)inside >> 63);
        next = put(next, base, m.quote | (m.bracket & valid & ~inside));
    }
    *state = (tdmi_index_state){.in_string = in_string, .escaped = carry};
    return (size_t)(next - token);
}
