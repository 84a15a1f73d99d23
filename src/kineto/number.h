/* number.h - numbers of a trace, exact. All of them stop at the first byte that is none of the number, and read at most 8 bytes behind it. */
#ifndef TDMI_KINETO_NUMBER_H
#define TDMI_KINETO_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { TDMI_NUMBER_GOOD, TDMI_NUMBER_BAD, TDMI_NUMBER_RANGE } tdmi_number;

/* Decimal microseconds -> ns, to the nearest. *whole: written without a point and an exponent. */
tdmi_number tdmi_number_ns(const uint8_t *at, int64_t *out_ns, bool *whole);
/* A whole number; a fraction is cut off. RANGE: *out is the nearest that int64_t has. */
tdmi_number tdmi_number_int(const uint8_t *at, int64_t *out);
/* The same for 0 ... 2^64-1. */
tdmi_number tdmi_number_uint(const uint8_t *at, uint64_t *out);
/* The nearest double. NaN and Infinity are BAD: they say nothing. */
tdmi_number tdmi_number_double(const uint8_t *at, double *out);

#endif
