/* cast_kernels.c - rounding to halves with error feedback, on the vectors of the reduce kernels. Built once per instruction
 * set (meson.build) with KERNELS naming the table. Lanes never meet, so every set gives the same bits. */
#include "compress/cast_kernels.h"

#include "coll/reduce_vectors.h"

/* What rounding took away is exact in float32. Where the half is infinite or NaN it is infinite or NaN too, and dropped. */
static inline vf32 keep_finite(vf32 lost)
{
    vi32 finite = (vi32)((vu32)lost & 0x7f800000u) != 0x7f800000;
    return (vf32)((vi32)lost & finite);
}

#define FEED(name)                                                                                                     \
    static inline void feed_vector_##name(const unsigned char *from, unsigned char *kept, unsigned char *to)           \
    {                                                                                                                  \
        const vf32 value = load_f32(from) + load_f32(kept);                                                            \
        const half_lanes half = round_##name(value);                                                                   \
        memcpy(to, &half, sizeof half);                                                                                \
        const vf32 lost = keep_finite(value - load_##name((const unsigned char *)&half));                              \
        memcpy(kept, &lost, sizeof lost);                                                                              \
    }                                                                                                                  \
    static void feed_##name(const float *in, float *residual, void *out, size_t count)                                 \
    {                                                                                                                  \
        enum { LANES = VB / sizeof(float) };                                                                           \
        const unsigned char *from = (const unsigned char *)in;                                                         \
        unsigned char *kept = (unsigned char *)residual, *to = out;                                                    \
        for (; count >= LANES; count -= LANES, from += VB, kept += VB, to += VB / 2)                                   \
            feed_vector_##name(from, kept, to);                                                                        \
        unsigned char in_pad[VB] = {0}, kept_pad[VB] = {0}, out_pad[VB / 2];                                           \
        memcpy(in_pad, from, count * sizeof(float));                                                                   \
        memcpy(kept_pad, kept, count * sizeof(float));                                                                 \
        feed_vector_##name(in_pad, kept_pad, out_pad);                                                                 \
        memcpy(kept, kept_pad, count * sizeof(float));                                                                 \
        memcpy(to, out_pad, count * sizeof(uint16_t));                                                                 \
    }
FEED(bf16)
FEED(f16)

const tdmi_cast_kernels KERNELS = {.feed_bf16 = feed_bf16, .feed_f16 = feed_f16};
