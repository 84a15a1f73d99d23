/* clock.h - monotonic time in nanoseconds, and deadlines made of it. */
#ifndef TDMI_CORE_CLOCK_H
#define TDMI_CORE_CLOCK_H

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

#endif
