/* wire.c - store frames to bytes and back; bytes may come from anyone who knows the secret, so all lengths are checked. */
#include "store/wire.h"

#include <string.h>

static uint64_t read_le(const uint8_t *bytes, int count)
{
    uint64_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void write_le(uint8_t *bytes, uint64_t value, int count)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

uint64_t tdmi_read_le64(const uint8_t *bytes)
{
    return read_le(bytes, 8);
}

void tdmi_write_le64(uint8_t *bytes, uint64_t value)
{
    write_le(bytes, value, 8);
}

void tdmi_store_frame_header(uint8_t header[TDMI_STORE_FRAME_HEADER], const tdmi_store_frame *frame)
{
    header[0] = frame->code;
    header[1] = 0;
    write_le(header + 2, frame->key_nbytes, 2);
    write_le(header + 4, frame->value_nbytes, 4);
    write_le(header + 8, frame->id, 8);
}

static bool has_right_parts(const tdmi_store_frame *frame)
{
    switch (frame->code) {
    case TDMI_STORE_SET:
    case TDMI_STORE_OFFER:
    case TDMI_STORE_WILL:
        return frame->key_nbytes > 0;
    case TDMI_STORE_ADD:
        return frame->key_nbytes > 0 && frame->value_nbytes == 8;
    case TDMI_STORE_GET:
    case TDMI_STORE_HAS:
    case TDMI_STORE_DELETE:
        return frame->key_nbytes > 0 && frame->value_nbytes == 0;
    case TDMI_STORE_CANCEL:
        return frame->key_nbytes == 0 && frame->value_nbytes == 0;
    default:
        return false;
    }
}

int64_t tdmi_store_frame_parse(const uint8_t *bytes, size_t nbytes, bool is_request, tdmi_store_frame *out)
{
    if (nbytes < TDMI_STORE_FRAME_HEADER)
        return 0;
    tdmi_store_frame frame = {
        .code = bytes[0],
        .id = read_le(bytes + 8, 8),
        .key_nbytes = (size_t)read_le(bytes + 2, 2),
        .value_nbytes = (size_t)read_le(bytes + 4, 4),
    };
    if (bytes[1] != 0 || frame.key_nbytes >= TDMI_STORE_KEY_MAX || frame.value_nbytes > TDMI_STORE_VALUE_MAX ||
        (is_request ? !has_right_parts(&frame) : frame.key_nbytes != 0)) {
        tdmi_fail(TDM_ERR_MISMATCH, "no store frame: code %u, key of %zu bytes, value of %zu bytes", frame.code,
                  frame.key_nbytes, frame.value_nbytes);
        return -1;
    }
    size_t total = TDMI_STORE_FRAME_HEADER + frame.key_nbytes + frame.value_nbytes;
    if (nbytes < total)
        return 0;
    frame.key = (const char *)bytes + TDMI_STORE_FRAME_HEADER;
    frame.value = bytes + TDMI_STORE_FRAME_HEADER + frame.key_nbytes;
    if (memchr(frame.key, '\0', frame.key_nbytes) != NULL) {
        tdmi_fail(TDM_ERR_MISMATCH, "no store frame: a zero byte in the key");
        return -1;
    }
    *out = frame;
    return (int64_t)total;
}
