/* median.c - by parting around a pivot until the middle is in its place (Hoare's quickselect), sorting what is left of bad luck. */
#include "job/median.h"

#include <stdlib.h>

/* More rounds than this for n numbers is bad luck: n log n is better then. */
#define ROUNDS_MAX 60

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t tdmi_median(int64_t *value, size_t count, int64_t otherwise)
{
    if (count == 0)
        return otherwise;
    const size_t middle = count / 2;
    size_t low = 0, high = count - 1;
    for (int round = 0; low < high && round < ROUNDS_MAX; round++) {
        const int64_t pivot = value[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (value[i] < pivot)
                i++;
            while (value[j] > pivot)
                j--;
            if (i >= j)
                break;
            const int64_t swap = value[i];
            value[i++] = value[j];
            value[j--] = swap;
        }
        if (middle <= j)
            high = j;
        else
            low = j + 1;
    }
    if (low < high)
        qsort(value + low, high - low + 1, sizeof *value, by_value);
    return value[middle];
}
