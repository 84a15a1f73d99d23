/* names.c - texts in blocks that stay where they are, found by a hash of their bytes. */
#include "nccl_log/names.h"

#include "core/memory.h"

#include <string.h>

#define NAMES_BYTES_MAX ((size_t)8 << 20)
#define NAME_BYTES_MAX 1000
#define BLOCK_BYTES ((size_t)1 << 16)

typedef struct block {
    struct block *next;
    size_t used;
    char text[BLOCK_BYTES];
} block;

struct tdmi_nccl_names {
    block *blocks;
    const char **slot;
    size_t capacity, used, nbytes;
};

tdmi_nccl_names *tdmi_nccl_names_create(void)
{
    return tdmi_calloc(1, sizeof(tdmi_nccl_names), "nccl log");
}

void tdmi_nccl_names_destroy(tdmi_nccl_names *names)
{
    if (names == NULL)
        return;
    for (block *b = names->blocks, *next; b != NULL; b = next) {
        next = b->next;
        tdmi_free(b);
    }
    tdmi_free(names->slot);
    tdmi_free(names);
}

static size_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return (size_t)(hash ^ hash >> 29);
}

/* The slot of a text, or the free one where it would be. */
static size_t find_slot(const char *const *slot, size_t capacity, const char *text)
{
    size_t at = hash_text(text) % capacity;
    while (slot[at] != NULL && strcmp(slot[at], text) != 0)
        at = (at + 1) % capacity;
    return at;
}

static bool grow(tdmi_nccl_names *names)
{
    const size_t capacity = names->capacity * 2 + 1024;
    const char **slot = tdmi_calloc(capacity, sizeof *slot, "nccl log");
    if (slot == NULL)
        return false;
    for (size_t i = 0; i < names->capacity; i++)
        if (names->slot[i] != NULL)
            slot[find_slot(slot, capacity, names->slot[i])] = names->slot[i];
    tdmi_free(names->slot);
    names->slot = slot;
    names->capacity = capacity;
    return true;
}

static char *take_room(tdmi_nccl_names *names, size_t nbytes)
{
    block *first = names->blocks;
    if (first == NULL || sizeof first->text - first->used < nbytes) {
        first = tdmi_malloc(sizeof *first, "nccl log");
        if (first == NULL)
            return NULL;
        first->next = names->blocks;
        first->used = 0;
        names->blocks = first;
    }
    first->used += nbytes;
    names->nbytes += nbytes;
    return first->text + first->used - nbytes;
}

/* Control characters and bytes that are no UTF-8 do not get into reports: JSON would refuse them. */
static void clean(tdmi_span text, char out[NAME_BYTES_MAX + 1])
{
    size_t nbytes = 0;
    for (; nbytes < text.nbytes && nbytes < NAME_BYTES_MAX; nbytes++) {
        const unsigned char c = (unsigned char)text.at[nbytes];
        out[nbytes] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[nbytes] = '\0';
}

const char *tdmi_nccl_names_find(const tdmi_nccl_names *names, tdmi_span text)
{
    char cleaned[NAME_BYTES_MAX + 1];
    if (names->capacity == 0)
        return NULL;
    clean(text, cleaned);
    return names->slot[find_slot(names->slot, names->capacity, cleaned)];
}

const char *tdmi_nccl_names_keep(tdmi_nccl_names *names, tdmi_span text, tdm_status *status)
{
    char cleaned[NAME_BYTES_MAX + 1];
    clean(text, cleaned);
    const size_t nbytes = strlen(cleaned);
    if (nbytes == 0)
        return "";
    if (names->used * 2 >= names->capacity && !grow(names)) {
        *status = TDM_ERR_NO_MEMORY;
        return "";
    }
    const size_t at = find_slot(names->slot, names->capacity, cleaned);
    if (names->slot[at] != NULL)
        return names->slot[at];
    if (names->nbytes + nbytes > NAMES_BYTES_MAX) {
        *status = TDM_ERR_NO_SPACE;
        return "";
    }
    char *room = take_room(names, nbytes + 1);
    if (room == NULL) {
        *status = TDM_ERR_NO_MEMORY;
        return "";
    }
    memcpy(room, cleaned, nbytes + 1);
    names->slot[at] = room;
    names->used++;
    return room;
}
