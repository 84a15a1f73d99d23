/* explain.h - a step list as text for people. */
#ifndef TDMI_COLL_EXPLAIN_H
#define TDMI_COLL_EXPLAIN_H

#include "coll/steps.h"

/* Writes what `rank` of n does for this call, one step a line, why ("": nobody says) and what it costs; like snprintf it gives the length that the
 * whole text has and cuts what does not fit. */
size_t tdmi_explain(const tdmi_call *call, const char *algorithm, const char *why, const tdmi_steps *steps, int rank, int n, char *text,
                    size_t capacity);

#endif
