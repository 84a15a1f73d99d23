/* describe.c - pandas' describe() of a column: count, mean, deviation of a sample, quartiles with linear interpolation. */
#include "hta/rank.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

double tdmi_hta_quantile(const double *sorted, size_t count, double at)
{
    const double place = (double)(count - 1) * at, below = floor(place), part = place - below;
    const size_t i = (size_t)below;
    const double low = sorted[i], high = sorted[i + 1 < count ? i + 1 : i];
    return part >= 0.5 ? high - (high - low) * (1 - part) : low + (high - low) * part; /* from the nearer end, as numpy does */
}

/* Order of doubles as order of integers. */
static uint64_t key_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 != 0 ? ~bits : bits | (uint64_t)1 << 63;
}

static double value_of(uint64_t key)
{
    double value;
    const uint64_t bits = key >> 63 != 0 ? key & ~((uint64_t)1 << 63) : ~key;
    memcpy(&value, &bits, sizeof value);
    return value;
}

tdm_status tdmi_hta_describe_values(double *value, size_t count, tdmi_hta_describe *out)
{
    double sum = 0, squares = 0;
    *out = (tdmi_hta_describe){.count = (double)count, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (count == 0)
        return TDM_OK;
    tdmi_hta_key *key = tdmi_malloc(2 * count * sizeof *key, "hta describe");
    if (key == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        key[i] = (tdmi_hta_key){.key = key_of(value[i])};
        sum += value[i];
    }
    tdmi_hta_sort(key, key + count, count);
    out->mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) {
        value[i] = value_of(key[i].key);
        squares += (value[i] - out->mean) * (value[i] - out->mean);
    }
    tdmi_free(key);
    out->std = count > 1 ? sqrt(squares / (double)(count - 1)) : NAN;
    out->min = value[0];
    out->quarter = tdmi_hta_quantile(value, count, 0.25);
    out->half = tdmi_hta_quantile(value, count, 0.5);
    out->three_quarters = tdmi_hta_quantile(value, count, 0.75);
    out->max = value[count - 1];
    return TDM_OK;
}
