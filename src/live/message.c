/* message.c - reads datagrams of any sender, byte by byte; writes the answers. */
#include "live/message.h"

#include <string.h>

#define TYPE_BYTES 32
#define POLL_FIXED 16
#define CONTEXT_BYTES 16
#define MASK_ACTIVITIES 2 /* of what a process would accept now; bit 1, events, means nothing to anybody */

static uint64_t get(const uint8_t *at, int nbytes)
{
    uint64_t value = 0;
    for (int i = nbytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static bool has_type(const uint8_t *bytes, const char *type)
{
    uint8_t expected[TYPE_BYTES] = {0};
    memcpy(expected, type, strlen(type));
    return memcmp(bytes + 8, expected, TYPE_BYTES) == 0;
}

tdmi_message_kind tdmi_message_read(const uint8_t *bytes, size_t nbytes, tdmi_poll *poll)
{
    if (nbytes < TDMI_MESSAGE_HEAD || nbytes > TDMI_MESSAGE_MAX || get(bytes, 8) != nbytes - TDMI_MESSAGE_HEAD)
        return TDMI_MESSAGE_OTHER;
    const uint8_t *payload = bytes + TDMI_MESSAGE_HEAD;
    const size_t payload_bytes = nbytes - TDMI_MESSAGE_HEAD;
    if (has_type(bytes, "ctxt"))
        return payload_bytes == CONTEXT_BYTES ? TDMI_MESSAGE_CONTEXT : TDMI_MESSAGE_OTHER;
    if (!has_type(bytes, "req") || payload_bytes < POLL_FIXED)
        return TDMI_MESSAGE_OTHER;
    const uint64_t count = get(payload + 4, 4);
    if (count < 1 || count > TDMI_POLL_PIDS || payload_bytes != POLL_FIXED + 4 * count)
        return TDMI_MESSAGE_OTHER;
    tdmi_poll read = {.idle = (payload[0] & MASK_ACTIVITIES) != 0, .count = (int)count};
    for (int i = 0; i < read.count; i++) {
        const uint64_t pid = get(payload + POLL_FIXED + 4 * i, 4);
        if (pid < 1 || pid > INT32_MAX)
            return TDMI_MESSAGE_OTHER;
        read.pids[i] = (pid_t)pid;
    }
    *poll = read;
    return TDMI_MESSAGE_POLL;
}

static size_t write_message(const char *type, const void *payload, size_t payload_bytes, uint8_t *out, size_t capacity)
{
    if (capacity < TDMI_MESSAGE_HEAD || payload_bytes > capacity - TDMI_MESSAGE_HEAD)
        return 0;
    memset(out, 0, TDMI_MESSAGE_HEAD);
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(payload_bytes >> 8 * i);
    memcpy(out + 8, type, strlen(type));
    if (payload_bytes > 0)
        memcpy(out + TDMI_MESSAGE_HEAD, payload, payload_bytes);
    return TDMI_MESSAGE_HEAD + payload_bytes;
}

size_t tdmi_message_answer_poll(const char *configuration, uint8_t *out, size_t capacity)
{
    return write_message("req", configuration, strlen(configuration), out, capacity);
}

size_t tdmi_message_answer_context(int32_t processes, uint8_t *out, size_t capacity)
{
    uint8_t payload[4];
    for (int i = 0; i < 4; i++)
        payload[i] = (uint8_t)((uint32_t)processes >> 8 * i);
    return write_message("ctxt", payload, sizeof payload, out, capacity);
}
