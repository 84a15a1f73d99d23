/* sort.c - a stable sort by 64-bit keys, byte by byte from the lowest; bytes that are the same everywhere are passed over, which
 * times of one trace have many of. pandas' own sort of rows is not stable: docs/hta.md says which numbers hang on that. */
#include "hta/rank.h"

#include <stdlib.h>
#include <string.h>

void tdmi_hta_sort(tdmi_hta_key *keys, tdmi_hta_key *scratch, size_t count)
{
    uint64_t same = UINT64_MAX, all = count > 0 ? keys[0].key : 0;
    bool sorted = true;
    for (size_t i = 1; i < count; i++) {
        same &= ~(keys[i].key ^ all);
        sorted &= keys[i - 1].key <= keys[i].key;
    }
    if (sorted)
        return;
    tdmi_hta_key *from = keys, *to = scratch;
    for (int shift = 0; shift < 64; shift += 8) {
        size_t place[256] = {0}, sum = 0;
        if ((same >> shift & 255) == 255)
            continue;
        for (size_t i = 0; i < count; i++)
            place[from[i].key >> shift & 255]++;
        for (int byte = 0; byte < 256; byte++) {
            const size_t here = place[byte];
            place[byte] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            to[place[from[i].key >> shift & 255]++] = from[i];
        tdmi_hta_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, count * sizeof *keys);
}

static int by_number(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

size_t tdmi_hta_unite(int64_t *numbers, size_t count)
{
    size_t different = 0;
    if (count > 0)
        qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i < count; i++)
        if (different == 0 || numbers[i] != numbers[different - 1])
            numbers[different++] = numbers[i];
    return different;
}
