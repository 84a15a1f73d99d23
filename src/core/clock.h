/* clock.h - monotonic time in nanoseconds, and deadlines made of it. */
#ifndef TDMI_CORE_CLOCK_H
#define TDMI_CORE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define TDMI_NS_PER_MS 1000000ll
#define TDMI_NS_PER_S 1000000000ll

static inline int64_t tdmi_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * TDMI_NS_PER_S + t.tv_nsec;
}

/* A point on that clock `seconds` from now; far enough in the future for any seconds >= 1e9. */
static inline int64_t tdmi_deadline_in(double seconds)
{
    if (seconds > 1e9)
        seconds = 1e9;
    return tdmi_now_ns() + (int64_t)(seconds * 1e9);
}

static inline bool tdmi_deadline_passed(int64_t deadline_ns)
{
    return tdmi_now_ns() >= deadline_ns;
}

/* The same time at two thirds of the price where the processor counts steadily: the kernel's clock is asked at most once in
 * 2 million ticks, the counter in between; off by less than 1 us. One thread at a time; all zero at first. */
typedef struct tdmi_quick_clock {
    int64_t base_ns;
    uint64_t base_ticks;
} tdmi_quick_clock;

int64_t tdmi_quick_clock_set(tdmi_quick_clock *clock);

static inline int64_t tdmi_quick_ns(tdmi_quick_clock *clock)
{
#if defined(__x86_64__)
    extern _Atomic uint64_t tdmi_ns_per_tick_32; /* times 2^32; 0: not known, or the counter is not steady */
    const uint64_t rate = atomic_load_explicit(&tdmi_ns_per_tick_32, memory_order_relaxed);
    const uint64_t passed = __builtin_ia32_rdtsc() - clock->base_ticks;
    if (rate != 0 && passed < (uint64_t)1 << 21)
        return clock->base_ns + (int64_t)(passed * rate >> 32);
#endif
    return tdmi_quick_clock_set(clock);
}

#endif
