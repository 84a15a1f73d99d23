/* match.h - texts of a log as spans, and the little patterns that take them apart. */
#ifndef TDMI_NCCL_LOG_MATCH_H
#define TDMI_NCCL_LOG_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrows from the line it was cut from. */
typedef struct tdmi_span {
    const char *at;
    size_t nbytes;
} tdmi_span;

/* Reads `text` by `pattern` and gives whether all of the pattern was met; what is behind it does not matter. In the pattern
 *   space   any number of spaces, also none          other  itself
 *   %d      a whole number, int64_t *; one beyond its range stays at the end of it
 *   %x      a hexadecimal number, uint64_t *, with or without 0x
 *   %w      everything up to the next space, or to the character behind it in the pattern, tdmi_span *; not empty
 *   %r      the rest, tdmi_span *
 *   %*      a word as %w, not kept
 *   %@      nothing, where the text stands now, tdmi_span *: the rest */
bool tdmi_match(tdmi_span text, const char *pattern, ...);

bool tdmi_span_starts(tdmi_span text, const char *with);
bool tdmi_span_is(tdmi_span text, const char *other);
/* Where `what` first is; nbytes where it is not. */
size_t tdmi_span_find(tdmi_span text, const char *what);
bool tdmi_span_has(tdmi_span text, const char *what);
tdmi_span tdmi_span_from(tdmi_span text, size_t offset);
tdmi_span tdmi_span_of(const char *text);

#endif
