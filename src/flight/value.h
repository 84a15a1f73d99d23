/* value.h - the plain values that a pickle or a JSON text holds, in an arena with a limit. */
#ifndef TDMI_FLIGHT_VALUE_H
#define TDMI_FLIGHT_VALUE_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { TDMI_VALUE_NONE, TDMI_VALUE_BOOL, TDMI_VALUE_INT, TDMI_VALUE_FLOAT, TDMI_VALUE_TEXT, TDMI_VALUE_LIST, TDMI_VALUE_DICT } tdmi_value_kind;

/* A value may be a part of several others, and of itself: a pickle can say so. Who walks it bounds its depth. */
typedef struct tdmi_value {
    tdmi_value_kind kind;
    union {
        int64_t integer; /* also of BOOL; beyond its range: the end of it */
        double real;
        struct {
            const char *at; /* borrows from the bytes that were read, or of the arena; not ended by NUL */
            size_t nbytes;
        } text;
        struct {
            struct tdmi_value **item; /* LIST; DICT: key, value, key, value ... */
            size_t count, capacity;
        } items;
    } as;
} tdmi_value;

/* All values of one file; freed at once. */
typedef struct tdmi_values {
    struct tdmi_values_block *blocks;
    size_t held, limit; /* bytes */
    tdm_status status;  /* why nothing could be taken; TDM_ERR_BAD_FILE: beyond the limit */
} tdmi_values;

/* NULL with the error text and values->status. */
void *tdmi_values_take(tdmi_values *values, size_t nbytes);
tdmi_value *tdmi_values_new(tdmi_values *values, tdmi_value_kind kind);
bool tdmi_values_append(tdmi_values *values, tdmi_value *list, tdmi_value *item);
void tdmi_values_free(tdmi_values *values);

/* The member of a dict, the last one of its name among its last 256; NULL where there is none or `dict` is none. */
const tdmi_value *tdmi_value_get(const tdmi_value *dict, const char *name);
const tdmi_value *tdmi_value_at(const tdmi_value *list, size_t i);
size_t tdmi_value_count(const tdmi_value *list); /* items of a list, members of a dict; 0 of others */
/* An integer, or a text of digits as JSON dumps have them; `otherwise` where it is neither. */
int64_t tdmi_value_int(const tdmi_value *value, int64_t otherwise);
bool tdmi_value_is_true(const tdmi_value *value);
/* A text, cut to fit, its control bytes and those that are no ASCII as '?'; "" where it is none. */
void tdmi_value_text(const tdmi_value *value, char *out, size_t nbytes);
bool tdmi_value_is_text(const tdmi_value *value, const char *text);

#endif
