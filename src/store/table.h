/* table.h - keys and values in memory: a hash table, not locked. Behind the in-process store and the TCP server. */
#ifndef TDMI_STORE_TABLE_H
#define TDMI_STORE_TABLE_H

#include "core/error.h"

typedef struct tdmi_table_entry {
    struct tdmi_table_entry *next;
    char *value; /* a NUL behind nbytes */
    size_t nbytes;
    char key[];
} tdmi_table_entry;

typedef struct tdmi_table {
    tdmi_table_entry **buckets;
    size_t bucket_count, count;
} tdmi_table; /* all zero: empty */

tdm_status tdmi_table_set(tdmi_table *table, const char *key, const void *value, size_t nbytes);
const tdmi_table_entry *tdmi_table_find(const tdmi_table *table, const char *key); /* NULL: no such key */
/* The value is the sum as decimal text; a value that is none is TDM_ERR_INVALID. */
tdm_status tdmi_table_add(tdmi_table *table, const char *key, int64_t delta, int64_t *out);
void tdmi_table_remove(tdmi_table *table, const char *key);
void tdmi_table_clear(tdmi_table *table);

#endif
