/* buffer.h - bytes that arrive at one end and are taken from the other; grows, never shrinks. */
#ifndef TDMI_STORE_BUFFER_H
#define TDMI_STORE_BUFFER_H

#include "core/error.h"

typedef struct tdmi_buffer {
    uint8_t *data;
    size_t begin, end, capacity; /* [begin, end) is held */
} tdmi_buffer; /* all zero: empty */

static inline size_t tdmi_buffer_held(const tdmi_buffer *buffer)
{
    return buffer->end - buffer->begin;
}

static inline uint8_t *tdmi_buffer_front(const tdmi_buffer *buffer)
{
    return buffer->data == NULL ? NULL : buffer->data + buffer->begin; /* C has no NULL + 0 */
}

/* Makes room for nbytes behind `end`; write them there, then add to `end`. */
tdm_status tdmi_buffer_reserve(tdmi_buffer *buffer, size_t nbytes);
tdm_status tdmi_buffer_append(tdmi_buffer *buffer, const void *bytes, size_t nbytes);
void tdmi_buffer_take(tdmi_buffer *buffer, size_t nbytes); /* forgets bytes at the front */
void tdmi_buffer_free(tdmi_buffer *buffer);

#endif
