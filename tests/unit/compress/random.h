/* random.h - numbers that are the same in every run, for the codecs' tests. */
#ifndef TESTS_COMPRESS_RANDOM_H
#define TESTS_COMPRESS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* In (-1, 1). */
static inline float next_value(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(int32_t)(*state >> 32) * 0x1p-31);
}

static inline void fill_values(float *to, size_t count, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < count; i++)
        to[i] = next_value(&state);
}

#endif
