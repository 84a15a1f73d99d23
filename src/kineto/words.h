/* words.h - which of some known words a piece of text is: one multiplication, one look, one comparison. */
#ifndef TDMI_KINETO_WORDS_H
#define TDMI_KINETO_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TDMI_WORDS_BITS 9
#define TDMI_WORD_MAX 40

typedef struct tdmi_word {
    const char *text; /* at most TDMI_WORD_MAX bytes */
    uint8_t id;
} tdmi_word;

typedef struct tdmi_words {
    uint64_t multiplier;
    uint8_t other; /* what no word is */
    struct {
        uint64_t first, last; /* its first and last eight bytes */
        const char *text;
        uint8_t nbytes, id;
    } slot[1 << TDMI_WORDS_BITS]; /* nbytes 0: free */
} tdmi_words;

/* Every word gets a slot of its own; a few dozen words fit. */
void tdmi_words_init(tdmi_words *words, const tdmi_word *word, size_t count, uint8_t other);

static inline uint64_t tdmi_words_load(const void *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline size_t tdmi_words_slot(uint64_t multiplier, uint64_t first, uint64_t last, size_t nbytes)
{
    return (size_t)(((first ^ (last << 7 | last >> 57)) + nbytes) * multiplier >> (64 - TDMI_WORDS_BITS));
}

/* text has 8 readable bytes behind its end. */
static inline uint8_t tdmi_words_find(const tdmi_words *words, const uint8_t *text, size_t nbytes)
{
    const uint64_t mask = nbytes >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << nbytes * 8) - 1;
    const uint64_t first = tdmi_words_load(text) & mask;
    const uint64_t last = tdmi_words_load(text + (nbytes > 8 ? nbytes - 8 : 0)) & mask;
    const size_t at = tdmi_words_slot(words->multiplier, first, last, nbytes);
    if (words->slot[at].first != first || words->slot[at].last != last || words->slot[at].nbytes != nbytes)
        return words->other;
    if (nbytes > 16 && memcmp(words->slot[at].text + 8, text + 8, nbytes - 16) != 0)
        return words->other;
    return words->slot[at].id;
}

#endif
