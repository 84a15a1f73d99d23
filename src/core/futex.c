/* futex.c - the two system calls, without FUTEX_PRIVATE so that they work between processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void tdmi_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    syscall(SYS_futex, (void *)word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
}

void tdmi_futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, (void *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
