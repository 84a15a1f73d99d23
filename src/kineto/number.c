/* number.c - decimal numbers without doubles: a mantissa of up to 19 digits and a power of ten. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kineto/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct decimal {
    bool negative, whole, any; /* any: there was a digit */
    uint64_t mantissa;
    int64_t exponent;          /* value = mantissa * 10^exponent */
    bool cut;                  /* digits beyond the 19th were left out: the mantissa is a little too small */
} decimal;

/* Digits from `at` on; *value takes those that fit into 19 together with the ones it has (*held). */
static const uint8_t *digits(const uint8_t *at, uint64_t *value, int *held, int64_t *left_out)
{
    for (; (unsigned)(*at - '0') < 10; at++) {
        if (*held >= 19) {
            (*left_out)++;
            continue;
        }
        *value = *value * 10 + (uint64_t)(*at - '0');
        *held += *value != 0;
    }
    return at;
}

static decimal read_decimal(const uint8_t *at)
{
    decimal d = {.whole = true};
    int held = 0;
    int64_t left_out = 0;
    d.negative = *at == '-';
    at += *at == '-' || *at == '+';
    const uint8_t *first = at;
    at = digits(at, &d.mantissa, &held, &left_out);
    d.any = at > first;
    d.exponent = left_out;
    if (*at == '.') {
        d.whole = false;
        first = ++at;
        left_out = 0;
        at = digits(at, &d.mantissa, &held, &left_out);
        d.any |= at > first;
        d.exponent -= (at - first) - left_out;
    }
    d.cut = left_out > 0 || d.exponent > 0;
    if (d.any && (*at | 0x20) == 'e') {
        const uint8_t *sign = ++at;
        int64_t power = 0;
        at += *at == '-' || *at == '+';
        d.whole = false;
        for (; (unsigned)(*at - '0') < 10; at++)
            power = power < 100000 ? power * 10 + (*at - '0') : power;
        d.exponent += *sign == '-' ? -power : power;
    }
    return d;
}

/* mantissa * 10^exponent, rounded to the nearest or cut; false: beyond 64 bits. */
static bool scale(uint64_t mantissa, int64_t exponent, bool nearest, uint64_t *out)
{
    for (; exponent > 0 && mantissa != 0; exponent--)
        if (__builtin_mul_overflow(mantissa, 10u, &mantissa))
            return false;
    uint64_t rest = 0;
    for (; exponent < 0 && (mantissa != 0 || rest != 0); exponent++) {
        rest = mantissa % 10;
        mantissa /= 10;
    }
    *out = mantissa + (nearest && rest >= 5);
    return true;
}

static tdmi_number to_int64(bool negative, bool fits, uint64_t value, int64_t *out)
{
    if (!fits || value > (uint64_t)INT64_MAX) {
        *out = negative ? INT64_MIN : INT64_MAX;
        return TDMI_NUMBER_RANGE;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    return TDMI_NUMBER_GOOD;
}

static tdmi_number ns_slow(const uint8_t *at, int64_t *out_ns, bool *whole)
{
    const decimal d = read_decimal(at);
    uint64_t value = 0;
    *whole = d.whole;
    *out_ns = 0;
    if (!d.any)
        return TDMI_NUMBER_BAD;
    const bool fits = scale(d.mantissa, d.exponent + 3, true, &value);
    return to_int64(d.negative, fits, value, out_ns);
}

/* The common forms: 1669783687505483 and 5113483586846.034, with at most 16 digits before the point and three behind it. */
tdmi_number tdmi_number_ns(const uint8_t *at, int64_t *out_ns, bool *whole)
{
    uint64_t value, fraction;
    const int count = tdmi_number_digits(at, &value);
    if (count < 1 || count > 16 || value > (uint64_t)INT64_MAX / 1000 - 1)
        return ns_slow(at, out_ns, whole);
    *whole = at[count] != '.';
    int digits = 0;
    if (!*whole) {
        static const int scale_of[4] = {1000, 100, 10, 1};
        digits = tdmi_number_digits(at + count + 1, &fraction);
        if (digits < 1 || digits > 3)
            return ns_slow(at, out_ns, whole);
        fraction *= (uint64_t)scale_of[digits];
        digits++;
    } else {
        fraction = 0;
    }
    if ((at[count + digits] | 0x20) == 'e')
        return ns_slow(at, out_ns, whole);
    *out_ns = (int64_t)(value * 1000 + fraction);
    return TDMI_NUMBER_GOOD;
}

tdmi_number tdmi_number_int_slow(const uint8_t *at, int64_t *out)
{
    const decimal d = read_decimal(at);
    uint64_t value = 0;
    *out = 0;
    if (!d.any)
        return TDMI_NUMBER_BAD;
    const bool fits = scale(d.mantissa, d.exponent, false, &value);
    return to_int64(d.negative, fits, value, out);
}

tdmi_number tdmi_number_uint(const uint8_t *at, uint64_t *out)
{
    const decimal d = read_decimal(at);
    *out = 0;
    if (!d.any)
        return TDMI_NUMBER_BAD;
    if (d.negative && d.mantissa != 0)
        return TDMI_NUMBER_RANGE;
    if (d.whole && d.cut) { /* 20 digits: the last does not fit into the mantissa, but may into the number */
        uint64_t value = 0;
        for (at += *at == '+'; (unsigned)(*at - '0') < 10; at++)
            if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
                *out = UINT64_MAX;
                return TDMI_NUMBER_RANGE;
            }
        *out = value;
        return TDMI_NUMBER_GOOD;
    }
    if (scale(d.mantissa, d.exponent, false, out))
        return TDMI_NUMBER_GOOD;
    *out = UINT64_MAX;
    return TDMI_NUMBER_RANGE;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* written once under `once` */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

tdmi_number tdmi_number_double(const uint8_t *at, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const decimal d = read_decimal(at);
    *out = 0;
    if (!d.any)
        return TDMI_NUMBER_BAD;
    double value;
    if (!d.cut && d.mantissa <= (uint64_t)1 << 53 && d.exponent >= -22 && d.exponent <= 22) {
        /* Both are exact doubles, so one operation gives the nearest. */
        value = d.exponent < 0 ? (double)d.mantissa / power[-d.exponent] : (double)d.mantissa * power[d.exponent];
        value = d.negative ? -value : value;
    } else {
        char text[128]; /* more digits than this change nothing that anybody measures */
        size_t n = 0;
        while (n + 1 < sizeof text && at[n] != '\0' && strchr("+-.0123456789eE", at[n]) != NULL) {
            text[n] = (char)at[n];
            n++;
        }
        text[n] = '\0';
        pthread_once(&once, make_locale);
        value = c_locale == (locale_t)0 ? strtod(text, NULL) : strtod_l(text, NULL, c_locale);
    }
    if (!isfinite(value))
        return TDMI_NUMBER_RANGE;
    *out = value;
    return TDMI_NUMBER_GOOD;
}
