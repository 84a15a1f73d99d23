/* signature.c - writing, comparing and explaining the signature of a call. */
#include "coll/signature.h"

#include <stdio.h>
#include <string.h>

#define FUSED 0x80u
#define UNEVEN 0x40u
#define DEVICE 0x20u
#define FLAGS (FUSED | UNEVEN | DEVICE)
#define NO_ALGORITHM 0xffu

static uint8_t number_of(const tdmi_algorithm *algorithm)
{
    for (size_t i = 0; i < tdmi_algorithm_count; i++)
        if (tdmi_algorithms[i] == algorithm)
            return (uint8_t)i;
    return NO_ALGORITHM;
}

static void put_u64(uint64_t value, uint8_t *out)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_u64(const uint8_t *in)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

static bool is_pairwise(const uint8_t signature[TDMI_SIGNATURE_BYTES])
{
    const tdmi_call call = {.coll = (tdmi_coll)(signature[0] & ~FLAGS), .uneven = (signature[0] & UNEVEN) != 0};
    return tdmi_call_is_pairwise(&call);
}

void tdmi_signature_write(const tdmi_call *call, bool fused, const tdmi_algorithm *algorithm, int rank, int peer,
                          uint8_t out[TDMI_SIGNATURE_BYTES])
{
    uint64_t count = call->count, extra = call->uneven ? 0 : call->parts_hash;
    if (tdmi_call_is_pairwise(call)) {
        count = peer >= 0 ? tdmi_call_gives(call, rank, peer) : 0;
        extra = peer >= 0 ? tdmi_call_expects(call, rank, peer) : 0;
    } else if (call->uneven) {
        count = call->parts_total;
        extra = call->parts_hash;
    }
    out[0] = (uint8_t)((unsigned)call->coll | (fused ? FUSED : 0) | (call->uneven ? UNEVEN : 0) | (call->on_device ? DEVICE : 0));
    out[1] = (uint8_t)call->dtype;
    out[2] = tdmi_op_wire_code(call->op);
    out[3] = number_of(algorithm);
    for (int i = 0; i < 4; i++)
        out[4 + i] = (uint8_t)((uint32_t)call->root >> (8 * i));
    put_u64(count, out + 8);
    put_u64(extra, out + 16);
}

bool tdmi_signature_equal(const uint8_t a[TDMI_SIGNATURE_BYTES], const uint8_t b[TDMI_SIGNATURE_BYTES])
{
    if (!is_pairwise(a))
        return memcmp(a, b, TDMI_SIGNATURE_BYTES) == 0;
    return memcmp(a, b, 8) == 0 && memcmp(a + 8, b + 16, 8) == 0 && memcmp(a + 16, b + 8, 8) == 0;
}

static const char *algorithm_name(uint8_t number)
{
    return number < tdmi_algorithm_count ? tdmi_algorithms[number]->name : "(by memory)";
}

void tdmi_signature_text(const uint8_t signature[TDMI_SIGNATURE_BYTES], char *text, size_t nbytes)
{
    const tdmi_coll coll = (tdmi_coll)(signature[0] & ~FLAGS);
    const bool uneven = (signature[0] & UNEVEN) != 0;
    uint32_t root = 0;
    for (int i = 0; i < 4; i++)
        root |= (uint32_t)signature[4 + i] << (8 * i);
    const uint64_t packed = uneven ? 0 : get_u64(signature + 16) >> 48;
    char calls[48] = "", count[24] = "", op[32] = "", place[32] = "";
    if (packed > 0)
        snprintf(calls, sizeof calls, "%llu coalesced calls of ", (unsigned long long)packed);
    if (!is_pairwise(signature))
        snprintf(count, sizeof count, "%llu ", (unsigned long long)get_u64(signature + 8));
    if (tdmi_coll_reduces(coll))
        snprintf(op, sizeof op, " (%s)", tdmi_op_wire_name(signature[2]));
    if ((int32_t)root >= 0)
        snprintf(place, sizeof place, " %s rank %d", coll == TDMI_COLL_REDUCE || coll == TDMI_COLL_GATHER ? "to" : "from", (int)root);
    if (coll == TDMI_COLL_BARRIER)
        snprintf(text, nbytes, "barrier");
    else
        snprintf(text, nbytes, "%s%s%s%s of %s%s%s%s%s", calls, tdmi_coll_name(coll), uneven ? "v" : "", signature[0] & FUSED ? " with an epilogue" : "",
                 count, tdm_dtype_name((tdm_dtype)signature[1]), op, place, (signature[0] & DEVICE) != 0 ? " on a device" : "");
}

void tdmi_label_text(const char *label, char text[TDMI_LABEL_BYTES + 4])
{
    snprintf(text, TDMI_LABEL_BYTES + 4, label[0] != '\0' ? " [%.*s]" : "%.*s", TDMI_LABEL_BYTES - 1, label);
}

tdm_status tdmi_part_mismatch(const char *group, uint64_t number, const tdmi_call *call, const char *label, int from, uint64_t given, int to,
                              uint64_t expected)
{
    char named[TDMI_LABEL_BYTES + 4];
    tdmi_label_text(label, named);
    return tdmi_fail(TDM_ERR_MISMATCH, "call %llu of group %s, %sv%s: rank %d gives %llu %s to rank %d, which expects %llu of them",
                     (unsigned long long)number, group, tdmi_coll_name(call->coll), named, from, (unsigned long long)given,
                     tdm_dtype_name(call->dtype), to, (unsigned long long)expected);
}

tdm_status tdmi_signature_mismatch(const char *group, uint64_t number, tdmi_said one, tdmi_said other)
{
    const tdmi_said *x = one.rank < other.rank ? &one : &other, *y = x == &one ? &other : &one; /* both ranks write the same text */
    const uint8_t *a = x->signature, *b = y->signature;
    const unsigned long long call_number = number;
    char text_a[160], text_b[160], label_a[TDMI_LABEL_BYTES + 4], label_b[TDMI_LABEL_BYTES + 4];
    tdmi_signature_text(a, text_a, sizeof text_a);
    tdmi_signature_text(b, text_b, sizeof text_b);
    tdmi_label_text(x->label, label_a);
    tdmi_label_text(y->label, label_b);
    if (strcmp(text_a, text_b) != 0)
        return tdmi_fail(TDM_ERR_MISMATCH, "call %llu of group %s: rank %d makes %s%s, but rank %d makes %s%s; all ranks must make "
                         "the same calls in the same order", call_number, group, x->rank, text_a, label_a, y->rank, text_b, label_b);
    if (is_pairwise(a) && memcmp(a, b, 8) == 0) {
        const tdmi_call call = {.coll = (tdmi_coll)(a[0] & ~FLAGS), .dtype = (tdm_dtype)a[1]};
        const bool forth = memcmp(a + 8, b + 16, 8) != 0;
        return tdmi_part_mismatch(group, number, &call, x->label, forth ? x->rank : y->rank, get_u64(forth ? a + 8 : b + 8),
                                  forth ? y->rank : x->rank, get_u64(forth ? b + 16 : a + 16));
    }
    if (memcmp(a + 16, b + 16, 8) != 0)
        return tdmi_fail(TDM_ERR_MISMATCH, "call %llu of group %s, %s%s: rank %d and rank %d give the same sum of counts, but not the "
                         "same counts of single %s", call_number, group, text_a, label_a, x->rank, y->rank,
                         (a[0] & UNEVEN) != 0 ? "ranks" : "calls");
    return tdmi_fail(TDM_ERR_MISMATCH, "call %llu of group %s, %s%s: rank %d takes algorithm %s, but rank %d takes %s; set "
                     "TANDEM_ALGO and TANDEM_SUM_ORDER to the same values on all ranks", call_number, group, text_a, label_a, x->rank,
                     algorithm_name(a[3]), y->rank, algorithm_name(b[3]));
}
