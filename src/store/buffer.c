/* buffer.c - a growing byte queue. */
#include "store/buffer.h"

#include "core/memory.h"

#include <string.h>

tdm_status tdmi_buffer_reserve(tdmi_buffer *buffer, size_t nbytes)
{
    if (buffer->capacity - buffer->end >= nbytes)
        return TDM_OK;
    size_t held = tdmi_buffer_held(buffer);
    if (buffer->begin > 0 && buffer->begin >= held) { /* moving costs no more than what was taken */
        memcpy(buffer->data, tdmi_buffer_front(buffer), held);
        buffer->begin = 0;
        buffer->end = held;
        if (buffer->capacity - held >= nbytes)
            return TDM_OK;
    }
    size_t wanted = buffer->capacity == 0 ? 4096 : buffer->capacity * 2;
    while (wanted - buffer->end < nbytes)
        wanted *= 2;
    uint8_t *data = tdmi_realloc(buffer->data, wanted, "byte queue");
    if (data == NULL)
        return TDM_ERR_NO_MEMORY;
    buffer->data = data;
    buffer->capacity = wanted;
    return TDM_OK;
}

tdm_status tdmi_buffer_append(tdmi_buffer *buffer, const void *bytes, size_t nbytes)
{
    tdm_status status = tdmi_buffer_reserve(buffer, nbytes);
    if (status == TDM_OK && nbytes > 0) {
        memcpy(buffer->data + buffer->end, bytes, nbytes);
        buffer->end += nbytes;
    }
    return status;
}

void tdmi_buffer_take(tdmi_buffer *buffer, size_t nbytes)
{
    buffer->begin += nbytes;
    if (buffer->begin == buffer->end)
        buffer->begin = buffer->end = 0;
}

void tdmi_buffer_free(tdmi_buffer *buffer)
{
    tdmi_free(buffer->data);
    *buffer = (tdmi_buffer){0};
}
