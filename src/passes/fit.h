/* fit.h - offsets for blocks of memory with lifetimes, in one slab: what is in use at the same time does not overlap. */
#ifndef TDMI_PASSES_FIT_H
#define TDMI_PASSES_FIT_H

#include "core/error.h"

#define TDMI_FIT_RESIDUES 16

typedef struct tdmi_fit_block {
    int id;
    int first, last; /* in use, both inclusive */
    int residue;     /* below TDMI_FIT_RESIDUES: which offset modulo 4096; -1: any multiple of 64 */
    size_t nbytes, offset;
} tdmi_fit_block;

/* Largest first, each into the smallest hole that fits between those already placed that live at the same time. Sorts the
 * blocks and fills their offsets; *nbytes_out: where the last one ends. */
tdm_status tdmi_fit(tdmi_fit_block *blocks, int count, size_t *nbytes_out);

#endif
