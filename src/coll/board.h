/* board.h - where one rank of a group writes, in its own shared memory, what its peers on the node look for.
 *
 * A slot a call, used in turn: which call, how often this rank has published in it, and where its buffers are. A slot is
 * written again TDMI_SLOTS calls later, and only when every rank has finished the old call and was found to have made the same
 * calls (history.h). One writer a line. */
#ifndef TDMI_COLL_BOARD_H
#define TDMI_COLL_BOARD_H

#include "coll/signature.h"
#include "transport/shm/node.h"

#include <stdatomic.h>
#include <stddef.h>

#define TDMI_SLOTS 64
#define TDMI_ELSEWHERE_BYTES 384
#define TDMI_PHASE_BITS 24 /* of a slot's word: times published; the rest is the number of the call, from 1 */

/* Where the part of IN for a rank lies, in elements. */
typedef struct tdmi_row {
    uint64_t first, count;
} tdmi_row;

typedef struct tdmi_slot {
    _Alignas(128) _Atomic uint64_t word; /* 0: being written. Release; pairs with acquire in tdmi_meet. All below comes before it */
    _Atomic uint64_t history;            /* of all calls up to this one */
    union {
        struct {
            tdmi_place in, out;
            uint64_t done;       /* with STAGE: calls this rank had finished */
            /* Behind the line of `word`: written and read by calls that need it, for every line that peers fetch takes time. */
            tdmi_place stage, rows; /* rows: [n] of tdmi_row, its parts of IN for each rank, in calls that are pairwise */
        };
        unsigned char data[TDMI_EAGER_BYTES]; /* SLOT, in calls that use it; TDMI_SLOT_LINE_BYTES are in the line of `word` */
    };
    uint8_t signature[TDMI_SIGNATURE_BYTES]; /* peers read it, and the label, to say which calls differ */
    char label[TDMI_LABEL_BYTES];
} tdmi_slot;
#define TDMI_SLOT_LINE_BYTES 48
_Static_assert(offsetof(tdmi_slot, data) + TDMI_SLOT_LINE_BYTES == 64 && offsetof(tdmi_slot, done) + 8 <= 64, "one line");

typedef struct tdmi_board {
    _Alignas(128) _Atomic uint64_t started; /* number of this rank's last call */
    _Alignas(128) _Atomic uint64_t done;    /* all calls up to this one are finished here */
    /* how the group ended for this rank: group/ writes and reads these */
    _Alignas(128) _Atomic uint32_t left;    /* 1: it said goodbye */
    _Atomic uint32_t forgotten;             /* ranks of the node that will not look here again */
    _Atomic uint32_t failure;               /* a tdm_status; release, after the text */
    char failure_text[TDMI_ERROR_TEXT_MAX];
    _Atomic uint64_t elsewhere[TDMI_ELSEWHERE_BYTES / 8]; /* text: where this rank waits instead; group/elsewhere.c */
    tdmi_slot slot[TDMI_SLOTS];
} tdmi_board;

static inline uint64_t tdmi_slot_word(uint64_t number, uint32_t phase)
{
    return number << TDMI_PHASE_BITS | phase;
}

#endif
