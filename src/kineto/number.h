/* number.h - numbers of a trace, exact. All of them stop at the first byte that is none of the number, and read at most 16 bytes behind it. */
#ifndef TDMI_KINETO_NUMBER_H
#define TDMI_KINETO_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum { TDMI_NUMBER_GOOD, TDMI_NUMBER_BAD, TDMI_NUMBER_RANGE } tdmi_number;

/* The value of the digits at `at`, if there are at most 16: eight at a time, without a branch a digit. Returns how many; 17: more. */
static inline int tdmi_number_digits(const uint8_t *at, uint64_t *out)
{
    uint64_t value = 0;
    int count = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (int half = 0; half < 2; half++) {
        uint64_t word;
        memcpy(&word, at + count, sizeof word);
        word ^= 0x3030303030303030u; /* digits are 0 ... 9 now, and what is none has a bit in its upper four, or 6 more would set one */
        const uint64_t none = (word | (word + 0x0606060606060606u)) & 0xf0f0f0f0f0f0f0f0u;
        static const uint32_t tens[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
        if (none != 0) {
            const int n = __builtin_ctzll(none) >> 3;
            word = n == 0 ? 0 : word << (64 - 8 * n);
            value *= tens[n];
            count += n;
        } else {
            value *= 100000000u;
            count += 8;
        }
        word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffu; /* pairs */
        word = ((word & 0x000000ff000000ffu) * 0x000f424000000064u + (word >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >> 32;
        *out = value += word;
        if (none != 0)
            return count;
    }
    return (unsigned)(at[16] - '0') < 10 ? 17 : 16;
#else
    for (; (unsigned)(*at - '0') < 10 && count < 17; at++, count++)
        value = value * 10 + (uint64_t)(*at - '0');
    *out = value;
    return count;
#endif
}

/* Decimal microseconds -> ns, to the nearest. *whole: written without a point and an exponent. */
tdmi_number tdmi_number_ns(const uint8_t *at, int64_t *out_ns, bool *whole);
/* A whole number; a fraction is cut off. RANGE: *out is the nearest that int64_t has. */
tdmi_number tdmi_number_int_slow(const uint8_t *at, int64_t *out);
static inline tdmi_number tdmi_number_int(const uint8_t *at, int64_t *out)
{
    uint64_t value;
    const int count = tdmi_number_digits(at, &value);
    *out = (int64_t)value;
    if (__builtin_expect(count >= 1 && count <= 16 && at[count] != '.' && (at[count] | 0x20) != 'e', 1))
        return TDMI_NUMBER_GOOD;
    return tdmi_number_int_slow(at, out);
}
/* The same for 0 ... 2^64-1. */
tdmi_number tdmi_number_uint(const uint8_t *at, uint64_t *out);
/* The nearest double. NaN and Infinity are BAD: they say nothing. */
tdmi_number tdmi_number_double(const uint8_t *at, double *out);

#endif
