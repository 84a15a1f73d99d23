/* printable.c - what a terminal would obey, or could not show, becomes '?'. */
#include "core/printable.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at `at`, 0 if it is no UTF-8. A NUL is no continuation, so nothing beyond the text's end is read. */
static size_t decode(const unsigned char *at, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : at[0] >= 0xf0 && at[0] < 0xf5 ? 4 : 0;
    *code = n < 2 ? at[0] : at[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (at[i] & 0x3f);
    }
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

/* A tab too: it has no width that a table could count with. */
static bool obeyed(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void tdmi_printable(char *text, bool lines)
{
    char *to = text;
    uint32_t code;
    for (const char *from = text; *from != '\0';) {
        const size_t n = decode((const unsigned char *)from, &code);
        if (n == 0 || (obeyed(code) && !(lines && code == '\n'))) {
            *to++ = '?';
            from += n > 0 ? n : 1;
        } else {
            for (size_t i = 0; i < n; i++)
                *to++ = *from++;
        }
    }
    *to = '\0';
}
