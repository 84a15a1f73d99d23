/* signals.h - SIGINT ends a run within a second, SIGTERM finishes the step and saves, a second signal kills. */
#ifndef TDMI_TRAIN_SIGNALS_H
#define TDMI_TRAIN_SIGNALS_H

#include "core/error.h"

#include <stdatomic.h>

/* begin: lets both signals in, with the actions they have: until ranks have met there is nothing to finish. install: the
 * handlers. restore puts handlers and mask back. Not nested. */
void tdmi_signals_begin(void);
void tdmi_signals_install(void);
void tdmi_signals_restore(void);
/* The signal that was received, or 0. */
int tdmi_signals_received(void);
/* Non-zero once SIGINT came: what the executor looks at between two nodes. */
const atomic_int *tdmi_signals_interrupt(void);

#endif
