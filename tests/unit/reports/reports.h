/* reports.h - what the tests of public reports share. Each test_NN_*.c holds one kind of report that users of other systems made, and
 * says what must happen here instead. Only the public interface is used. */
#ifndef TESTS_UNIT_REPORTS_H
#define TESTS_UNIT_REPORTS_H

#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *const report_transports[] = {"shm", "tcp"};

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void sleep_s(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

#endif
