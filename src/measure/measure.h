/* measure.h - the one timing loop of bench, tune and doctor: samples, and what is said about them. */
#ifndef TDMI_MEASURE_MEASURE_H
#define TDMI_MEASURE_MEASURE_H

#include <tandem/status.h>

/* Runs `body` `warm_ups` times, then takes `samples` samples of `calls` calls each; ns_out[i] is the time of one call of
 * sample i. Stops at the first call that fails and returns its status. */
tdm_status tdmi_measure(tdm_status (*body)(void *arg), void *arg, int warm_ups, int samples, int calls, double *ns_out);

typedef struct tdmi_summary {
    double median, p10, p90;
    double spread; /* (p90 - p10) / median; 0 where the median is 0 */
} tdmi_summary;

/* Sorts `samples` [count], count >= 1. Between two samples a quantile is interpolated. */
tdmi_summary tdmi_summarise(double *samples, size_t count);

#endif
