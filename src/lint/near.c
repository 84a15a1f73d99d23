/* near.c - words in blank-separated lists: there, or misspelled. */
#include "lint/lint.h"

#include <stdio.h>
#include <string.h>

#define WORD_BYTES 80

bool tdmi_list_has(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if (length > 0 && (at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* Letters to change, add or leave out to make b of a; both are at most WORD_BYTES long. */
static size_t distance(const char *a, size_t a_length, const char *b)
{
    size_t row[WORD_BYTES + 1];
    const size_t b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t changed = diagonal + (a[i - 1] != b[j - 1]), other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = changed < other ? changed : other;
        }
    }
    return row[b_length];
}

bool tdmi_lists_have(const char *const *lists, const char *word)
{
    for (; *lists != NULL; lists++)
        if (tdmi_list_has(*lists, word))
            return true;
    return false;
}

bool tdmi_near_word(const char *const *lists, const char *word, char *near, size_t nbytes)
{
    const size_t length = strlen(word);
    size_t best = length > 8 ? 3 : length > 4 ? 2 : 1; /* differences at most */
    bool found = false;
    if (length >= WORD_BYTES)
        return false;
    for (; *lists != NULL; lists++)
        for (const char *at = *lists; *at != '\0';) {
            const size_t n = strcspn(at, " ");
            const size_t here = n < WORD_BYTES && n < nbytes ? distance(at, n, word) : WORD_BYTES;
            if (here < best || (here == best && !found)) {
                best = here;
                found = true;
                snprintf(near, nbytes, "%.*s", (int)n, at);
            }
            at += n + (at[n] == ' ');
        }
    return found;
}
