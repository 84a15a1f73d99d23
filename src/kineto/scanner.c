/* scanner.c - the window and its index. */
#include "kineto/scanner.h"

#include "core/memory.h"

#include <string.h>

enum { WINDOW = 256 << 10, PART = 16 << 10, FIRST_PART = 1 << 10, PAD = 64, GUARDS = 8 };

static void guard(tdmi_scanner *s)
{
    for (size_t i = 0; i < GUARDS; i++)
        s->token[s->token_count + i] = (uint32_t)s->text_count;
}

tdm_status tdmi_scanner_init(tdmi_scanner *s, tdmi_source *source)
{
    *s = (tdmi_scanner){.capacity = WINDOW, .stop_at = UINT64_MAX, .part = PART, .token_capacity = 2 * PART, .source = source, .index = tdmi_index_of(tdmi_cpu_isa())};
    s->text = tdmi_aligned_alloc(64, s->capacity + PAD, "trace window");
    s->token = tdmi_malloc((s->token_capacity + PAD + GUARDS) * sizeof *s->token, "trace window");
    if (s->text == NULL || s->token == NULL)
        return TDM_ERR_NO_MEMORY;
    memset(s->text, 0, PAD);
    guard(s);
    return TDM_OK;
}

void tdmi_scanner_drop(tdmi_scanner *s)
{
    tdmi_free(s->text);
    tdmi_free(s->token);
    *s = (tdmi_scanner){0};
}

/* Room for another part's tokens behind those from `at` on, which move to the front. */
static tdm_status make_token_room(tdmi_scanner *s, size_t more)
{
    const size_t held = s->token_count - s->at;
    memmove(s->token, s->token + s->at, held * sizeof *s->token);
    s->token_count = held;
    s->at = 0;
    if (held + more <= s->token_capacity)
        return TDM_OK;
    const size_t capacity = held + more > 2 * s->token_capacity ? held + more : 2 * s->token_capacity;
    uint32_t *token = tdmi_realloc(s->token, (capacity + PAD + GUARDS) * sizeof *token, "trace window");
    if (token == NULL)
        return TDM_ERR_NO_MEMORY;
    s->token = token;
    s->token_capacity = capacity;
    return TDM_OK;
}

/* Drops the text before `keep` and reads on. */
static tdm_status slide(tdmi_scanner *s)
{
    const size_t gone = s->keep;
    memmove(s->text, s->text + gone, s->text_count - gone);
    s->text_count -= gone;
    s->indexed -= gone;
    s->text_at += gone;
    s->keep = 0;
    for (size_t i = s->at; i < s->token_count; i++)
        s->token[i] -= (uint32_t)gone;
    if (s->text_count * 2 > s->capacity) { /* one unit fills half of it */
        uint8_t *text = tdmi_aligned_alloc(64, s->capacity * 2 + PAD, "trace window");
        if (text == NULL)
            return TDM_ERR_NO_MEMORY;
        memcpy(text, s->text, s->text_count);
        tdmi_free(s->text);
        s->text = text;
        s->capacity *= 2;
    }
    if (s->text_at > s->stop_at)
        s->ended = s->stopped = true;
    while (!s->ended && s->text_count < s->capacity) {
        const size_t got = tdmi_source_read(s->source, s->text + s->text_count, s->capacity - s->text_count);
        s->ended = got == 0;
        s->text_count += got;
    }
    memset(s->text + s->text_count, 0, PAD);
    return TDM_OK;
}

/* The next part of the text that is in the window and not in the index. */
static tdm_status index_part(tdmi_scanner *s, size_t part)
{
    size_t to = s->text_count;
    if (to - s->indexed > part)
        to = s->indexed + part;
    else if (!s->ended)
        to = s->indexed + (to - s->indexed) / 64 * 64;
    if (make_token_room(s, to - s->indexed) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    s->token_count += s->index(s->text, s->indexed, to, &s->state, s->token + s->token_count);
    s->indexed = to;
    guard(s);
    return TDM_OK;
}

tdm_status tdmi_scanner_more(tdmi_scanner *s, tdmi_more *out)
{
    const size_t had = s->token_count - s->at;
    s->part = s->part < PART ? s->part * 2 : PART; /* behind damage, which may come again soon, the first parts are small */
    size_t part = s->part;
    while (part < (s->indexed - s->keep) / 2) /* a unit that is long gets parts that grow: it is looked at a few times only */
        part *= 2;
    *out = TDMI_MORE;
    do {
        if (s->text_count - s->indexed < 64 && !s->ended) {
            if (s->text_count - s->keep >= TDMI_SCANNER_UNIT_MAX) {
                *out = TDMI_MORE_LARGE;
                return TDM_OK;
            }
            if (slide(s) != TDM_OK)
                return TDM_ERR_NO_MEMORY;
        }
        if (s->indexed == s->text_count) {
            guard(s);
            *out = TDMI_MORE_NONE;
            return TDM_OK;
        }
        if (index_part(s, part) != TDM_OK)
            return TDM_ERR_NO_MEMORY;
    } while (s->token_count - s->at == had);
    return TDM_OK;
}

void tdmi_scanner_restart(tdmi_scanner *s, size_t from)
{
    s->state = (tdmi_index_state){0};
    s->part = FIRST_PART / 2;
    s->at = s->token_count = 0;
    s->keep = s->indexed = from;
    guard(s);
}

/* More tokens, of text that nobody needs before them. */
static tdm_status pass(tdmi_scanner *s, bool *ended)
{
    tdmi_more more = TDMI_MORE_LARGE;
    tdm_status status = TDM_OK;
    while (status == TDM_OK && more == TDMI_MORE_LARGE) {
        s->keep = s->indexed;
        status = tdmi_scanner_more(s, &more);
    }
    *ended = more == TDMI_MORE_NONE;
    return status;
}

tdm_status tdmi_scanner_skip(tdmi_scanner *s, uint64_t depth, bool *closed)
{
    for (;;) {
        for (; s->at < s->token_count && depth > 0; s->at++) {
            const uint8_t c = s->text[s->token[s->at]];
            depth += (uint64_t)(c == '{' || c == '[') - (uint64_t)(c == '}' || c == ']');
        }
        *closed = depth == 0;
        if (depth == 0) {
            s->keep = s->at > 0 ? s->token[s->at - 1] : s->keep;
            return TDM_OK;
        }
        bool ended;
        const tdm_status status = pass(s, &ended);
        if (status != TDM_OK || ended)
            return status;
    }
}

tdm_status tdmi_scanner_reach(tdmi_scanner *s, bool *reached)
{
    bool ended = false;
    tdm_status status = TDM_OK;
    while (status == TDM_OK && s->at == s->token_count && !ended)
        status = pass(s, &ended);
    *reached = !ended;
    if (status == TDM_OK && !ended)
        s->keep = s->token[s->at];
    return status;
}

tdm_status tdmi_scanner_skip_token(tdmi_scanner *s, bool *closed)
{
    const tdm_status status = tdmi_scanner_reach(s, closed);
    s->at += status == TDM_OK && *closed;
    return status;
}

tdm_status tdmi_scanner_refill(tdmi_scanner *s, size_t keep, bool *ended)
{
    tdmi_scanner_restart(s, keep);
    *ended = s->ended;
    return s->ended ? TDM_OK : slide(s);
}
