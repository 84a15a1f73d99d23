/* futex.h - sleeping on a 32-bit word that may lie in memory shared between processes. */
#ifndef TDMI_CORE_FUTEX_H
#define TDMI_CORE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word == expected, until woken, the timeout passes or a signal comes; spurious returns are allowed, so the
 * caller looks again. timeout_ns < 0: no timeout. Works across processes. */
void tdmi_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
/* Wakes all sleepers of that word. */
void tdmi_futex_wake_all(_Atomic uint32_t *word);

#endif
