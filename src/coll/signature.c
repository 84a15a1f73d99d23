/* signature.c - writing, comparing and explaining the signature of a call. */
#include "coll/signature.h"

#include <stdio.h>
#include <string.h>

#define FUSED 0x80u
#define NO_ALGORITHM 0xffu

static uint8_t number_of(const tdmi_algorithm *algorithm)
{
    for (size_t i = 0; i < tdmi_algorithm_count; i++)
        if (tdmi_algorithms[i] == algorithm)
            return (uint8_t)i;
    return NO_ALGORITHM;
}

void tdmi_signature_write(const tdmi_call *call, bool fused, const tdmi_algorithm *algorithm, uint8_t out[TDMI_SIGNATURE_BYTES])
{
    out[0] = (uint8_t)((unsigned)call->coll | (fused ? FUSED : 0));
    out[1] = (uint8_t)call->dtype;
    out[2] = (uint8_t)call->op;
    out[3] = number_of(algorithm);
    for (int i = 0; i < 4; i++)
        out[4 + i] = (uint8_t)((uint32_t)call->root >> (8 * i));
    for (int i = 0; i < 8; i++)
        out[8 + i] = (uint8_t)((uint64_t)call->count >> (8 * i));
}

bool tdmi_signature_equal(const uint8_t a[TDMI_SIGNATURE_BYTES], const uint8_t b[TDMI_SIGNATURE_BYTES])
{
    return memcmp(a, b, TDMI_SIGNATURE_BYTES) == 0;
}

static const char *algorithm_name(uint8_t number)
{
    return number < tdmi_algorithm_count ? tdmi_algorithms[number]->name : "(by memory)";
}

void tdmi_signature_text(const uint8_t signature[TDMI_SIGNATURE_BYTES], char *text, size_t nbytes)
{
    const tdmi_coll coll = (tdmi_coll)(signature[0] & ~FUSED);
    const bool reduces = coll == TDMI_COLL_ALLREDUCE || coll == TDMI_COLL_REDUCE_SCATTER;
    uint32_t root = 0;
    uint64_t count = 0;
    for (int i = 0; i < 4; i++)
        root |= (uint32_t)signature[4 + i] << (8 * i);
    for (int i = 0; i < 8; i++)
        count |= (uint64_t)signature[8 + i] << (8 * i);
    int used = snprintf(text, nbytes, "%s%s", tdmi_coll_name(coll), signature[0] & FUSED ? " with an epilogue" : "");
    if (coll == TDMI_COLL_BARRIER || used < 0 || (size_t)used >= nbytes)
        return;
    const size_t at = (size_t)used;
    const char *dtype = tdm_dtype_name((tdm_dtype)signature[1]);
    if (reduces)
        snprintf(text + at, nbytes - at, " of %llu %s (%s)", (unsigned long long)count, dtype, tdm_op_name((tdm_op)signature[2]));
    else if (coll == TDMI_COLL_BROADCAST)
        snprintf(text + at, nbytes - at, " of %llu %s from rank %d", (unsigned long long)count, dtype, (int)root);
    else
        snprintf(text + at, nbytes - at, " of %llu %s", (unsigned long long)count, dtype);
}

tdm_status tdmi_signature_mismatch(const char *group, uint64_t number, int rank_a, const uint8_t a[TDMI_SIGNATURE_BYTES],
                                   int rank_b, const uint8_t b[TDMI_SIGNATURE_BYTES])
{
    if (rank_a > rank_b) { /* both ranks write the same text */
        int rank = rank_a;
        const uint8_t *signature = a;
        rank_a = rank_b, a = b;
        rank_b = rank, b = signature;
    }
    char text_a[160], text_b[160];
    tdmi_signature_text(a, text_a, sizeof text_a);
    tdmi_signature_text(b, text_b, sizeof text_b);
    if (strcmp(text_a, text_b) != 0)
        return tdmi_fail(TDM_ERR_MISMATCH, "call %llu of group %s: rank %d makes %s, but rank %d makes %s; all ranks must make "
                         "the same calls in the same order", (unsigned long long)number, group, rank_a, text_a, rank_b, text_b);
    return tdmi_fail(TDM_ERR_MISMATCH, "call %llu of group %s, %s: rank %d takes algorithm %s, but rank %d takes %s; set "
                     "TANDEM_ALGO and TANDEM_SUM_ORDER to the same values on all ranks", (unsigned long long)number, group,
                     text_a, rank_a, algorithm_name(a[3]), rank_b, algorithm_name(b[3]));
}
