/* source.h - the text of a trace in pieces, whether the file is plain or gzip, and how the file ended. */
#ifndef TDMI_KINETO_SOURCE_H
#define TDMI_KINETO_SOURCE_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    TDMI_SOURCE_WHOLE,
    TDMI_SOURCE_CUT,       /* the gzip stream stops before its end */
    TDMI_SOURCE_DAMAGED,   /* the gzip stream is damaged at `file_at` */
    TDMI_SOURCE_UNREADABLE /* the system gave an error at `file_at`: error_number */
} tdmi_source_end;

typedef struct tdmi_source tdmi_source;

/* What there is to know once everything was read. */
typedef struct tdmi_source_facts {
    tdmi_source_end end;
    bool wrong_checksum;   /* of some member; its text was given all the same */
    bool garbage;          /* something that is no gzip, and not only zeros, behind the last member */
    int error_number;
    uint64_t file_at;      /* bytes of the file used */
} tdmi_source_facts;

/* ahead: a thread inflates while the caller works on what it has; for gzip only. TDM_ERR_BAD_FILE: no such file, or none that can be read. */
tdm_status tdmi_source_open(const char *path, bool ahead, tdmi_source **out);
tdm_status tdmi_source_open_bytes(const void *bytes, size_t nbytes, tdmi_source **out); /* borrows the bytes */
void tdmi_source_close(tdmi_source *source);                                            /* NULL is fine */
/* Up to nbytes of text, at least 1; 0: there is no more. */
size_t tdmi_source_read(tdmi_source *source, uint8_t *out, size_t nbytes);
tdmi_source_facts tdmi_source_found(const tdmi_source *source);

#endif
