/* decode.h - the text between two quotes of JSON, as UTF-8. */
#ifndef TDMI_KINETO_DECODE_H
#define TDMI_KINETO_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most 3 bytes a byte of raw text. */
#define TDMI_DECODED_MAX(nbytes) ((nbytes) * 3)

/* Writes the decoded text to `out` (TDMI_DECODED_MAX bytes) and returns its length. Escapes become what they mean; unknown ones
 * (paths of Windows) stay as they stand; lone surrogates, bytes that are not UTF-8 and NUL become U+FFFD. *repaired: something of that
 * kind, or a control character, was there. */
size_t tdmi_decode(const uint8_t *raw, size_t nbytes, uint8_t *out, bool *repaired);

#endif
