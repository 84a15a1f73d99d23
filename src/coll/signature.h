/* signature.h - the few bytes that say which call a rank makes. They travel with each call and are compared. */
#ifndef TDMI_COLL_SIGNATURE_H
#define TDMI_COLL_SIGNATURE_H

#include "coll/steps.h"
#include "core/label.h"

/* coll (bit 7: fused, bit 6: uneven, bit 5: on a device) at 0, dtype at 1, op at 2, algorithm at 3, root at 4, count at 8, extra at 16; little
 * endian. Where all ranks know all parts, count is their sum and extra a hash of them. Of even parts
 * extra is 0; or of several calls packed into one their number << 48 and a hash of their counts. Where only
 * pairs know (tdmi_call_is_pairwise), count is what the writer gives to the reader and extra what it expects from it. */
#define TDMI_SIGNATURE_BYTES 24

/* algorithm: NULL where the choice depends on what the ranks find out together. peer: who reads it; -1: all ranks, which
 * then compare the parts of a pairwise call by tdmi_row. */
void tdmi_signature_write(const tdmi_call *call, bool fused, const tdmi_algorithm *algorithm, int rank, int peer,
                          uint8_t out[TDMI_SIGNATURE_BYTES]);
/* Whether calls of two ranks fit. */
bool tdmi_signature_equal(const uint8_t a[TDMI_SIGNATURE_BYTES], const uint8_t b[TDMI_SIGNATURE_BYTES]);
/* What a rank says of its call. */
typedef struct tdmi_said {
    int rank;
    const uint8_t *signature;
    const char *label; /* "": none */
} tdmi_said;

/* TDM_ERR_MISMATCH with a text that names both ranks and both calls; any bytes are safe. `number`: which call of the group. */
tdm_status tdmi_signature_mismatch(const char *group, uint64_t number, tdmi_said a, tdmi_said b);
/* The same for one part of a pairwise call: `from` gives `given` elements, `to` expects `expected`. label: this rank's. */
tdm_status tdmi_part_mismatch(const char *group, uint64_t number, const tdmi_call *call, const char *label, int from, uint64_t given, int to,
                              uint64_t expected);
#define TDMI_CALL_TEXT_BYTES (160 + TDMI_LABEL_BYTES)
/* " [step 12]", or "" */
void tdmi_label_text(const char *label, char text[TDMI_LABEL_BYTES + 4]);
/* "allreduce of 7 float32 (sum)" */
void tdmi_signature_text(const uint8_t signature[TDMI_SIGNATURE_BYTES], char *text, size_t nbytes);

#endif
