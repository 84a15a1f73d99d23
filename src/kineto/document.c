/* document.c - from the first byte of the text to the last: members of the document, entries of traceEvents, one after another.
 *
 *   { "schemaVersion": 1, "traceEvents": [ {...}, {...}, ... ], "distributedInfo": {...} }       or       [ {...}, {...}, ... ]
 *
 * Objects in objects and arrays in arrays are entered, so that events that stand deeper are found; nothing here recurses. Each step
 * handles one member or entry as a whole, once all of it is in the window. */
#include "kineto/reader.h"

#include <string.h>

typedef enum { DONE, FAILED, UNEXPECTED } step_result; /* UNEXPECTED: not here, or not yet: see need_more */

enum { LOOK_AGAIN = 16, LOST_MAX_BYTES = 1 << 30 }; /* so much text without any event: nothing good follows */

static size_t offset_of(const tdmi_scanner *s, size_t token)
{
    return s->token[token];
}

static void step_to(tdmi_reader *r, size_t token)
{
    tdmi_scanner_done(&r->scanner, token, token > 0 ? r->scanner.token[token - 1] : r->scanner.keep);
}

/* Commas and white space may stand between two entries. Numbers, true, false and null are no tokens: they are seen here. */
static void count_scalars(tdmi_reader *r, size_t to)
{
    const uint8_t *text = r->scanner.text;
    if (!r->after_entry)
        return;
    for (size_t at = r->scanner.keep + 1; at < to;) {
        at = tdmi_skip_space(text, at);
        if (at < to && text[at] == ',') {
            at++;
            continue;
        }
        if (at < to) {
            r->trace->seen++;
            r->trace->wrong[TDMI_WRONG_NOT_OBJECT]++;
        }
        while (at < to && text[at] != ',')
            at++;
    }
}

static void entry_done(tdmi_reader *r, size_t behind)
{
    step_to(r, behind);
    r->after_entry = true;
}

static void enter_array(tdmi_reader *r)
{
    r->arrays++;
    entry_done(r, r->scanner.at + 1);
}

static void leave_array(tdmi_reader *r)
{
    entry_done(r, r->scanner.at + 1);
    if (--r->arrays == 0 && r->bare)
        r->level = 0;
}

/* An entry of traceEvents. */
static step_result read_entry(tdmi_reader *r, size_t *failed)
{
    tdmi_scanner *s = &r->scanner;
    const size_t start = offset_of(s, s->at);
    const uint8_t c = s->text[start];
    *failed = s->at;
    if (c == '{') {
        r->args.has = 0;
        r->args.text = s->text;
        const size_t behind = tdmi_fields_walk(tdmi_field_words(), s->text, s->token, s->at, &r->top, &r->args);
        if (behind == 0) {
            *failed = r->top.failed;
            return UNEXPECTED;
        }
        count_scalars(r, start);
        if (r->trace->seen >= TDMI_NONE)
            return UNEXPECTED;
        const uint64_t events = r->events;
        if (tdmi_reader_event(r, (uint32_t)r->trace->seen++) != TDM_OK)
            return FAILED;
        r->found_events |= r->events != events;
        if (tdmi_has(&r->top, TDMI_FIELD_PH))
            s->stop_at = s->text_at + start + LOST_MAX_BYTES;
        entry_done(r, behind);
        return DONE;
    }
    if (c == '[' || c == ']') {
        count_scalars(r, start);
        if (c == '[')
            enter_array(r);
        else
            leave_array(r);
        return DONE;
    }
    if (c == '"' && s->text[offset_of(s, s->at + 1)] == '"') {
        count_scalars(r, start);
        r->trace->seen++;
        r->trace->wrong[TDMI_WRONG_NOT_OBJECT]++;
        entry_done(r, s->at + 2);
        return DONE;
    }
    return UNEXPECTED;
}

bool tdmi_reader_is_events(const uint8_t *key, size_t nbytes)
{
    return nbytes == 11 && memcmp(key, "traceEvents", 11) == 0;
}

/* The array of events begins: token `at` is its bracket. A second one counts instead of the first, as of all keys. */
static step_result begin_events(tdmi_reader *r, size_t at)
{
    if (r->begun && r->first_damage == UINT64_MAX) {
        tdmi_reader_forget(r);
        if (!r->twice)
            tdmi_reader_note(r->trace, "it has traceEvents twice: the last counts");
        r->twice = true;
    }
    r->scanner.at = at;
    r->begun = r->found_events = true;
    enter_array(r);
    return DONE;
}

/* A member of an object: its key is token `at`. */
static step_result read_member(tdmi_reader *r, size_t *failed)
{
    tdmi_scanner *s = &r->scanner;
    const uint8_t *text = s->text;
    const size_t at = s->at, open = offset_of(s, at), close = offset_of(s, at + 1);
    *failed = at;
    if (text[open] == '}') {
        r->level--;
        r->in_distributed &= r->level > 1;
        step_to(r, at + 1);
        return DONE;
    }
    if (text[open] != '"' || text[close] != '"')
        return UNEXPECTED;
    size_t v = tdmi_skip_space(text, close + 1);
    if (text[v] != ':')
        return UNEXPECTED;
    v = tdmi_skip_space(text, v + 1);
    const uint8_t *key = text + open + 1;
    const size_t nbytes = close - open - 1;
    const bool bracket = text[v] == '{' || text[v] == '[', known = r->level == 1 ? tdmi_reader_is_head(key, nbytes) : r->in_distributed;
    tdmi_head_member m = {.key_at = open + 1, .key_nbytes = nbytes, .value = {.at = (uint32_t)v}, .token = at + 2};
    size_t behind = at + 2;
    if (text[v] == '"') {
        behind = at + 4;
        m.value.end = (uint32_t)offset_of(s, at + 3);
        if (offset_of(s, at + 2) != v || text[m.value.end] != '"')
            return UNEXPECTED;
    } else if (bracket) {
        if (offset_of(s, at + 2) != v)
            return UNEXPECTED;
        if (text[v] == '[' && tdmi_reader_is_events(key, nbytes) && (r->level == 1 || !r->begun))
            return begin_events(r, at + 2);
        if (text[v] == '{' && !known) {
            r->level++;
            step_to(r, at + 3);
            return DONE;
        }
        behind = tdmi_fields_skip(text, s->token, at + 2);
        if (behind == 0) {
            *failed = SIZE_MAX / 2;
            return UNEXPECTED;
        }
        m.value.end = (uint32_t)offset_of(s, behind - 1);
    } else if (offset_of(s, at + 2) == s->text_count && !s->ended) {
        *failed = SIZE_MAX / 2; /* a number that may go on */
        return UNEXPECTED;
    }
    if (known && tdmi_reader_head(r, &m) != TDM_OK)
        return FAILED;
    step_to(r, behind);
    return DONE;
}

static bool begins_distributed(const tdmi_scanner *s)
{
    static const char key[] = "\"distributedInfo\"";
    return memcmp(s->text + offset_of(s, s->at), key, sizeof key - 1) == 0 && s->text[offset_of(s, s->at + 2)] == '{';
}

/* Something at token `at` is too long to be held: goes behind it. */
static tdm_status skip_large(tdmi_reader *r, bool *closed)
{
    tdmi_scanner *s = &r->scanner;
    const size_t tokens = s->token_count - s->at;
    if (tokens == 0) /* white space, or numbers, without an end */
        return tdmi_scanner_reach(s, closed);
    if (r->arrays == 0 && r->level == 1 && tokens > 2 && begins_distributed(s)) {
        r->level++; /* who is in which group fills it; the rank stands beside */
        r->in_distributed = *closed = true;
        step_to(r, s->at + 3);
        return TDM_OK;
    }
    r->trace->wrong[TDMI_WRONG_TOO_LARGE]++;
    r->trace->seen += r->arrays > 0;
    r->after_entry = true;
    if (r->arrays == 0) /* a member: its key, then its value */
        s->at += tokens < 3 ? tokens - 1 : 2;
    const uint8_t c = s->text[offset_of(s, s->at++)];
    return c == '{' || c == '[' ? tdmi_scanner_skip(s, 1, closed) : tdmi_scanner_skip_token(s, closed);
}

/* How the document begins. A bare array is one of events. */
static tdm_status begin(tdmi_reader *r, bool *good)
{
    tdmi_scanner *s = &r->scanner;
    tdmi_more more;
    const tdm_status status = tdmi_scanner_more(s, &more);
    if (status != TDM_OK)
        return status;
    size_t at = s->text_count >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    at = tdmi_skip_space(s->text, at);
    *good = more == TDMI_MORE && offset_of(s, 0) == at && (s->text[at] == '{' || s->text[at] == '[');
    r->level = 1;
    r->json = *good;
    s->stop_at = LOST_MAX_BYTES;
    if (!*good)
        return TDM_OK;
    if (s->text[at] == '[') {
        r->bare = r->begun = true;
        enter_array(r);
    } else {
        step_to(r, 1);
    }
    return TDM_OK;
}

/* Behind the document there should be nothing. */
static tdm_status look_behind(tdmi_reader *r)
{
    tdmi_scanner *s = &r->scanner;
    size_t at = s->at > 0 ? offset_of(s, s->at - 1) + 1 : s->keep;
    bool ended = false;
    while (!ended) {
        at = tdmi_skip_space(s->text, at);
        if (at < s->text_count) {
            tdmi_reader_note(r->trace, "behind its end, at byte %llu of the text, there is something else, which is left out",
                             (unsigned long long)(s->text_at + at));
            return TDM_OK;
        }
        const tdm_status status = tdmi_scanner_refill(s, s->text_count, &ended);
        if (status != TDM_OK)
            return status;
        at = 0;
    }
    return TDM_OK;
}

/* The text ended inside of the document. */
static void ended_early(tdmi_reader *r, bool between)
{
    const tdmi_scanner *s = &r->scanner;
    if (s->stopped)
        tdmi_reader_note(r->trace, "behind byte %llu of its text there are %d MiB without an event: the rest was not read",
                         (unsigned long long)(s->stop_at - LOST_MAX_BYTES), LOST_MAX_BYTES >> 20);
    else if (between)
        tdmi_reader_note(r->trace, "its closing brackets are missing: it may have been cut%s", r->arrays > 0 ? " between two events" : "");
    else
        tdmi_reader_note(r->trace, "it ends in the middle of %s, at byte %llu of its text: it was cut", r->arrays > 0 ? "an event" : "its head",
                         (unsigned long long)(s->text_at + s->text_count));
    r->trace->truncated |= !between || s->stopped;
}

/* What was met is not as expected: there is more to come, it is too large, the text has ended, or it is damaged. */
static tdm_status unexpected(tdmi_reader *r, size_t failed, bool *end)
{
    tdmi_scanner *s = &r->scanner;
    const bool near_end = failed >= s->token_count || s->token_count - failed <= TDMI_FIELDS_NEAR;
    bool good = true;
    tdm_status status;
    if (near_end) {
        tdmi_more more;
        status = tdmi_reader_check_memory(r);
        if (status == TDM_OK)
            status = tdmi_scanner_more(s, &more);
        if (status != TDM_OK || more == TDMI_MORE)
            return status;
        if (more == TDMI_MORE_LARGE) {
            status = skip_large(r, &good);
            *end = !good;
            if (*end)
                ended_early(r, false);
            return status;
        }
        if (s->at >= s->token_count) {
            *end = true;
            ended_early(r, r->begun);
            return TDM_OK;
        }
    }
    const size_t from = offset_of(s, s->at), to = failed < s->token_count ? offset_of(s, failed) : s->text_count;
    const uint64_t damage_at = s->text_at + from;
    r->after_entry = false;
    /* What is damaged is searched for whole events inside. A file made to be damaged at every byte gets no second look. */
    r->looked_again += to - from;
    status = tdmi_reader_resume(r, r->looked_again / LOOK_AGAIN < damage_at + TDMI_SCANNER_UNIT_MAX || to <= from ? from + 1 : to, &good);
    *end = !good;
    if (good || !near_end) {
        r->trace->wrong[TDMI_WRONG_DAMAGED]++;
        r->first_damage = damage_at < r->first_damage ? damage_at : r->first_damage;
    }
    if (*end)
        ended_early(r, false);
    return status;
}

tdm_status tdmi_reader_document(tdmi_reader *r)
{
    bool good = false, end = false;
    tdm_status status = begin(r, &good);
    if (status == TDM_OK && !good)
        status = tdmi_reader_resume(r, 0, &good);
    if (status != TDM_OK || !good)
        return status;
    while (status == TDM_OK && !end && r->level > 0) {
        size_t failed;
        const step_result result = r->arrays > 0 ? read_entry(r, &failed) : read_member(r, &failed);
        if (result == FAILED)
            return TDM_ERR_NO_MEMORY;
        if (result == UNEXPECTED)
            status = unexpected(r, failed, &end);
    }
    return status == TDM_OK && !end ? look_behind(r) : status;
}
