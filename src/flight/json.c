/* json.c - a small reader of JSON, into the same values as pickles. */
#include "flight/json.h"

#include <stdlib.h>
#include <string.h>

#define LEVELS_MAX 64

typedef struct reader {
    const char *bytes;
    size_t nbytes, at;
    tdmi_values *values;
    tdm_status status;
} reader;

static tdmi_value *damaged(reader *r, const char *what)
{
    if (r->status == TDM_OK)
        r->status = r->at < r->nbytes
                        ? tdmi_fail(TDM_ERR_BAD_FILE, "the JSON is damaged at byte %zu: %s", r->at, what)
                        : tdmi_fail(TDM_ERR_BAD_FILE, "the JSON ends at byte %zu in the middle of a value: the file is cut", r->nbytes);
    return NULL;
}

static tdmi_value *make(reader *r, tdmi_value_kind kind)
{
    tdmi_value *value = tdmi_values_new(r->values, kind);
    if (value == NULL)
        r->status = r->values->status;
    return value;
}

static void skip_space(reader *r)
{
    while (r->at < r->nbytes && memchr(" \t\r\n", r->bytes[r->at], 4) != NULL)
        r->at++;
}

static bool take(reader *r, const char *word)
{
    const size_t nbytes = strlen(word);
    if (r->nbytes - r->at < nbytes || memcmp(r->bytes + r->at, word, nbytes) != 0)
        return false;
    r->at += nbytes;
    return true;
}

/* One character behind a backslash; \u beyond ASCII becomes '?': no name in a dump needs it. */
static char unescape(const char *at, size_t nbytes, size_t *used)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    *used = 1;
    if (nbytes == 0)
        return '?';
    const char *found = memchr(from, *at, sizeof from - 1);
    if (found != NULL)
        return to[found - from];
    if (*at != 'u' || nbytes < 5)
        return '?';
    char digits[5] = {at[1], at[2], at[3], at[4], '\0'};
    *used = 5;
    const long code = strtol(digits, NULL, 16);
    return code > 0 && code < 0x80 ? (char)code : '?';
}

static tdmi_value *read_text(reader *r)
{
    const char *first = r->bytes + ++r->at;
    bool escaped = false;
    while (r->at < r->nbytes && r->bytes[r->at] != '"') {
        escaped |= r->bytes[r->at] == '\\';
        r->at += r->bytes[r->at] == '\\' ? 2 : 1;
    }
    if (r->at >= r->nbytes) {
        r->at = r->nbytes;
        return damaged(r, "");
    }
    const size_t nbytes = (size_t)(r->bytes + r->at - first);
    r->at++;
    tdmi_value *value = make(r, TDMI_VALUE_TEXT);
    if (value == NULL)
        return NULL;
    value->as.text.at = first;
    value->as.text.nbytes = nbytes;
    if (!escaped)
        return value;
    char *copy = tdmi_values_take(r->values, nbytes);
    if (copy == NULL) {
        r->status = r->values->status;
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0, used; i < nbytes; i += used) {
        used = 1;
        copy[n++] = first[i] != '\\' ? first[i] : unescape(first + i + 1, nbytes - i - 1, &used);
        used += first[i] == '\\';
    }
    value->as.text.at = copy;
    value->as.text.nbytes = n;
    return value;
}

static tdmi_value *read_number(reader *r)
{
    char text[64], *end;
    size_t n = 0;
    bool real = false;
    while (r->at + n < r->nbytes && n + 1 < sizeof text && r->bytes[r->at + n] != '\0' &&
           strchr("+-0123456789.eE", r->bytes[r->at + n]) != NULL) {
        text[n] = r->bytes[r->at + n];
        real |= text[n] == '.' || text[n] == 'e' || text[n] == 'E';
        n++;
    }
    text[n] = '\0';
    if (n == 0)
        return damaged(r, "no value begins like this");
    tdmi_value *value = make(r, real ? TDMI_VALUE_FLOAT : TDMI_VALUE_INT);
    if (value == NULL)
        return NULL;
    if (real)
        value->as.real = strtod(text, &end);
    else
        value->as.integer = strtoll(text, &end, 10);
    if (*end != '\0')
        return damaged(r, "a number that is none");
    r->at += n;
    return value;
}

static tdmi_value *read_value(reader *r, int level);

static bool read_member(reader *r, tdmi_value *into, int level)
{
    if (into->kind == TDMI_VALUE_DICT) {
        if (r->at >= r->nbytes || r->bytes[r->at] != '"')
            return damaged(r, "a name was expected") != NULL;
        tdmi_value *name = read_text(r);
        skip_space(r);
        if (name == NULL || !take(r, ":"))
            return damaged(r, "a colon was expected") != NULL;
        if (!tdmi_values_append(r->values, into, name)) {
            r->status = r->values->status;
            return false;
        }
    }
    tdmi_value *item = read_value(r, level + 1);
    if (item != NULL && !tdmi_values_append(r->values, into, item))
        r->status = r->values->status;
    return item != NULL && r->status == TDM_OK;
}

static tdmi_value *read_items(reader *r, int level)
{
    const bool is_dict = r->bytes[r->at++] == '{';
    const char *end = is_dict ? "}" : "]";
    tdmi_value *into = level < LEVELS_MAX ? make(r, is_dict ? TDMI_VALUE_DICT : TDMI_VALUE_LIST) : damaged(r, "more than 64 levels");
    skip_space(r);
    if (into == NULL || take(r, end))
        return into;
    for (;;) {
        skip_space(r);
        if (!read_member(r, into, level))
            return NULL;
        skip_space(r);
        if (take(r, end))
            return into;
        if (!take(r, ","))
            return damaged(r, "a comma was expected");
    }
}

static tdmi_value *read_value(reader *r, int level)
{
    skip_space(r);
    if (r->at >= r->nbytes)
        return damaged(r, "");
    const char first = r->bytes[r->at];
    if (first == '{' || first == '[')
        return read_items(r, level);
    if (first == '"')
        return read_text(r);
    if (take(r, "null") || take(r, "NaN") || take(r, "Infinity") || take(r, "-Infinity"))
        return make(r, TDMI_VALUE_NONE);
    const bool yes = take(r, "true");
    if (!yes && !take(r, "false"))
        return read_number(r);
    tdmi_value *value = make(r, TDMI_VALUE_BOOL);
    if (value != NULL)
        value->as.integer = yes;
    return value;
}

tdm_status tdmi_flight_json_read(const uint8_t *bytes, size_t nbytes, tdmi_values *values, const tdmi_value **out)
{
    reader r = {.bytes = (const char *)bytes, .nbytes = nbytes, .values = values};
    const tdmi_value *value = read_value(&r, 0);
    skip_space(&r);
    if (value != NULL && r.at < nbytes)
        (void)damaged(&r, "something stands behind the value");
    if (r.status != TDM_OK)
        return r.status;
    *out = value;
    return TDM_OK;
}
