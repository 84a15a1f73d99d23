/* inflate.h - gzip, member by member, in pieces. */
#ifndef TDMI_KINETO_INFLATE_H
#define TDMI_KINETO_INFLATE_H

#include "kineto/source.h"

typedef struct tdmi_inflate tdmi_inflate;

/* More of the compressed file: *out points to it, valid until the next call; 0: there is no more. */
typedef size_t tdmi_inflate_more(void *arg, const uint8_t **out);

tdm_status tdmi_inflate_create(tdmi_inflate_more *more, void *arg, tdmi_inflate **out);
void tdmi_inflate_destroy(tdmi_inflate *inflate); /* NULL is fine */
/* Up to nbytes of text; 0: there is no more, and `facts` says why. */
size_t tdmi_inflate_read(tdmi_inflate *inflate, uint8_t *out, size_t nbytes, tdmi_source_facts *facts);

#endif
