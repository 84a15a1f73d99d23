/* match.c - patterns over spans. */
#include "nccl_log/match.h"

#include <stdarg.h>
#include <string.h>

tdmi_span tdmi_span_of(const char *text)
{
    return (tdmi_span){text, strlen(text)};
}

tdmi_span tdmi_span_from(tdmi_span text, size_t offset)
{
    if (offset > text.nbytes)
        offset = text.nbytes;
    return (tdmi_span){text.at + offset, text.nbytes - offset};
}

bool tdmi_span_starts(tdmi_span text, const char *with)
{
    const size_t nbytes = strlen(with);
    return text.nbytes >= nbytes && memcmp(text.at, with, nbytes) == 0;
}

bool tdmi_span_is(tdmi_span text, const char *other)
{
    return text.nbytes == strlen(other) && tdmi_span_starts(text, other);
}

size_t tdmi_span_find(tdmi_span text, const char *what)
{
    const size_t nbytes = strlen(what);
    const char *found = text.nbytes > 0 ? memmem(text.at, text.nbytes, what, nbytes) : NULL;
    return found != NULL ? (size_t)(found - text.at) : text.nbytes;
}

bool tdmi_span_has(tdmi_span text, const char *what)
{
    return tdmi_span_find(text, what) < text.nbytes;
}

static bool take_decimal(tdmi_span *text, int64_t *out)
{
    const bool negative = text->nbytes > 0 && *text->at == '-';
    size_t at = negative ? 1 : 0;
    const size_t first = at;
    int64_t value = 0;
    for (; at < text->nbytes && text->at[at] >= '0' && text->at[at] <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text->at[at] - '0', &value))
            value = INT64_MAX;
    *out = negative ? -value : value;
    *text = tdmi_span_from(*text, at);
    return at > first;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_hex(tdmi_span *text, uint64_t *out)
{
    size_t at = tdmi_span_starts(*text, "0x") ? 2 : 0;
    const size_t first = at;
    uint64_t value = 0;
    for (int digit; at < text->nbytes && (digit = hex_digit(text->at[at])) >= 0; at++)
        value = value << 4 | (uint64_t)digit;
    *out = value;
    *text = tdmi_span_from(*text, at);
    return at > first;
}

static bool take_word(tdmi_span *text, char end, tdmi_span *out)
{
    size_t at = 0;
    while (at < text->nbytes && text->at[at] != ' ' && text->at[at] != '\t' && (end == '\0' || text->at[at] != end))
        at++;
    *out = (tdmi_span){text->at, at};
    *text = tdmi_span_from(*text, at);
    return at > 0;
}

bool tdmi_match(tdmi_span text, const char *pattern, ...)
{
    bool met = true;
    tdmi_span ignored;
    va_list args;
    va_start(args, pattern);
    for (const char *p = pattern; *p != '\0' && met; p++) {
        if (*p == ' ') {
            while (text.nbytes > 0 && (*text.at == ' ' || *text.at == '\t'))
                text = tdmi_span_from(text, 1);
        } else if (*p != '%') {
            met = text.nbytes > 0 && *text.at == *p;
            text = tdmi_span_from(text, 1);
        } else {
            const char kind = *++p, next = p[1] != '%' && p[1] != ' ' ? p[1] : '\0';
            if (kind == 'd')
                met = take_decimal(&text, va_arg(args, int64_t *));
            else if (kind == 'x')
                met = take_hex(&text, va_arg(args, uint64_t *));
            else if (kind == 'w')
                met = take_word(&text, next, va_arg(args, tdmi_span *));
            else if (kind == '*')
                met = take_word(&text, next, &ignored);
            else {
                *va_arg(args, tdmi_span *) = text;
                text = tdmi_span_from(text, kind == 'r' ? text.nbytes : 0);
            }
        }
    }
    va_end(args);
    return met;
}
