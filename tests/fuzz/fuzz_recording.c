/* fuzz_recording.c - any bytes as a ring: refused, or read within bounds and written as JSON. A ring is large: the bytes are laid
 * over an empty one, those beyond the head over its first entries. */
#include "trace/recorder_layout.h"
#include "trace/recording.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD 2816

static void check(const uint8_t *bytes, size_t nbytes)
{
    tdmi_recording r;
    if (tdmi_recording_parse(bytes, nbytes, &r) != TDM_OK)
        return;
    if (r.rank < 0 || r.rank >= r.size || r.count > TDMI_REC_ENTRIES)
        abort();
    for (size_t i = 0; i < r.count; i++) {
        const tdmi_recorded_call *c = &r.call[i];
        if (c->state < TDMI_CALL_CREATED || c->state > TDMI_CALL_FAILED || c->group_rank < -1 || c->group_size < 0 || c->op[0] == '\0')
            abort();
        if (strlen(c->label) >= sizeof c->label || strlen(c->group) >= sizeof c->group)
            abort();
    }
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    tdmi_recording_put_json(&r, file);
    fclose(file);
    if (length < 20 || strcmp(text + length - 4, "\n]}\n") != 0)
        abort();
    free(text);
    tdmi_recording_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t ring[TDMI_REC_FILE_BYTES];
    check(data, size);
    memset(ring, 0, sizeof ring);
    memcpy(ring, TDMI_REC_MAGIC, 8);
    tdmi_rec_put32(ring + TDMI_REC_AT_VERSION, TDMI_REC_VERSION);
    tdmi_rec_put32(ring + TDMI_REC_AT_ENTRY_COUNT, TDMI_REC_ENTRIES);
    tdmi_rec_put32(ring + TDMI_REC_AT_SIZE, 4);
    const size_t head = size < HEAD ? size : HEAD;
    if (head > 16)
        memcpy(ring + 16, data + 16, head - 16);
    if (size > HEAD) {
        const size_t rest = size - HEAD < sizeof ring - TDMI_REC_GROUPS_AT ? size - HEAD : sizeof ring - TDMI_REC_GROUPS_AT;
        memcpy(ring + TDMI_REC_GROUPS_AT, data + HEAD, rest);
        memcpy(ring + TDMI_REC_ENTRIES_AT, data + HEAD, rest < 4096 ? rest : 4096);
    }
    check(ring, sizeof ring);
    return 0;
}
