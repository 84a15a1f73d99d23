/* progress.h - what a person sees while a run goes on: a bar on a terminal, a line now and then elsewhere. Rank 0 only. */
#ifndef TDMI_TRAIN_PROGRESS_H
#define TDMI_TRAIN_PROGRESS_H

#include "core/error.h"

typedef struct tdmi_progress {
    bool quiet, terminal;
    int64_t first_step, steps; /* this run goes from first_step + 1 to steps */
    int64_t begin_ns, drawn_ns, printed_step;
    double tokens, seconds, exposed_seconds; /* of the steps since something was drawn */
    bool line_open; /* a bar without a newline stands on the terminal */
} tdmi_progress;

void tdmi_progress_begin(tdmi_progress *p, bool quiet, int64_t first_step, int64_t steps);
/* At most about ten times a second is anything drawn; rates are those since then. tokens and times are the step's. */
void tdmi_progress_step(tdmi_progress *p, int64_t step, double loss, double tokens, double step_ms, double comm_exposed_ms);
/* A whole line above the bar. */
void tdmi_progress_line(tdmi_progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tdmi_progress_end(tdmi_progress *p);

#endif
