/* glance.h - what the daemon itself must know of a trace. */
#ifndef TDMI_LIVE_GLANCE_H
#define TDMI_LIVE_GLANCE_H

#include "core/error.h"

#include <stddef.h>

typedef struct tdmi_glance {
    int64_t begin_ns, end_ns; /* of its events, in one clock for all traces of a machine */
    size_t operators;         /* events of PyTorch's operators */
    int steps;                /* of the optimizer that stepped most often */
    double step_s;            /* from one to the next; 0: there are not two */
    size_t nbytes;
} tdmi_glance;

/* Errors  TDM_ERR_BAD_FILE the file is no trace (names it) */
tdm_status tdmi_glance_at(const char *path, tdmi_glance *out);

#endif
