/* recording.c - reading a ring. Every number is checked or only shown; every text ends where its field does. */
#include "trace/recording.h"

#include "core/memory.h"
#include "trace/json_text.h"
#include "trace/recorder_layout.h"

#include <stdio.h>
#include <stdlib.h>

static void get_text(const uint8_t *at, size_t nbytes, char *out)
{
    memcpy(out, at, nbytes);
    out[nbytes - 1] = '\0';
    tdmi_utf8_clean(out);
}

static void get_name(const uint8_t *names, unsigned number, char *out)
{
    out[0] = '\0';
    if (number < TDMI_REC_NAMES)
        get_text(names + number * TDMI_REC_NAME_BYTES, TDMI_REC_NAME_BYTES, out);
    if (out[0] == '\0')
        snprintf(out, TDMI_REC_NAME_BYTES, "#%u", number);
}

static int64_t get_time(const uint8_t *at, int64_t offset_ns)
{
    const uint64_t ns = tdmi_rec_get64(at);
    return ns == 0 ? 0 : (int64_t)(ns + (uint64_t)offset_ns);
}

static void get_group(const uint8_t *bytes, const uint8_t *entry, unsigned slot, tdmi_recorded_call *out)
{
    const uint8_t *group = bytes + TDMI_REC_GROUPS_AT + slot % TDMI_REC_GROUPS * TDMI_REC_GROUP_BYTES;
    out->group_id = tdmi_rec_get64(entry + TDMI_REC_E_GROUP);
    out->group_rank = -1;
    if (tdmi_rec_get64(group + TDMI_REC_G_ID) != out->group_id) { /* so many groups ago that another one stands there */
        snprintf(out->group, sizeof out->group, "#%016llx", (unsigned long long)out->group_id);
        return;
    }
    get_text(group + TDMI_REC_G_NAME, TDMI_REC_GROUP_NAME_BYTES, out->group);
    const uint32_t rank = tdmi_rec_get32(group + TDMI_REC_G_RANK), size = tdmi_rec_get32(group + TDMI_REC_G_SIZE);
    if (size <= INT32_MAX && rank < size) {
        out->group_rank = (int)rank;
        out->group_size = (int)size;
    }
}

static bool get_call(const uint8_t *bytes, uint64_t at, int64_t offset_ns, tdmi_recorded_call *out)
{
    const uint8_t *entry = bytes + TDMI_REC_ENTRIES_AT + at * TDMI_REC_ENTRY_BYTES;
    const uint64_t key = tdmi_rec_get64(entry + TDMI_REC_E_KEY);
    const unsigned state = entry[TDMI_REC_E_STATE];
    *out = (tdmi_recorded_call){.index = key >> TDMI_REC_SLOT_BITS};
    if (out->index == 0 || out->index % TDMI_REC_ENTRIES != at || state < TDMI_CALL_CREATED || state > TDMI_CALL_FAILED)
        return false;
    get_group(bytes, entry, (unsigned)key & ((1u << TDMI_REC_SLOT_BITS) - 1), out);
    out->number = tdmi_rec_get64(entry + TDMI_REC_E_NUMBER);
    out->count = tdmi_rec_get64(entry + TDMI_REC_E_COUNT);
    out->created_ns = get_time(entry + TDMI_REC_E_CREATED, offset_ns);
    out->started_ns = get_time(entry + TDMI_REC_E_STARTED, offset_ns);
    out->finished_ns = get_time(entry + TDMI_REC_E_FINISHED, offset_ns);
    const unsigned op = entry[TDMI_REC_E_OP], dtype = entry[TDMI_REC_E_DTYPE], reduction = entry[TDMI_REC_E_REDUCTION];
    get_name(bytes + TDMI_REC_AT_OPS, op & ~(TDMI_REC_FLAG | TDMI_REC_UNEVEN), out->op);
    get_name(bytes + TDMI_REC_AT_DTYPES, dtype & ~TDMI_REC_FLAG, out->dtype);
    get_name(bytes + TDMI_REC_AT_REDUCTIONS, reduction & ~TDMI_REC_FLAG, out->reduction);
    out->uneven = (op & TDMI_REC_UNEVEN) != 0;
    out->fused = (op & TDMI_REC_FLAG) != 0;
    out->state = (tdmi_call_state)state;
    out->root = (int)(int32_t)tdmi_rec_get32(entry + TDMI_REC_E_ROOT);
    if ((dtype & TDMI_REC_FLAG) != 0)
        get_text(entry + TDMI_REC_E_LABEL, TDMI_LABEL_BYTES, out->label);
    if ((reduction & TDMI_REC_FLAG) == 0)
        return true;
    out->missed_ns = get_time(entry + TDMI_REC_E_MISSED, offset_ns);
    out->arrived = tdmi_rec_get64(entry + TDMI_REC_E_ARRIVED);
    out->missing = (int)(int32_t)tdmi_rec_get32(entry + TDMI_REC_E_MISSING);
    out->first_missing = (int)(int32_t)tdmi_rec_get32(entry + TDMI_REC_E_FIRST_MISSING);
    return true;
}

static int by_time(const void *a, const void *b)
{
    const tdmi_recorded_call *x = a, *y = b;
    return x->created_ns != y->created_ns ? (x->created_ns > y->created_ns) - (x->created_ns < y->created_ns)
                                          : (x->index > y->index) - (x->index < y->index);
}

tdm_status tdmi_recording_parse(const uint8_t *bytes, size_t nbytes, tdmi_recording *out)
{
    if (nbytes < 12 || memcmp(bytes, TDMI_REC_MAGIC, 8) != 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "it is no ring of a flight recorder");
    const uint32_t version = tdmi_rec_get32(bytes + TDMI_REC_AT_VERSION);
    if (version != TDMI_REC_VERSION)
        return tdmi_fail(TDM_ERR_BAD_FILE, "it is a ring of version %u; this program reads version %u", version, TDMI_REC_VERSION);
    if (nbytes != TDMI_REC_FILE_BYTES || tdmi_rec_get32(bytes + TDMI_REC_AT_ENTRY_COUNT) != TDMI_REC_ENTRIES)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the ring has %zu bytes; %d are needed", nbytes, TDMI_REC_FILE_BYTES);
    const uint32_t rank = tdmi_rec_get32(bytes + TDMI_REC_AT_RANK), size = tdmi_rec_get32(bytes + TDMI_REC_AT_SIZE);
    if (size > INT32_MAX || rank >= size)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the ring is damaged: rank %u of %u", rank, size);
    *out = (tdmi_recording){.rank = (int)rank,
                            .size = (int)size,
                            .pid = (int)(tdmi_rec_get32(bytes + TDMI_REC_AT_PID) & INT32_MAX),
                            .birth = tdmi_rec_get64(bytes + TDMI_REC_AT_BIRTH),
                            .failed = tdmi_rec_get32(bytes + TDMI_REC_AT_STATE) == TDMI_REC_FAILED,
                            .status = (tdm_status)(tdmi_rec_get32(bytes + TDMI_REC_AT_STATUS) & 0xff)};
    get_text(bytes + TDMI_REC_AT_HOST, TDMI_REC_HOST_BYTES, out->host);
    get_text(bytes + TDMI_REC_AT_BOOT, TDMI_REC_BOOT_BYTES, out->boot);
    get_text(bytes + TDMI_REC_AT_JOB, TDMI_REC_JOB_BYTES, out->job);
    get_text(bytes + TDMI_REC_AT_ERROR, TDMI_ERROR_TEXT_MAX, out->error);
    out->call = tdmi_calloc(TDMI_REC_ENTRIES, sizeof *out->call, "recording");
    if (out->call == NULL)
        return TDM_ERR_NO_MEMORY;
    const int64_t offset_ns = (int64_t)tdmi_rec_get64(bytes + TDMI_REC_AT_OFFSET);
    for (uint64_t i = 0; i < TDMI_REC_ENTRIES; i++)
        out->count += get_call(bytes, i, offset_ns, &out->call[out->count]);
    qsort(out->call, out->count, sizeof *out->call, by_time);
    return TDM_OK;
}

void tdmi_recording_free(tdmi_recording *recording)
{
    tdmi_free(recording->call);
    *recording = (tdmi_recording){0};
}
