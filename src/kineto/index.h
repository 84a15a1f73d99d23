/* index.h - where the quotes and brackets of JSON text are: the first of the reader's two stages.
 *
 * An index lists, in order, the offsets of all quotes that begin or end a string and of all { } [ ] outside of strings. Commas, colons
 * and numbers are found from these by looking at the text. The second stage jumps from one to the next and looks at no other byte of
 * what it does not need. */
#ifndef TDMI_KINETO_INDEX_H
#define TDMI_KINETO_INDEX_H

#include "core/cpu.h"

#include <stddef.h>
#include <stdint.h>

/* Between the parts of one text: what the bytes before mean for those behind. Zero at the start. */
typedef struct tdmi_index_state {
    uint64_t in_string; /* all ones: inside of a string */
    uint64_t escaped;   /* 1: the next byte follows a backslash */
} tdmi_index_state;

/* Appends the offsets of [from, to) to `token`, which has room for to - from of them, and 64 more; returns how many they are.
 * to - from is a multiple of 64, but for the last part of a text. text has 64 readable bytes behind `to`. */
typedef size_t tdmi_index_function(const uint8_t *text, size_t from, size_t to, tdmi_index_state *state, uint32_t *token);

tdmi_index_function tdmi_index_plain, tdmi_index_avx2, tdmi_index_avx512;

/* The fastest for this processor that is not above `isa`. */
tdmi_index_function *tdmi_index_of(tdmi_isa isa);

#endif
