/* damage.c - where the text is no JSON: on to the next thing that looks right.
 *
 * A quote that is not escaped, a missing brace or a flipped byte costs what it stands in. Strings and brackets cannot be trusted there, so
 * the bytes themselves are searched: for an object that begins with a key of events, or for a key of the document. */
#include "kineto/reader.h"

#include <string.h>

enum { LOOK_AHEAD = 96 }; /* bytes that what is looked for takes, white space included */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The key at `at` (its quote), if a colon follows: its length, else 0. */
static size_t key_length(const uint8_t *text, size_t at, size_t end)
{
    size_t n = 0;
    if (text[at] != '"')
        return 0;
    while (at + 1 + n < end && n < 40 && text[at + 1 + n] != '"' && text[at + 1 + n] >= ' ')
        n++;
    if (at + 1 + n >= end || text[at + 1 + n] != '"')
        return 0;
    return text[tdmi_skip_space(text, at + 2 + n)] == ':' ? n : 0;
}

static bool begins_event(const uint8_t *text, size_t at, size_t from, size_t end)
{
    static const char *const keys[] = {"ph", "cat", "name", "ts", "pid", "tid", "dur", "args"};
    size_t before = at;
    while (before > from && is_space(text[before - 1]))
        before--;
    if (before > from && strchr(",[}", text[before - 1]) == NULL)
        return false; /* args of M events have a name, too, but stand behind a colon */
    const size_t key = tdmi_skip_space(text, at + 1), n = key_length(text, key, end);
    for (size_t i = 0; n > 0 && i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == n && memcmp(text + key + 1, keys[i], n) == 0)
            return true;
    return false;
}

static bool begins_member(const uint8_t *text, size_t at, size_t end)
{
    const size_t n = key_length(text, at, end);
    return n > 0 && (tdmi_reader_is_events(text + at + 1, n) || tdmi_reader_is_head(text + at + 1, n));
}

/* The first of both in [from, end), or `end`. */
static size_t search(const uint8_t *text, size_t from, size_t end, bool *event)
{
    for (size_t at = from; at < end; at++) {
        if (text[at] == '{' && begins_event(text, at, from, end)) {
            *event = true;
            return at;
        }
        if (text[at] == '"' && begins_member(text, at, end)) {
            *event = false;
            return at;
        }
    }
    return end;
}

tdm_status tdmi_reader_resume(tdmi_reader *r, size_t from, bool *found)
{
    tdmi_scanner *s = &r->scanner;
    *found = false;
    for (;;) {
        bool event = false;
        const size_t at = search(s->text, from, s->text_count, &event);
        if (at + LOOK_AHEAD < s->text_count || (s->ended && at < s->text_count)) {
            *found = true;
            if (event) {
                r->arrays += r->arrays == 0;
                r->begun = true;
            } else {
                r->arrays = 0;
                r->level = 1;
                r->bare = false;
            }
            tdmi_scanner_restart(s, at);
            return TDM_OK;
        }
        size_t keep = s->text_count > LOOK_AHEAD ? s->text_count - LOOK_AHEAD : 0;
        keep = keep < from ? from : keep;
        keep = keep < at ? keep : at;
        const uint64_t text_at = s->text_at;
        bool ended;
        const tdm_status status = tdmi_scanner_refill(s, keep, &ended);
        if (status != TDM_OK || ended)
            return status;
        from = keep - (size_t)(s->text_at - text_at);
    }
}
