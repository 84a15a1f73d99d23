/* signature.h - the few bytes that say which call a rank makes. They travel with each call and are compared. */
#ifndef TDMI_COLL_SIGNATURE_H
#define TDMI_COLL_SIGNATURE_H

#include "coll/steps.h"

/* coll (bit 7: fused) at 0, dtype at 1, op at 2, algorithm at 3, root at 4, count at 8; little endian */
#define TDMI_SIGNATURE_BYTES 16

/* algorithm: NULL where the choice depends on what the ranks find out together. */
void tdmi_signature_write(const tdmi_call *call, bool fused, const tdmi_algorithm *algorithm, uint8_t out[TDMI_SIGNATURE_BYTES]);
bool tdmi_signature_equal(const uint8_t a[TDMI_SIGNATURE_BYTES], const uint8_t b[TDMI_SIGNATURE_BYTES]);
/* TDM_ERR_MISMATCH with a text that names both ranks and both calls; any bytes are safe. `number`: which call of the group. */
tdm_status tdmi_signature_mismatch(const char *group, uint64_t number, int rank_a, const uint8_t a[TDMI_SIGNATURE_BYTES],
                                   int rank_b, const uint8_t b[TDMI_SIGNATURE_BYTES]);
/* "allreduce of 7 float32 (sum)" */
void tdmi_signature_text(const uint8_t signature[TDMI_SIGNATURE_BYTES], char *text, size_t nbytes);

#endif
