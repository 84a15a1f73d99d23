/* token_bin.c - 16-bit tokens, little endian, with llm.c's header or without one.
 *
 * Header: 256 int32, of which the first three are magic 20240520, version 1, number of tokens. Read as a token, the first half
 * of the magic would be 55432: beyond GPT-2's vocabulary, so no plain file of GPT-2 tokens begins like a header. */
#include "data/token_format.h"

enum { HEADER_BYTES = 1024, MAGIC = 20240520, VERSION = 1 };

static uint32_t word(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static tdm_status measure(const char *path, const uint8_t *head, size_t nbytes, uint64_t file_bytes, uint64_t *first_byte,
                          uint64_t *count)
{
    if (file_bytes % 2 != 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has %llu bytes, an odd number: not a file of 16-bit tokens, or cut off", path,
                         (unsigned long long)file_bytes);
    if (nbytes < 4 || word(head) != MAGIC) {
        *first_byte = 0;
        *count = file_bytes / 2;
        return TDM_OK;
    }
    if (file_bytes < HEADER_BYTES)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has a token header cut off after %llu of %d bytes", path,
                         (unsigned long long)file_bytes, HEADER_BYTES);
    if (word(head + 4) != VERSION)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has a token header of version %d, expected version %d", path,
                         (int32_t)word(head + 4), VERSION);
    *first_byte = HEADER_BYTES;
    *count = (file_bytes - HEADER_BYTES) / 2;
    if ((uint64_t)word(head + 8) != *count)
        return tdmi_fail(TDM_ERR_BAD_FILE,
                         "%s promises %u tokens in its header, but its %llu bytes hold %llu; it was cut off or is still being "
                         "written",
                         path, word(head + 8), (unsigned long long)file_bytes, (unsigned long long)*count);
    return TDM_OK;
}

static void widen(const uint8_t *raw, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = raw[2 * i] | raw[2 * i + 1] << 8;
}

const tdmi_token_format tdmi_token_bin = {.name = "uint16", .width = 2, .vocab = 50257, .measure = measure, .widen = widen};
