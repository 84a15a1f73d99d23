/* texts.c - a hash table from bytes to numbers.
 *
 * Nearly every look-up finds what it looks for, so finding costs one pass over the bytes for the hash and one comparison. A text with
 * escapes has two entries: as it stands in the file, and decoded (another escaping of the same text must give the same number). The seed
 * is random: nobody can write a file whose names all fall into one place. */
#include "kineto/texts.h"

#include "core/memory.h"
#include "kineto/decode.h"

#include <string.h>
#include <sys/random.h>

enum { AS_RAW = 1, AS_TEXT = 2 };

struct tdmi_texts_entry {
    const uint8_t *key;
    uint64_t hash;
    uint32_t nbytes, text;
    int as;
};

struct tdmi_texts_block {
    tdmi_texts_block *next;
    size_t used, capacity;
    uint8_t bytes[];
};

static inline uint64_t load8(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* 16 bytes behind the end are readable, and do not count. */
static inline uint64_t hash_of(const uint8_t *at, size_t nbytes, uint64_t seed)
{
    static const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd6e8feb86659fd93u;
    uint64_t a = seed ^ k0, b = seed ^ nbytes;
    size_t left = nbytes;
    for (; left > 32; left -= 32, at += 32) {
        a = mix(load8(at) ^ k0, load8(at + 8) ^ a);
        b = mix(load8(at + 16) ^ k1, load8(at + 24) ^ b);
    }
    if (left > 16) {
        a = mix(load8(at) ^ k0, load8(at + 8) ^ a);
        left -= 16;
        at += 16;
    }
    uint64_t first = load8(at), second = load8(at + 8); /* the last 0 ... 16 bytes, without what is behind them */
    if (left < 8)
        first &= ((uint64_t)1 << left * 8) - 1;
    if (left <= 8)
        second = 0;
    else if (left < 16)
        second &= ((uint64_t)1 << (left - 8) * 8) - 1;
    return mix(mix(first ^ k1, second ^ b) ^ a, k1);
}

tdm_status tdmi_texts_init(tdmi_texts *texts, size_t nbytes_max)
{
    *texts = (tdmi_texts){.slots = 1024, .nbytes_max = nbytes_max, .many = TDMI_NONE};
    if (getrandom(&texts->seed, sizeof texts->seed, 0) != sizeof texts->seed)
        texts->seed = (uint64_t)(uintptr_t)texts;
    texts->slot = tdmi_calloc(texts->slots, sizeof *texts->slot, "trace texts");
    return texts->slot == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
}

void tdmi_texts_drop(tdmi_texts *texts)
{
    for (tdmi_texts_block *block = texts->block, *next; block != NULL; block = next) {
        next = block->next;
        tdmi_free(block);
    }
    tdmi_free(texts->text);
    tdmi_free(texts->entry);
    tdmi_free(texts->slot);
    tdmi_free(texts->scratch);
    *texts = (tdmi_texts){0};
}

static inline const tdmi_texts_entry *look_up(const tdmi_texts *texts, const uint8_t *key, size_t nbytes, uint64_t hash, int as)
{
    for (size_t at = hash & (texts->slots - 1);; at = (at + 1) & (texts->slots - 1)) {
        const uint64_t slot = texts->slot[at];
        if (slot == 0)
            return NULL;
        if (slot >> 32 != hash >> 32)
            continue;
        const tdmi_texts_entry *e = &texts->entry[(uint32_t)slot - 1];
        if (e->nbytes == nbytes && (e->as & as) != 0 && memcmp(e->key, key, nbytes) == 0)
            return e;
    }
}

/* A copy that stays, with a '\0' behind it. */
static const uint8_t *keep(tdmi_texts *texts, const uint8_t *bytes, size_t nbytes)
{
    enum { BLOCK = 64 << 10 };
    tdmi_texts_block *block = texts->block;
    if (block == NULL || block->capacity - block->used < nbytes + 1) {
        const size_t capacity = nbytes + 1 > BLOCK / 4 ? nbytes + 1 : BLOCK;
        tdmi_texts_block *fresh = tdmi_malloc(sizeof *fresh + capacity, "trace texts");
        if (fresh == NULL)
            return NULL;
        *fresh = (tdmi_texts_block){.capacity = capacity};
        if (block != NULL && capacity != BLOCK) { /* a large one goes behind: the newest still has room */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            texts->block = fresh;
        }
        block = fresh;
        texts->nbytes += sizeof *fresh + capacity;
    }
    uint8_t *copy = block->bytes + block->used;
    memcpy(copy, bytes, nbytes);
    copy[nbytes] = '\0';
    block->used += nbytes + 1;
    return copy;
}

static tdm_status grow_slots(tdmi_texts *texts)
{
    const size_t slots = texts->slots * 2;
    uint64_t *slot = tdmi_calloc(slots, sizeof *slot, "trace texts");
    if (slot == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < texts->slots; i++) {
        if (texts->slot[i] == 0)
            continue;
        size_t at = texts->entry[(uint32_t)texts->slot[i] - 1].hash & (slots - 1);
        while (slot[at] != 0)
            at = (at + 1) & (slots - 1);
        slot[at] = texts->slot[i];
    }
    tdmi_free(texts->slot);
    texts->slot = slot;
    texts->nbytes += (slots - texts->slots) * sizeof *slot;
    texts->slots = slots;
    return TDM_OK;
}

/* Room for one more in an array that doubles. */
static tdm_status make_room(tdmi_texts *texts, void **array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return TDM_OK;
    const size_t before = *capacity;
    void *grown = tdmi_with_room(*array, count, capacity, size, "trace texts");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    texts->nbytes += (*capacity - before) * size;
    *array = grown;
    return TDM_OK;
}

static tdm_status add_entry(tdmi_texts *texts, const uint8_t *key, size_t nbytes, uint64_t hash, uint32_t text, int as)
{
    if (texts->entry_count * 2 >= texts->slots && grow_slots(texts) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    if (make_room(texts, (void **)&texts->entry, texts->entry_count, &texts->entry_capacity, sizeof *texts->entry) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    texts->entry[texts->entry_count++] = (tdmi_texts_entry){.key = key, .hash = hash, .nbytes = (uint32_t)nbytes, .text = text, .as = as};
    size_t at = hash & (texts->slots - 1);
    while (texts->slot[at] != 0)
        at = (at + 1) & (texts->slots - 1);
    texts->slot[at] = (hash >> 32 << 32) | texts->entry_count;
    return TDM_OK;
}

/* A new text with its entry. */
static tdm_status add_text(tdmi_texts *texts, const uint8_t *bytes, size_t nbytes, uint64_t hash, int as, uint32_t *out)
{
    const uint8_t *copy = keep(texts, bytes, nbytes);
    if (copy == NULL || make_room(texts, (void **)&texts->text, texts->count, &texts->capacity, sizeof *texts->text) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    texts->text[texts->count] = (tdmi_text){.text = (const char *)copy, .nbytes = (uint32_t)nbytes};
    *out = (uint32_t)texts->count++;
    return add_entry(texts, copy, nbytes, hash, *out, as);
}

/* One text stands for all that came too late. */
static tdm_status refuse(tdmi_texts *texts, uint32_t *out)
{
    static const uint8_t words[32] = "(more names)";
    texts->refused++;
    if (texts->many == TDMI_NONE) {
        const tdm_status status = add_text(texts, words, 12, hash_of(words, 12, texts->seed), AS_TEXT, &texts->many);
        if (status != TDM_OK)
            return status;
    }
    *out = texts->many;
    return TDM_OK;
}

static tdm_status make_scratch(tdmi_texts *texts, size_t nbytes)
{
    if (nbytes <= texts->scratch_nbytes)
        return TDM_OK;
    uint8_t *scratch = tdmi_realloc(texts->scratch, nbytes, "trace texts");
    if (scratch == NULL)
        return TDM_ERR_NO_MEMORY;
    texts->scratch = scratch;
    texts->scratch_nbytes = nbytes;
    return TDM_OK;
}

static bool is_full(const tdmi_texts *texts, size_t nbytes)
{
    return texts->nbytes + nbytes > texts->nbytes_max || texts->entry_count >= UINT32_MAX - 2;
}

static tdm_status put_decoded(tdmi_texts *texts, const uint8_t *raw, size_t nbytes, uint64_t raw_hash, uint32_t *out)
{
    bool repaired;
    if (make_scratch(texts, TDMI_DECODED_MAX(nbytes) + 32) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    const size_t length = tdmi_decode(raw, nbytes, texts->scratch, &repaired);
    const uint64_t hash = hash_of(texts->scratch, length, texts->seed);
    texts->repaired += repaired;
    if (length == nbytes && memcmp(texts->scratch, raw, nbytes) == 0) {
        const tdmi_texts_entry *e = look_up(texts, raw, nbytes, hash, AS_TEXT);
        if (e == NULL)
            return add_text(texts, raw, nbytes, hash, AS_RAW | AS_TEXT, out);
        *out = e->text;
        return add_entry(texts, e->key, nbytes, hash, e->text, AS_RAW);
    }
    const tdmi_texts_entry *e = look_up(texts, texts->scratch, length, hash, AS_TEXT);
    if (e != NULL)
        *out = e->text;
    else if (add_text(texts, texts->scratch, length, hash, AS_TEXT, out) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    const uint8_t *key = keep(texts, raw, nbytes);
    return key == NULL ? TDM_ERR_NO_MEMORY : add_entry(texts, key, nbytes, raw_hash, *out, AS_RAW);
}

tdm_status tdmi_texts_put(tdmi_texts *texts, const uint8_t *raw, size_t nbytes, uint32_t *out)
{
    const uint64_t hash = hash_of(raw, nbytes, texts->seed);
    const tdmi_texts_entry *e = look_up(texts, raw, nbytes, hash, AS_RAW);
    if (e != NULL) {
        *out = e->text;
        return TDM_OK;
    }
    if (is_full(texts, nbytes * 2))
        return refuse(texts, out);
    return put_decoded(texts, raw, nbytes, hash, out);
}

tdm_status tdmi_texts_put_plain(tdmi_texts *texts, const uint8_t *bytes, size_t nbytes, uint32_t *out)
{
    const uint64_t hash = hash_of(bytes, nbytes, texts->seed);
    const tdmi_texts_entry *e = look_up(texts, bytes, nbytes, hash, AS_TEXT);
    if (e != NULL) {
        *out = e->text;
        return TDM_OK;
    }
    if (is_full(texts, nbytes))
        return refuse(texts, out);
    bool plain = true;
    for (size_t i = 0; i < nbytes && plain; i++)
        plain = bytes[i] != '\0' && bytes[i] < 0x80;
    if (plain)
        return add_text(texts, bytes, nbytes, hash, AS_TEXT, out);
    if (make_scratch(texts, nbytes + 32) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < nbytes; i++)
        texts->scratch[i] = bytes[i] != '\0' && bytes[i] < 0x80 ? bytes[i] : '?';
    return tdmi_texts_put_plain(texts, texts->scratch, nbytes, out);
}

uint32_t tdmi_texts_find(const tdmi_texts *texts, const uint8_t *text, size_t nbytes)
{
    const tdmi_texts_entry *e = look_up(texts, text, nbytes, hash_of(text, nbytes, texts->seed), AS_TEXT);
    return e == NULL ? TDMI_NONE : e->text;
}
