/* fields.c - the second stage's inner loop: from quote to quote. */
#include "kineto/fields.h"

#include "kineto/number.h"

#include <pthread.h>

static const tdmi_word field_word[] = {
#define WORD(NAME, key) {key, TDMI_FIELD_##NAME},
    TDMI_FIELD_MAP(WORD)
#undef WORD
    {"external id", TDMI_FIELD_EXTERNAL_ID}, /* 2021 */
    {"In msg size", TDMI_FIELD_IN_COUNT},    /* 2023 */
    {"Out msg size", TDMI_FIELD_OUT_COUNT},
    {"Input dims", TDMI_FIELD_INPUT_DIMS},   /* 2021 */
    {"size", TDMI_FIELD_BYTES},              /* copies of AMD */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tdmi_words field_words; /* written once under `once` */

static void make_words(void)
{
    tdmi_words_init(&field_words, field_word, sizeof field_word / sizeof *field_word, TDMI_FIELD_OTHER);
}

const tdmi_words *tdmi_field_words(void)
{
    pthread_once(&once, make_words);
    return &field_words;
}

size_t tdmi_fields_skip(const uint8_t *text, const uint32_t *token, size_t at)
{
    int64_t depth = 0;
    do {
        const uint8_t c = text[token[at++]], low = c | 0x20; /* { and [ are 1, } and ] are -1, a quote is nothing */
        if (c == 0)
            return 0;
        depth += (low == '{') - (low == '}');
    } while (depth > 0);
    return at;
}

/* What follows a string or a bracket must be a comma or the end of the object. */
static inline bool ends_well(const uint8_t *text, size_t behind)
{
    if (text[behind] != ',' && text[behind] != '}') {
        behind = tdmi_skip_space(text, behind);
        return text[behind] == ',' || text[behind] == '}';
    }
    return true;
}

static size_t fail(tdmi_fields *out, size_t at)
{
    out->failed = at;
    return 0;
}

size_t tdmi_fields_walk(const tdmi_words *words, const uint8_t *text, const uint32_t *token, size_t at, tdmi_fields *out, tdmi_fields *args)
{
    uint64_t has = 0;
    for (at++;;) {
        const size_t open = token[at], close = token[at + 1];
        if (text[open] != '"') {
            if (text[open] != '}')
                return fail(out, at);
            break;
        }
        if (text[close] != '"')
            return fail(out, at);
        size_t v = close + 1;
        if (text[v] != ':' && text[v = tdmi_skip_space(text, v)] != ':')
            return fail(out, at);
        v += text[v + 1] == ' ' ? 2 : 1;
        if (text[v] <= ' ')
            v = tdmi_skip_space(text, v);
        const uint8_t field = tdmi_words_find(words, text + open + 1, close - open - 1);
        size_t end = 0;
        if (text[v] == '"') {
            end = token[at + 3];
            if (token[at + 2] != v || text[end] != '"' || !ends_well(text, end + 1))
                return fail(out, at);
            at += 4;
        } else if ((text[v] | 0x20) == '{') {
            size_t behind = 0;
            if (token[at + 2] != v)
                return fail(out, at);
            if (args != NULL && field == TDMI_FIELD_ARGS && text[v] == '{') {
                behind = tdmi_fields_walk(words, text, token, at + 2, args, NULL);
                at = args->failed;
            } else {
                behind = tdmi_fields_skip(text, token, at + 2);
                at = SIZE_MAX / 2; /* it fails only where the tokens end */
            }
            if (behind == 0)
                return fail(out, at);
            at = behind;
            end = token[at - 1];
            if (!ends_well(text, end + 1))
                return fail(out, at);
        } else {
            at += 2;
        }
        out->value[field] = (tdmi_value){(uint32_t)v, (uint32_t)end};
        has |= (uint64_t)1 << field;
    }
    out->text = text;
    out->has = has;
    return at + 1;
}

bool tdmi_field_int(const tdmi_fields *f, int field, int64_t *out, uint64_t *wrong)
{
    if (!tdmi_has(f, field))
        return false;
    const uint8_t *at = f->text + f->value[field].at;
    if (*at == 'n')
        return false;
    const tdmi_number number = tdmi_number_int(at + (*at == '"'), out);
    *wrong += number != TDMI_NUMBER_GOOD;
    return number == TDMI_NUMBER_GOOD;
}

int32_t tdmi_field_int32(const tdmi_fields *f, int field, int32_t none, uint64_t *wrong)
{
    int64_t value;
    if (!tdmi_field_int(f, field, &value, wrong))
        return none;
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}
