/* median.c - by sorting. */
#include "job/median.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t tdmi_median(int64_t *value, size_t count, int64_t otherwise)
{
    if (count == 0)
        return otherwise;
    qsort(value, count, sizeof *value, by_value);
    return value[count / 2];
}
