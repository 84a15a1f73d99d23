/* median.h - the middle of some numbers. */
#ifndef TDMI_JOB_MEDIAN_H
#define TDMI_JOB_MEDIAN_H

#include <stddef.h>
#include <stdint.h>

/* Of an even count the upper; reorders `value`. otherwise: of none. */
int64_t tdmi_median(int64_t *value, size_t count, int64_t otherwise);

#endif
