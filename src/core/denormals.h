/* denormals.h - numbers below 1.2e-38 count as 0 for a while. A processor takes a hundred times longer for them, and training makes
 * them: momentum of a parameter without gradient fades through them, a model that is sure of itself or diverges has them in its
 * gradients. Of the calling thread; not around communication, whose sums keep every bit. */
#ifndef TDMI_CORE_DENORMALS_H
#define TDMI_CORE_DENORMALS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* The state before, for tdmi_denormals_restore. */
static inline uint64_t tdmi_denormals_flush(void)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* results (FTZ) and operands (DAZ) */
    return before;
}

static inline void tdmi_denormals_restore(uint64_t before)
{
    _mm_setcsr((unsigned)before);
}
#elif defined(__aarch64__)
static inline uint64_t tdmi_denormals_flush(void)
{
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (uint64_t)1 << 24)); /* FZ */
    return before;
}

static inline void tdmi_denormals_restore(uint64_t before)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
}
#else
static inline uint64_t tdmi_denormals_flush(void)
{
    return 0;
}

static inline void tdmi_denormals_restore(uint64_t before)
{
    (void)before;
}
#endif

#endif
