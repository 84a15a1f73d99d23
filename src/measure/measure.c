/* measure.c - timing and quantiles. The median, not the mean or the best: one preempted sample moves a mean, and the best
 * is what nobody sees twice. */
#include "measure/measure.h"

#include "core/clock.h"

#include <stdlib.h>

tdm_status tdmi_measure(tdm_status (*body)(void *arg), void *arg, int warm_ups, int samples, int calls, double *ns_out)
{
    tdm_status st = TDM_OK;
    for (int i = 0; i < warm_ups && st == TDM_OK; i++)
        st = body(arg);
    for (int i = 0; i < samples && st == TDM_OK; i++) {
        int64_t begin = tdmi_now_ns();
        for (int k = 0; k < calls && st == TDM_OK; k++)
            st = body(arg);
        ns_out[i] = (double)(tdmi_now_ns() - begin) / calls;
    }
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t count, double q)
{
    double place = q * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

tdmi_summary tdmi_summarise(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, by_value);
    tdmi_summary s = {.median = quantile(samples, count, 0.5), .p10 = quantile(samples, count, 0.1),
                      .p90 = quantile(samples, count, 0.9)};
    s.spread = s.median > 0 ? (s.p90 - s.p10) / s.median : 0;
    return s;
}
