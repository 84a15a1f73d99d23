/* scanner.h - a window that slides over the text, and the index of what is in it.
 *
 *   text     ...,{"ph":"X","cat":"ker|nel",...        the window ends anywhere: what does not end in it is looked at again
 *   token       {""  "" ""   "" "                     when more of the text has come
 *
 * Who reads takes tokens from `at` on. Behind the last token stand some that point to a '\0', which nobody expects: where something else than
 * expected is met, and only there, he asks whether the tokens had ended, gets more with tdmi_scanner_more, and begins again at `at`. */
#ifndef TDMI_KINETO_SCANNER_H
#define TDMI_KINETO_SCANNER_H

#include "kineto/index.h"
#include "kineto/source.h"

#define TDMI_SCANNER_UNIT_MAX ((size_t)4 << 20) /* bytes that are held together at most: of an event, or a value of the head */

typedef struct tdmi_scanner {
    uint8_t *text;           /* [capacity + 64], zeros behind text_count */
    size_t text_count, capacity;
    uint64_t text_at;        /* of text[0] in all the text */
    uint32_t *token;         /* offsets in text; [token_count] and some behind it point to text[text_count] */
    size_t token_count, token_capacity;
    size_t at;               /* the token that is next */
    size_t keep;             /* the first byte that is still needed: that token's, or before it */
    size_t indexed;          /* bytes of text that are in the index */
    size_t part;             /* bytes that are indexed at once */
    bool ended;              /* the source has no more, or is stopped */
    uint64_t stop_at;        /* bytes of text after which the source counts as ended */
    bool stopped;            /* that happened */
    tdmi_index_state state;
    tdmi_index_function *index;
    tdmi_source *source;
} tdmi_scanner;

tdm_status tdmi_scanner_init(tdmi_scanner *scanner, tdmi_source *source);
void tdmi_scanner_drop(tdmi_scanner *scanner);

typedef enum {
    TDMI_MORE,      /* there are more tokens behind those that were there */
    TDMI_MORE_NONE, /* the text has ended */
    TDMI_MORE_LARGE /* it is TDMI_SCANNER_UNIT_MAX already */
} tdmi_more;
/* text and token may move; `at` and `keep` move along. */
tdm_status tdmi_scanner_more(tdmi_scanner *scanner, tdmi_more *out);
/* Forgets the index from byte `from` of the window on and begins there anew, outside of strings. */
void tdmi_scanner_restart(tdmi_scanner *scanner, size_t from);
/* Everything before token `at` is done. */
static inline void tdmi_scanner_done(tdmi_scanner *scanner, size_t at, size_t keep)
{
    scanner->at = at;
    scanner->keep = keep;
}
/* Skips from token `at` to where `depth` open brackets are closed, however far that is; then `at` is the token behind. *closed: false if
 * the text ended before. */
tdm_status tdmi_scanner_skip(tdmi_scanner *scanner, uint64_t depth, bool *closed);
/* Goes on until there is a token `at`, however far it is. *reached: false if the text ended before. */
tdm_status tdmi_scanner_reach(tdmi_scanner *scanner, bool *reached);
/* The same, and behind it: the end of an endless string. */
tdm_status tdmi_scanner_skip_token(tdmi_scanner *scanner, bool *closed);
/* For who looks at the text itself: drops all tokens and what is before byte `keep`, and reads on. *ended: there was nothing to read. */
tdm_status tdmi_scanner_refill(tdmi_scanner *scanner, size_t keep, bool *ended);

static inline size_t tdmi_skip_space(const uint8_t *text, size_t at)
{
    while (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')
        at++;
    return at;
}

#endif
