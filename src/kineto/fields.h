/* fields.h - an object of JSON as the places of the values that matter.
 *
 * An object's members are walked once, without knowing yet what kind of object it is (its category may come last): each known key's value
 * is noted, the last one if there are several. Then whoever interprets the object reads what it needs. */
#ifndef TDMI_KINETO_FIELDS_H
#define TDMI_KINETO_FIELDS_H

#include "kineto/scanner.h"
#include "kineto/words.h"

#include <stdbool.h>

/* X(NAME, keys as files of some age have them). */
#define TDMI_FIELD_MAP(X)                                                                                              \
    X(PH, "ph") X(CAT, "cat") X(NAME, "name") X(PID, "pid") X(TID, "tid") X(TS, "ts") X(DUR, "dur") X(ARGS, "args")    \
    X(STREAM, "stream") X(CORRELATION, "correlation") X(DEVICE, "device") X(EXTERNAL_ID, "External id")                \
    X(GRID, "grid") X(BLOCK, "block") X(REGISTERS, "registers per thread") X(SHARED_MEMORY, "shared memory")           \
    X(GRAPH_ID, "graph id") X(BYTES, "bytes") X(BANDWIDTH, "memory bandwidth (GB/s)")                                  \
    X(SEQUENCE, "Sequence number") X(FORWARD_THREAD, "Fwd thread id") X(INPUT_DIMS, "Input Dims")                      \
    X(INPUT_TYPE, "Input type") X(CALL_STACK, "Call stack")                                                            \
    X(PYTHON_ID, "Python id") X(PYTHON_PARENT, "Python parent id") X(LABELS, "labels")                                 \
    X(MEMORY_BYTES, "Bytes") X(ADDRESS, "Addr") X(ALLOCATED, "Total Allocated") X(RESERVED, "Total Reserved")          \
    X(DEVICE_ID, "Device Id") X(DEVICE_TYPE, "Device Type")                                                            \
    X(COLLECTIVE, "Collective name") X(IN_COUNT, "In msg nelems") X(OUT_COUNT, "Out msg nelems")                       \
    X(GROUP_SIZE, "Group size") X(DTYPE, "dtype") X(IN_SPLIT, "In split size") X(OUT_SPLIT, "Out split size")          \
    X(GROUP_NAME, "Process Group Name") X(GROUP_DESC, "Process Group Description")                                     \
    X(GROUP_RANKS, "Process Group Ranks") X(RANK, "Rank") X(GLOBAL_START, "Global rank start")                         \
    X(GLOBAL_STRIDE, "Global rank stride") X(SRC_RANK, "Src Rank") X(DST_RANK, "Dst Rank") X(SEQ, "Seq")               \
    X(COMMS_ID, "Comms Id") X(IS_ASYNC, "Is asynchronized op")                                                         \
    X(WAIT_ON_STREAM, "wait_on_stream") X(RECORD_CORRELATION, "wait_on_cuda_event_record_corr_id")                     \
    X(WAIT_EVENT, "wait_on_cuda_event_id")

enum {
#define TDMI_FIELD_ENUM(NAME, key) TDMI_FIELD_##NAME,
    TDMI_FIELD_MAP(TDMI_FIELD_ENUM)
#undef TDMI_FIELD_ENUM
    TDMI_FIELD_OTHER, /* written, never read */
    TDMI_FIELDS
};
_Static_assert(TDMI_FIELDS <= 64, "fields are bits of a word");

#define TDMI_FIELDS_NEAR 6

typedef struct tdmi_value {
    uint32_t at, end; /* its first byte; of a string the closing quote, of { and [ the closing bracket, else 0 */
} tdmi_value;

typedef struct tdmi_fields {
    const uint8_t *text;
    size_t failed; /* the token near which something was not as expected; if it is within TDMI_FIELDS_NEAR of the last, more text may help */
    uint64_t has; /* a bit a field */
    tdmi_value value[TDMI_FIELDS];
} tdmi_fields;

/* The keys of events; made once. */
const tdmi_words *tdmi_field_words(void);

/* The object whose { is token `at`: fills `out`, and `args` from the object under "args" (both NULL: skip it). Returns the token behind its },
 * or 0: something is not as expected, or the tokens ended; out->failed. */
size_t tdmi_fields_walk(const tdmi_words *words, const uint8_t *text, const uint32_t *token, size_t at, tdmi_fields *out, tdmi_fields *args);
/* The token behind the bracket that closes the one at `at`, or 0: the tokens ended. */
size_t tdmi_fields_skip(const uint8_t *text, const uint32_t *token, size_t at);

static inline bool tdmi_has(const tdmi_fields *f, int field)
{
    return (f->has >> field & 1) != 0;
}

/* Its first byte; 0: there is no such field. */
static inline uint8_t tdmi_first(const tdmi_fields *f, int field)
{
    return tdmi_has(f, field) ? f->text[f->value[field].at] : 0;
}

/* Whole numbers, written as numbers or as strings that hold one. false: absent, null or none; *wrong counts those that are none or too large. */
bool tdmi_field_int(const tdmi_fields *f, int field, int64_t *out, uint64_t *wrong);
/* The same, clamped to 32 bits; `none` where there is none. */
int32_t tdmi_field_int32(const tdmi_fields *f, int field, int32_t none, uint64_t *wrong);

#endif
