/* direct_staged.h - what the files of direct_staged share: cutting what goes through STAGE into segments. */
#ifndef TDMI_COLL_DIRECT_STAGED_H
#define TDMI_COLL_DIRECT_STAGED_H

#include "coll/algorithm.h"

/* Up to here one segment: the second meeting costs more than the first-level cache gives. */
#define TDMI_STAGED_WHOLE_BYTES ((size_t)256 << 10)
#define TDMI_STAGED_SEGMENT_BYTES ((size_t)128 << 10)

/* A cut of `count` elements into segments of at most `length`. A count of 0 is one segment, which meets. */
typedef struct tdmi_cut {
    size_t count, length, segments;
} tdmi_cut;

/* `parts` of `count` elements each are in STAGE at a time. */
static inline tdmi_cut tdmi_cut_of(size_t count, tdm_dtype dtype, size_t parts)
{
    const size_t size = tdm_dtype_size(dtype) * parts;
    size_t length = (count * size <= TDMI_STAGED_WHOLE_BYTES ? TDMI_STAGED_WHOLE_BYTES : TDMI_STAGED_SEGMENT_BYTES) / size;
    if (length == 0)
        length = 1;
    return (tdmi_cut){.count = count, .length = count < length ? count : length,
                      .segments = count == 0 ? 1 : (count - 1) / length + 1};
}

/* Segment k of `part`, which may be shorter than what was cut. */
static inline tdmi_range tdmi_cut_piece(const tdmi_cut *c, tdmi_range part, size_t k)
{
    const size_t at = k * c->length < part.count ? k * c->length : part.count, rest = part.count - at;
    return tdmi_range_of(part.buffer, part.first + at, rest < c->length ? rest : c->length);
}

/* The same of the whole buffer. */
static inline tdmi_range tdmi_cut_segment(const tdmi_cut *c, tdmi_buffer buffer, size_t k)
{
    return tdmi_cut_piece(c, tdmi_range_of(buffer, 0, c->count), k);
}

/* What a rank of two gives to the other and gets of it: ranges of IN and OUT. */
typedef struct tdmi_exchanged {
    tdmi_range give, get;
    tdmi_range own; /* where `sums`: what comes is reduced with it */
    bool sums;
    tdmi_range kept, kept_in; /* of IN and OUT: copied along the way, or none */
} tdmi_exchanged;

/* direct_staged_pair.c: two ranks, both of which give or both of which get something. */
void tdmi_staged_pair(tdmi_steps *s, const tdmi_call *call, int rank, const tdmi_exchanged *what);

/* direct_staged_parts.c: the operations whose buffers have parts. */
void tdmi_staged_parts(tdmi_steps *s, const tdmi_call *call, int rank, int n);

#endif
