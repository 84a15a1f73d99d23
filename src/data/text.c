/* text.c - any file as tokens: its bytes. */
#include "data/token_format.h"

static tdm_status measure(const char *path, const uint8_t *head, size_t nbytes, uint64_t file_bytes, uint64_t *first_byte,
                          uint64_t *count)
{
    (void)path, (void)head, (void)nbytes;
    *first_byte = 0;
    *count = file_bytes;
    return TDM_OK;
}

static void widen(const uint8_t *raw, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = raw[i];
}

const tdmi_token_format tdmi_token_text = {.name = "bytes", .width = 1, .vocab = 256, .measure = measure, .widen = widen};
