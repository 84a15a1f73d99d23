/* ranges.h - which parts of an address range are free: best fit, neighbours join again. Pure bookkeeping, no memory of
 * its own behind the range. */
#ifndef TDMI_TRANSPORT_SHM_RANGES_H
#define TDMI_TRANSPORT_SHM_RANGES_H

#include "core/error.h"

typedef struct tdmi_free_range {
    size_t offset, nbytes;
} tdmi_free_range;

typedef struct tdmi_ranges {
    tdmi_free_range *free; /* sorted by offset, no two touch */
    size_t count, capacity;
    size_t held; /* blocks taken and not given back */
} tdmi_ranges;

/* All of [first, first + nbytes) is free. */
tdm_status tdmi_ranges_init(tdmi_ranges *ranges, size_t first, size_t nbytes);
void tdmi_ranges_clear(tdmi_ranges *ranges);
/* Takes nbytes at an offset that leaves `phase` modulo `alignment` (a power of two). TDM_ERR_NO_SPACE: no hole is large
 * enough; the text is the caller's to write. */
tdm_status tdmi_ranges_take(tdmi_ranges *ranges, size_t nbytes, size_t alignment, size_t phase, size_t *offset_out);
/* Gives back exactly what was taken. Never fails: room for it was made when it was taken. */
void tdmi_ranges_give(tdmi_ranges *ranges, size_t offset, size_t nbytes);
size_t tdmi_ranges_largest(const tdmi_ranges *ranges);

#endif
