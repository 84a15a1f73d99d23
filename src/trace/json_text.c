/* json_text.c - strings as JSON wants them. */
#include "trace/json_text.h"

/* Length of the valid UTF-8 character at `s`, or 0. */
static size_t utf8_length(const unsigned char *s)
{
    size_t length = 0;
    if (s[0] < 0x80)
        length = 1;
    else if (s[0] >= 0xc2 && s[0] < 0xe0)
        length = 2;
    else if ((s[0] & 0xf0) == 0xe0)
        length = 3;
    else if (s[0] >= 0xf0 && s[0] < 0xf5)
        length = 4;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)) /* too long; half of a surrogate pair */
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) /* too long; beyond U+10FFFF */
        return 0;
    return length;
}

void tdmi_json_put_string(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *s = (const unsigned char *)text; *s != 0;) {
        size_t length = utf8_length(s);
        if (length == 0)
            fputs("\\ufffd", f);
        else if (*s < 0x20)
            fprintf(f, "\\u%04x", *s);
        else {
            if (*s == '"' || *s == '\\')
                fputc('\\', f);
            fwrite(s, 1, length, f);
        }
        s += length == 0 ? 1 : length;
    }
    fputc('"', f);
}

void tdmi_utf8_clean(char *text)
{
    for (unsigned char *s = (unsigned char *)text; *s != 0;) {
        const size_t length = utf8_length(s);
        if (length == 0)
            *s = '?';
        s += length == 0 ? 1 : length;
    }
}
