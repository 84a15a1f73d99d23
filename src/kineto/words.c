/* words.c - finds a multiplier under which no two words fall into one slot. */
#include "kineto/words.h"

#include <assert.h>
#include <stdbool.h>

static bool try_multiplier(tdmi_words *words, const tdmi_word *word, size_t count, uint64_t multiplier)
{
    memset(words->slot, 0, sizeof words->slot);
    for (size_t i = 0; i < sizeof words->slot / sizeof *words->slot; i++)
        words->slot[i].id = words->other; /* what the empty text finds */
    words->multiplier = multiplier;
    for (size_t i = 0; i < count; i++) {
        uint8_t text[TDMI_WORD_MAX + 8] = {0};
        const size_t nbytes = strlen(word[i].text);
        assert(nbytes > 0 && nbytes <= TDMI_WORD_MAX);
        memcpy(text, word[i].text, nbytes);
        const uint64_t first = tdmi_words_load(text), last = tdmi_words_load(text + (nbytes > 8 ? nbytes - 8 : 0));
        const size_t at = tdmi_words_slot(multiplier, first, last, nbytes);
        if (words->slot[at].nbytes != 0)
            return false;
        words->slot[at].first = first;
        words->slot[at].last = last;
        words->slot[at].text = word[i].text;
        words->slot[at].nbytes = (uint8_t)nbytes;
        words->slot[at].id = word[i].id;
    }
    return true;
}

void tdmi_words_init(tdmi_words *words, const tdmi_word *word, size_t count, uint8_t other)
{
    uint64_t multiplier = 0x9e3779b97f4a7c15u;
    words->other = other;
    while (!try_multiplier(words, word, count, multiplier))
        multiplier = multiplier * 6364136223846793005u + 1442695040888963407u;
}
