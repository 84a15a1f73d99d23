/* clock.c - what makes the quick clock quick: how long a tick of the processor's counter is, measured once a process. */
#include "core/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>

#define CALIBRATE_NS TDMI_NS_PER_MS /* two readings this far apart are good to 0.01 % */

_Atomic uint64_t tdmi_ns_per_tick_32;

/* The counter runs at one rate, on all cores and in all power states. */
static bool is_steady(void)
{
    unsigned a, b, c, d = 0;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d >> 8 & 1u) != 0;
}

/* The first reading of the process stays; a later one, far enough away, gives the rate. */
static void calibrate(uint64_t ticks, int64_t now_ns)
{
    static _Atomic int64_t first_ns;
    static _Atomic uint64_t first_ticks;
    static _Atomic int state; /* 0: no reading, 1: being taken, 2: taken, 3: no steady counter */
    int none = 0;
    if (atomic_load_explicit(&state, memory_order_acquire) == 0 && atomic_compare_exchange_strong(&state, &none, 1)) {
        atomic_store_explicit(&first_ns, now_ns, memory_order_relaxed);
        atomic_store_explicit(&first_ticks, ticks, memory_order_relaxed);
        atomic_store_explicit(&state, is_steady() ? 2 : 3, memory_order_release); /* pairs with the load below */
        return;
    }
    if (atomic_load_explicit(&state, memory_order_acquire) != 2)
        return;
    const int64_t ns = now_ns - atomic_load_explicit(&first_ns, memory_order_relaxed);
    const uint64_t passed = ticks - atomic_load_explicit(&first_ticks, memory_order_relaxed);
    if (ns >= CALIBRATE_NS && passed > 0)
        atomic_store_explicit(&tdmi_ns_per_tick_32, (uint64_t)((double)ns / (double)passed * 4294967296.0), memory_order_relaxed);
}
#endif

#if defined(__x86_64__)
#define CLOSE_TICKS 2000 /* less than 1 us */
#define TRIES 4

/* Both clocks at one moment; false where other work came between the readings every time. */
static bool read_both(int64_t *ns_out, uint64_t *ticks_out)
{
    for (int i = 0; i < TRIES; i++) {
        const uint64_t before = __builtin_ia32_rdtsc();
        *ns_out = tdmi_now_ns();
        *ticks_out = __builtin_ia32_rdtsc();
        if (*ticks_out - before < CLOSE_TICKS)
            return true;
    }
    return false;
}
#endif

int64_t tdmi_quick_clock_set(tdmi_quick_clock *clock)
{
#if defined(__x86_64__)
    if (!read_both(&clock->base_ns, &clock->base_ticks))
        clock->base_ticks = 0; /* of no use for the next reading, which asks again */
    else if (atomic_load_explicit(&tdmi_ns_per_tick_32, memory_order_relaxed) == 0)
        calibrate(clock->base_ticks, clock->base_ns);
#else
    clock->base_ns = tdmi_now_ns();
#endif
    return clock->base_ns;
}
