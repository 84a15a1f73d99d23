/* wire.h - the frames of the TCP store, byte by byte (docs/wire.md). */
#ifndef TDMI_STORE_WIRE_H
#define TDMI_STORE_WIRE_H

#include "store/store.h"

typedef enum {
    TDMI_STORE_SET = 1,
    TDMI_STORE_GET = 2,    /* answered once the key exists */
    TDMI_STORE_ADD = 3,    /* value: the delta, 8 bytes */
    TDMI_STORE_HAS = 4,    /* answered with one byte, 0 or 1 */
    TDMI_STORE_DELETE = 5,
    TDMI_STORE_OFFER = 6,
    TDMI_STORE_WILL = 7,
    TDMI_STORE_CANCEL = 8, /* the GET of this id is given up; no answer to either afterwards */
} tdmi_store_op;

#define TDMI_STORE_FRAME_HEADER 16
#define TDMI_STORE_FRAME_MAX (TDMI_STORE_FRAME_HEADER + TDMI_STORE_KEY_MAX + TDMI_STORE_VALUE_MAX)

/* A request, or an answer: `code` is an operation or a tdm_status, an answer has no key. key and value point into the bytes
 * that were parsed; the key has no NUL. */
typedef struct tdmi_store_frame {
    uint8_t code;
    uint64_t id;
    const char *key;
    size_t key_nbytes;
    const uint8_t *value;
    size_t value_nbytes;
} tdmi_store_frame;

/* The bytes before key and value. */
void tdmi_store_frame_header(uint8_t header[TDMI_STORE_FRAME_HEADER], const tdmi_store_frame *frame);
/* Reads one frame from the front of `bytes`. Gives the bytes it took, 0 when the frame is not complete yet, -1 when these
 * bytes are no frame (error text says why). */
int64_t tdmi_store_frame_parse(const uint8_t *bytes, size_t nbytes, bool is_request, tdmi_store_frame *out);

uint64_t tdmi_read_le64(const uint8_t *bytes);
void tdmi_write_le64(uint8_t *bytes, uint64_t value);

#endif
