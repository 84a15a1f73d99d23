/* ranges.c - free ranges in a sorted array. A program holds tens of blocks, so linear search is the fast way. */
#include "transport/shm/ranges.h"

#include "core/memory.h"

#include <string.h>

static tdm_status make_room(tdmi_ranges *ranges, size_t count)
{
    if (count <= ranges->capacity)
        return TDM_OK;
    size_t capacity = count * 2;
    tdmi_free_range *fresh = tdmi_realloc(ranges->free, capacity * sizeof *fresh, "arena free list");
    if (fresh == NULL)
        return TDM_ERR_NO_MEMORY;
    ranges->free = fresh;
    ranges->capacity = capacity;
    return TDM_OK;
}

tdm_status tdmi_ranges_init(tdmi_ranges *ranges, size_t first, size_t nbytes)
{
    *ranges = (tdmi_ranges){0};
    tdm_status status = make_room(ranges, 8);
    if (status != TDM_OK)
        return status;
    ranges->free[0] = (tdmi_free_range){.offset = first, .nbytes = nbytes};
    ranges->count = nbytes > 0 ? 1 : 0;
    return TDM_OK;
}

void tdmi_ranges_clear(tdmi_ranges *ranges)
{
    tdmi_free(ranges->free);
    *ranges = (tdmi_ranges){0};
}

static void remove_at(tdmi_ranges *ranges, size_t i)
{
    ranges->count--;
    memmove(ranges->free + i, ranges->free + i + 1, (ranges->count - i) * sizeof *ranges->free);
}

static void insert_at(tdmi_ranges *ranges, size_t i, tdmi_free_range range)
{
    memmove(ranges->free + i + 1, ranges->free + i, (ranges->count - i) * sizeof *ranges->free);
    ranges->free[i] = range;
    ranges->count++;
}

tdm_status tdmi_ranges_take(tdmi_ranges *ranges, size_t nbytes, size_t alignment, size_t phase, size_t *offset_out)
{
    /* Between two blocks that are held lies at most one free range: room for that many is room for every give to come. */
    tdm_status status = make_room(ranges, ranges->held + 3);
    if (status != TDM_OK)
        return status;
    size_t best = ranges->count, best_nbytes = SIZE_MAX, best_skip = 0;
    for (size_t i = 0; i < ranges->count; i++) {
        const tdmi_free_range *range = &ranges->free[i];
        size_t skip = (phase - range->offset) & (alignment - 1);
        if (range->nbytes >= skip && range->nbytes - skip >= nbytes && range->nbytes < best_nbytes) {
            best = i;
            best_nbytes = range->nbytes;
            best_skip = skip;
        }
    }
    if (best == ranges->count)
        return TDM_ERR_NO_SPACE;
    tdmi_free_range range = ranges->free[best];
    size_t offset = range.offset + best_skip, rest = range.nbytes - best_skip - nbytes;
    remove_at(ranges, best);
    if (rest > 0)
        insert_at(ranges, best, (tdmi_free_range){.offset = offset + nbytes, .nbytes = rest});
    if (best_skip > 0)
        insert_at(ranges, best, (tdmi_free_range){.offset = range.offset, .nbytes = best_skip});
    ranges->held++;
    *offset_out = offset;
    return TDM_OK;
}

void tdmi_ranges_give(tdmi_ranges *ranges, size_t offset, size_t nbytes)
{
    ranges->held--;
    size_t i = 0;
    while (i < ranges->count && ranges->free[i].offset < offset)
        i++;
    bool joins_next = i < ranges->count && offset + nbytes == ranges->free[i].offset;
    bool joins_last = i > 0 && ranges->free[i - 1].offset + ranges->free[i - 1].nbytes == offset;
    if (joins_last && joins_next) {
        ranges->free[i - 1].nbytes += nbytes + ranges->free[i].nbytes;
        remove_at(ranges, i);
    } else if (joins_last) {
        ranges->free[i - 1].nbytes += nbytes;
    } else if (joins_next) {
        ranges->free[i].offset = offset;
        ranges->free[i].nbytes += nbytes;
    } else {
        insert_at(ranges, i, (tdmi_free_range){.offset = offset, .nbytes = nbytes});
    }
}

size_t tdmi_ranges_largest(const tdmi_ranges *ranges)
{
    size_t largest = 0;
    for (size_t i = 0; i < ranges->count; i++)
        if (ranges->free[i].nbytes > largest)
            largest = ranges->free[i].nbytes;
    return largest;
}
