/* table.c - a chained hash table of text keys and byte values. */
#include "store/table.h"

#include "core/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t hash(const char *key) /* FNV-1a: keys come from authenticated ranks only */
{
    uint64_t h = 14695981039346656037u;
    for (; *key != '\0'; key++)
        h = (h ^ (uint8_t)*key) * 1099511628211u;
    return (size_t)h;
}

/* The link that points to the key's entry, or to the NULL where it would be. */
static tdmi_table_entry **locate(const tdmi_table *table, const char *key)
{
    tdmi_table_entry **link = &table->buckets[hash(key) % table->bucket_count];
    while (*link != NULL && strcmp((*link)->key, key) != 0)
        link = &(*link)->next;
    return link;
}

static tdm_status grow(tdmi_table *table)
{
    size_t wanted = table->bucket_count == 0 ? 64 : table->bucket_count * 2;
    tdmi_table bigger = {.buckets = tdmi_calloc(wanted, sizeof *bigger.buckets, "store buckets"), .bucket_count = wanted};
    if (bigger.buckets == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < table->bucket_count; i++)
        for (tdmi_table_entry *entry = table->buckets[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            tdmi_table_entry **link = locate(&bigger, entry->key);
            entry->next = NULL;
            *link = entry;
        }
    tdmi_free(table->buckets);
    table->buckets = bigger.buckets;
    table->bucket_count = wanted;
    return TDM_OK;
}

tdm_status tdmi_table_set(tdmi_table *table, const char *key, const void *value, size_t nbytes)
{
    if (table->count >= table->bucket_count) {
        tdm_status status = grow(table);
        if (status != TDM_OK)
            return status;
    }
    char *copy = tdmi_malloc(nbytes + 1, "store value");
    if (copy == NULL)
        return TDM_ERR_NO_MEMORY;
    if (nbytes > 0)
        memcpy(copy, value, nbytes);
    copy[nbytes] = '\0';
    tdmi_table_entry **link = locate(table, key);
    if (*link == NULL) {
        size_t key_nbytes = strlen(key) + 1;
        tdmi_table_entry *entry = tdmi_calloc(1, sizeof *entry + key_nbytes, "store key");
        if (entry == NULL) {
            tdmi_free(copy);
            return TDM_ERR_NO_MEMORY;
        }
        memcpy(entry->key, key, key_nbytes);
        *link = entry;
        table->count++;
    }
    tdmi_free((*link)->value);
    (*link)->value = copy;
    (*link)->nbytes = nbytes;
    return TDM_OK;
}

const tdmi_table_entry *tdmi_table_find(const tdmi_table *table, const char *key)
{
    return table->bucket_count == 0 ? NULL : *locate(table, key);
}

tdm_status tdmi_table_add(tdmi_table *table, const char *key, int64_t delta, int64_t *out)
{
    int64_t sum = 0;
    const tdmi_table_entry *entry = tdmi_table_find(table, key);
    if (entry != NULL) {
        char *end;
        errno = 0;
        sum = strtoll(entry->value, &end, 10);
        if (errno != 0 || end == entry->value || end != entry->value + entry->nbytes)
            return tdmi_fail(TDM_ERR_INVALID, "store key \"%s\" holds no number to add to", key);
    }
    if (__builtin_add_overflow(sum, delta, &sum))
        return tdmi_fail(TDM_ERR_INVALID, "store key \"%s\": the sum does not fit 64 bits", key);
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, sum);
    tdm_status status = tdmi_table_set(table, key, text, (size_t)length);
    if (status == TDM_OK)
        *out = sum;
    return status;
}

void tdmi_table_remove(tdmi_table *table, const char *key)
{
    tdmi_table_entry **link = table->bucket_count == 0 ? NULL : locate(table, key);
    if (link == NULL || *link == NULL)
        return;
    tdmi_table_entry *entry = *link;
    *link = entry->next;
    tdmi_free(entry->value);
    tdmi_free(entry);
    table->count--;
}

void tdmi_table_clear(tdmi_table *table)
{
    for (size_t i = 0; i < table->bucket_count; i++)
        for (tdmi_table_entry *entry = table->buckets[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            tdmi_free(entry->value);
            tdmi_free(entry);
        }
    tdmi_free(table->buckets);
    *table = (tdmi_table){0};
}
