/* recorder_layout.h - where things stand in a recorder's file (docs/recorder.md). Little endian, written field by field. */
#ifndef TDMI_TRACE_RECORDER_LAYOUT_H
#define TDMI_TRACE_RECORDER_LAYOUT_H

#include "trace/recorder.h"

#include <endian.h>
#include <string.h>

#define TDMI_REC_MAGIC "TNDMCALL"
#define TDMI_REC_VERSION 3u
#define TDMI_REC_NAME_BYTES 16   /* of an operation, a type, a reduction */
#define TDMI_REC_GROUPS 64
#define TDMI_REC_GROUP_BYTES 128
#define TDMI_REC_ENTRY_BYTES 256
#define TDMI_REC_ENTRIES 1024
#define TDMI_REC_GROUPS_AT 4096
#define TDMI_REC_ENTRIES_AT (TDMI_REC_GROUPS_AT + TDMI_REC_GROUPS * TDMI_REC_GROUP_BYTES)
#define TDMI_REC_FILE_BYTES (TDMI_REC_ENTRIES_AT + TDMI_REC_ENTRIES * TDMI_REC_ENTRY_BYTES)

#define TDMI_REC_HOST_BYTES 72
#define TDMI_REC_BOOT_BYTES 40
#define TDMI_REC_JOB_BYTES 72
#define TDMI_REC_GROUP_NAME_BYTES 64
#define TDMI_REC_SLOT_BITS 16 /* of an entry's key: index << 16 | slot */
#define TDMI_REC_FLAG 0x80u   /* of the bytes op, dtype and reduction: the numbers below it are names' */
#define TDMI_REC_UNEVEN 0x40u

enum {
    /* head, from the start of the file */
    TDMI_REC_AT_MAGIC = 0,
    TDMI_REC_AT_VERSION = 8,
    TDMI_REC_AT_ENTRY_COUNT = 12,
    TDMI_REC_AT_TAKEN = 16, /* indices of entries given to groups, in blocks */
    TDMI_REC_AT_PID = 24,
    TDMI_REC_AT_STATE = 28, /* a tdmi_rec_state */
    TDMI_REC_AT_BIRTH = 32,
    TDMI_REC_AT_RANK = 40,
    TDMI_REC_AT_SIZE = 44,
    TDMI_REC_AT_OFFSET = 48,
    TDMI_REC_AT_STATUS = 56,
    TDMI_REC_AT_HOST = 64,
    TDMI_REC_AT_BOOT = TDMI_REC_AT_HOST + TDMI_REC_HOST_BYTES,
    TDMI_REC_AT_JOB = TDMI_REC_AT_BOOT + TDMI_REC_BOOT_BYTES,
    TDMI_REC_AT_OPS = 256,
    TDMI_REC_AT_DTYPES = TDMI_REC_AT_OPS + TDMI_REC_NAMES * TDMI_REC_NAME_BYTES,
    TDMI_REC_AT_REDUCTIONS = TDMI_REC_AT_DTYPES + TDMI_REC_NAMES * TDMI_REC_NAME_BYTES,
    TDMI_REC_AT_ERROR = TDMI_REC_AT_REDUCTIONS + TDMI_REC_NAMES * TDMI_REC_NAME_BYTES,

    /* a group, from its place in the table */
    TDMI_REC_G_ID = 0,
    TDMI_REC_G_SIZE = 8,
    TDMI_REC_G_RANK = 12,
    TDMI_REC_G_NAME = 16,

    /* an entry, from its start. A call writes the first cache line; one that waits long the second, one with a label the third and,
     * if that is long, the fourth */
    TDMI_REC_E_KEY = 0, /* 0 while the entry is written */
    TDMI_REC_E_GROUP = 8,
    TDMI_REC_E_NUMBER = 16,
    TDMI_REC_E_COUNT = 24,
    TDMI_REC_E_CREATED = 32,
    TDMI_REC_E_STARTED = 40,
    TDMI_REC_E_FINISHED = 48,
    TDMI_REC_E_OP = 56,        /* flag: with an epilogue; or TDMI_REC_UNEVEN */
    TDMI_REC_E_DTYPE = 57,     /* flag: there is a label */
    TDMI_REC_E_REDUCTION = 58, /* flag: somebody looked who has arrived */
    TDMI_REC_E_STATE = 59,     /* a tdmi_call_state */
    TDMI_REC_E_ROOT = 60,
    TDMI_REC_E_ARRIVED = 64,
    TDMI_REC_E_MISSED = 72,
    TDMI_REC_E_MISSING = 80,
    TDMI_REC_E_FIRST_MISSING = 84,
    TDMI_REC_E_LABEL = 128,
};
_Static_assert(TDMI_REC_AT_JOB + TDMI_REC_JOB_BYTES <= TDMI_REC_AT_OPS && TDMI_REC_AT_ERROR + TDMI_ERROR_TEXT_MAX <= TDMI_REC_GROUPS_AT,
               "the head ends before the groups");
_Static_assert(TDMI_REC_E_LABEL + TDMI_LABEL_BYTES == TDMI_REC_ENTRY_BYTES, "an entry is full");

static inline void tdmi_rec_put32(uint8_t *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void tdmi_rec_put64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static inline uint32_t tdmi_rec_get32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t tdmi_rec_get64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

#endif
