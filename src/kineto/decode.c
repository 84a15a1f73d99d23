/* decode.c - escapes and UTF-8. Runs once a distinct text, not once an event. */
#include "kineto/decode.h"

#include <string.h>

/* How many bytes the character at `at` has, checked; 0: it is no UTF-8. */
static size_t character(const uint8_t *at, size_t left)
{
    const uint8_t c = at[0];
    if (c < 0x80)
        return 1;
    const size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] > 0x9f) || (c == 0xf0 && at[1] < 0x90) || (c == 0xf4 && at[1] > 0x8f))
        return 0; /* longer than it need be, a surrogate, or above U+10FFFF */
    return n;
}

static uint8_t *put(uint8_t *out, uint32_t point)
{
    if (point < 0x80) {
        *out++ = (uint8_t)point;
    } else if (point < 0x800) {
        *out++ = (uint8_t)(0xc0 | point >> 6);
        *out++ = (uint8_t)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *out++ = (uint8_t)(0xe0 | point >> 12);
        *out++ = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (point & 0x3f));
    } else {
        *out++ = (uint8_t)(0xf0 | point >> 18);
        *out++ = (uint8_t)(0x80 | (point >> 12 & 0x3f));
        *out++ = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (point & 0x3f));
    }
    return out;
}

/* Four hexadecimal digits, or UINT32_MAX. */
static uint32_t four(const uint8_t *at, size_t left)
{
    uint32_t value = 0;
    if (left < 4)
        return UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = at[i], letter = (uint8_t)((c | 0x20) - 'a');
        if ((unsigned)(c - '0') < 10)
            value = value << 4 | (uint32_t)(c - '0');
        else if (letter < 6)
            value = value << 4 | (uint32_t)(letter + 10);
        else
            return UINT32_MAX;
    }
    return value;
}

/* The escape at `at` (a backslash): writes what it means, returns how many bytes it is. */
static size_t escape(const uint8_t *at, size_t left, uint8_t **out, bool *repaired)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = left > 1 && at[1] != '\0' ? strchr(from, at[1]) : NULL;
    if (known != NULL) {
        *(*out)++ = (uint8_t)to[known - from];
        return 2;
    }
    uint32_t point = left > 1 && at[1] == 'u' ? four(at + 2, left - 2) : UINT32_MAX;
    if (point == UINT32_MAX) {
        *repaired = true;
        *(*out)++ = '\\';
        return 1;
    }
    size_t used = 6;
    if (point >= 0xd800 && point < 0xdc00 && left >= 12 && at[6] == '\\' && at[7] == 'u') {
        const uint32_t low = four(at + 8, left - 8);
        if (low >= 0xdc00 && low < 0xe000) {
            point = 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00));
            used = 12;
        }
    }
    if (point == 0 || (point >= 0xd800 && point < 0xe000)) {
        *repaired = true;
        point = 0xfffd;
    }
    *out = put(*out, point);
    return used;
}

size_t tdmi_decode(const uint8_t *raw, size_t nbytes, uint8_t *out, bool *repaired)
{
    uint8_t *next = out;
    *repaired = false;
    for (size_t i = 0; i < nbytes;) {
        if (raw[i] == '\\') {
            i += escape(raw + i, nbytes - i, &next, repaired);
            continue;
        }
        const size_t n = raw[i] == '\0' ? 0 : character(raw + i, nbytes - i);
        *repaired |= raw[i] < 0x20 || n == 0;
        if (n == 0)
            next = put(next, 0xfffd);
        for (size_t k = 0; k < n; k++)
            *next++ = raw[i + k];
        i += n == 0 ? 1 : n;
    }
    return (size_t)(next - out);
}
