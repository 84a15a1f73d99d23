/* order.c - radix sort, least significant digit first, over the bits in which the times differ; ties by comparing. */
#include "job/order.h"

#include "core/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS ((size_t)1 << DIGIT_BITS)

static void sort_ties(tdmi_key *key, size_t count, int (*tie)(const tdmi_key *a, const tdmi_key *b, void *arg), void *arg)
{
    for (size_t i = 0, same; i < count; i += same) {
        same = 1;
        while (i + same < count && key[i + same].ns == key[i].ns)
            same++;
        if (same > 1)
            qsort_r(key + i, same, sizeof *key, (int (*)(const void *, const void *, void *))tie, arg);
    }
}

static void sort_digit(const tdmi_key *from, tdmi_key *to, size_t count, int64_t least_ns, unsigned shift)
{
    size_t place[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        place[((uint64_t)from[i].ns - (uint64_t)least_ns) >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        const size_t here = place[d];
        place[d] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        to[place[((uint64_t)from[i].ns - (uint64_t)least_ns) >> shift & (DIGITS - 1)]++] = from[i];
}

tdm_status tdmi_keys_sort(tdmi_key *key, size_t count, int (*tie)(const tdmi_key *a, const tdmi_key *b, void *arg), void *arg)
{
    bool in_order = true;
    int64_t least_ns = INT64_MAX, most_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        in_order = in_order && (i == 0 || key[i - 1].ns <= key[i].ns);
        least_ns = key[i].ns < least_ns ? key[i].ns : least_ns;
        most_ns = key[i].ns > most_ns ? key[i].ns : most_ns;
    }
    if (!in_order) {
        tdmi_key *spare = tdmi_malloc(count * sizeof *spare, "job"), *from = key, *to = spare;
        if (spare == NULL)
            return TDM_ERR_NO_MEMORY;
        for (unsigned shift = 0; shift < 64 && ((uint64_t)most_ns - (uint64_t)least_ns) >> shift != 0; shift += DIGIT_BITS) {
            sort_digit(from, to, count, least_ns, shift);
            tdmi_key *done = to;
            to = from;
            from = done;
        }
        if (from != key)
            memcpy(key, from, count * sizeof *key);
        tdmi_free(spare);
    }
    if (tie != NULL)
        sort_ties(key, count, tie, arg);
    return TDM_OK;
}
