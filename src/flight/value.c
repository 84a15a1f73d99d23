/* value.c - an arena of blocks, and questions to values. */
#include "flight/value.h"

#include "core/memory.h"

#include <string.h>

#define BLOCK_BYTES ((size_t)1 << 16)
#define MEMBERS_SEARCHED 256 /* dicts with names have 30; a limit, so that a dict of a million shared by a million others takes no year */

typedef struct tdmi_values_block {
    struct tdmi_values_block *next;
    size_t used, nbytes;
    max_align_t data[];
} block;

void *tdmi_values_take(tdmi_values *values, size_t nbytes)
{
    nbytes = (nbytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    block *first = values->blocks;
    if (first == NULL || first->nbytes - first->used < nbytes) {
        const size_t size = nbytes > BLOCK_BYTES ? nbytes : BLOCK_BYTES;
        if (size > values->limit - values->held) {
            values->status = tdmi_fail(TDM_ERR_BAD_FILE, "its values need more than %zu bytes", values->limit);
            return NULL;
        }
        first = tdmi_malloc(sizeof *first + size, "flight dump");
        if (first == NULL) {
            values->status = TDM_ERR_NO_MEMORY;
            return NULL;
        }
        *first = (block){.next = values->blocks, .nbytes = size};
        values->blocks = first;
        values->held += size;
    }
    void *taken = (char *)first->data + first->used;
    first->used += nbytes;
    return taken;
}

tdmi_value *tdmi_values_new(tdmi_values *values, tdmi_value_kind kind)
{
    tdmi_value *value = tdmi_values_take(values, sizeof *value);
    if (value != NULL)
        *value = (tdmi_value){.kind = kind};
    return value;
}

bool tdmi_values_append(tdmi_values *values, tdmi_value *list, tdmi_value *item)
{
    if (list->as.items.count == list->as.items.capacity) {
        const size_t capacity = list->as.items.capacity * 2 + 4;
        tdmi_value **more = tdmi_values_take(values, capacity * sizeof(tdmi_value *));
        if (more == NULL)
            return false;
        if (list->as.items.count > 0)
            memcpy(more, list->as.items.item, list->as.items.count * sizeof(tdmi_value *));
        list->as.items.item = more;
        list->as.items.capacity = capacity;
    }
    list->as.items.item[list->as.items.count++] = item;
    return true;
}

void tdmi_values_free(tdmi_values *values)
{
    for (block *b = values->blocks, *next; b != NULL; b = next) {
        next = b->next;
        tdmi_free(b);
    }
    values->blocks = NULL;
    values->held = 0;
}

bool tdmi_value_is_text(const tdmi_value *value, const char *text)
{
    return value != NULL && value->kind == TDMI_VALUE_TEXT && value->as.text.nbytes == strlen(text) &&
           memcmp(value->as.text.at, text, strlen(text)) == 0;
}

const tdmi_value *tdmi_value_get(const tdmi_value *dict, const char *name)
{
    if (dict == NULL || dict->kind != TDMI_VALUE_DICT)
        return NULL;
    const size_t members = dict->as.items.count / 2, first = members > MEMBERS_SEARCHED ? members - MEMBERS_SEARCHED : 0;
    for (size_t i = members; i-- > first;)
        if (tdmi_value_is_text(dict->as.items.item[2 * i], name))
            return dict->as.items.item[2 * i + 1];
    return NULL;
}

size_t tdmi_value_count(const tdmi_value *list)
{
    if (list == NULL)
        return 0;
    return list->kind == TDMI_VALUE_LIST ? list->as.items.count : list->kind == TDMI_VALUE_DICT ? list->as.items.count / 2 : 0;
}

const tdmi_value *tdmi_value_at(const tdmi_value *list, size_t i)
{
    return list != NULL && list->kind == TDMI_VALUE_LIST && i < list->as.items.count ? list->as.items.item[i] : NULL;
}

int64_t tdmi_value_int(const tdmi_value *value, int64_t otherwise)
{
    if (value == NULL)
        return otherwise;
    if (value->kind == TDMI_VALUE_INT || value->kind == TDMI_VALUE_BOOL)
        return value->as.integer;
    if (value->kind != TDMI_VALUE_TEXT || value->as.text.nbytes == 0 || value->as.text.nbytes > 20)
        return otherwise;
    const bool negative = *value->as.text.at == '-';
    int64_t number = 0;
    for (size_t i = negative; i < value->as.text.nbytes; i++) {
        const char c = value->as.text.at[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, c - '0', &number))
            return otherwise;
    }
    return negative ? -number : number;
}

bool tdmi_value_is_true(const tdmi_value *value)
{
    return value != NULL && (value->kind == TDMI_VALUE_BOOL || value->kind == TDMI_VALUE_INT) && value->as.integer != 0;
}

void tdmi_value_text(const tdmi_value *value, char *out, size_t nbytes)
{
    size_t n = 0;
    if (value != NULL && value->kind == TDMI_VALUE_TEXT)
        for (; n < value->as.text.nbytes && n + 1 < nbytes; n++) {
            const char c = value->as.text.at[n];
            out[n] = c >= 0x20 && c < 0x7f ? c : '?';
        }
    out[n] = '\0';
}
