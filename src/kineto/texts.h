/* texts.h - each distinct text once. Looked up as it stands in the file, decoded when it is new. */
#ifndef TDMI_KINETO_TEXTS_H
#define TDMI_KINETO_TEXTS_H

#include "kineto/trace.h"

typedef struct tdmi_texts_entry tdmi_texts_entry;
typedef struct tdmi_texts_block tdmi_texts_block;

typedef struct tdmi_texts {
    tdmi_text *text;
    size_t count, capacity;
    tdmi_texts_entry *entry;
    size_t entry_count, entry_capacity;
    uint64_t *slot;         /* hash << 32 | entry + 1; 0: free */
    size_t slots;           /* a power of two */
    tdmi_texts_block *block; /* where the bytes are, the newest first */
    uint64_t seed;
    size_t nbytes;          /* held by all of this */
    size_t nbytes_max;      /* beyond this, new texts become `many` */
    uint32_t many;          /* "(more names)" once that happened, else TDMI_NONE */
    uint64_t refused, repaired;
    uint8_t *scratch;       /* for decoding */
    size_t scratch_nbytes;
} tdmi_texts;

tdm_status tdmi_texts_init(tdmi_texts *texts, size_t nbytes_max);
void tdmi_texts_drop(tdmi_texts *texts);
/* The number of the text between two quotes. raw has 16 readable bytes behind its end. */
tdm_status tdmi_texts_put(tdmi_texts *texts, const uint8_t *raw, size_t nbytes, uint32_t *out);
/* The same of bytes that are taken as they are, but for what is no UTF-8: JSON text itself, a C string. */
tdm_status tdmi_texts_put_plain(tdmi_texts *texts, const uint8_t *bytes, size_t nbytes, uint32_t *out);
/* The number of a decoded text, or TDMI_NONE. text has 16 readable bytes behind its end. */
uint32_t tdmi_texts_find(const tdmi_texts *texts, const uint8_t *text, size_t nbytes);

#endif
