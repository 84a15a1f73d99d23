/* token_format.h - what a file format of tokens has to say; one file each. */
#ifndef TDMI_DATA_TOKEN_FORMAT_H
#define TDMI_DATA_TOKEN_FORMAT_H

#include "core/error.h"

#define TDMI_TOKEN_HEAD_BYTES 1024 /* of a file's start are shown to `measure` */

typedef struct {
    const char *name;
    uint32_t width; /* bytes of a token */
    uint32_t vocab; /* natural vocabulary */
    /* Where the tokens begin and how many there are. head: the first `nbytes` bytes, nbytes = min(file_bytes, 1024). */
    tdm_status (*measure)(const char *path, const uint8_t *head, size_t nbytes, uint64_t file_bytes, uint64_t *first_byte,
                          uint64_t *count);
    void (*widen)(const uint8_t *raw, size_t count, int32_t *out);
} tdmi_token_format;

extern const tdmi_token_format tdmi_token_text;
extern const tdmi_token_format tdmi_token_bin;

#endif
