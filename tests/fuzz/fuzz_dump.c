/* fuzz_dump.c - any bytes as a dump of a flight recorder: refused, or read into a sound recording. */
#include "doctor/gather.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_recording r;
    if (tdmi_dump_parse((const char *)data, size, &r) != TDM_OK)
        return 0;
    if (r.rank < 0 || r.rank >= r.size || strlen(r.error) >= sizeof r.error)
        abort();
    for (size_t i = 0; i < r.count; i++)
        if (r.call[i].state < TDMI_CALL_CREATED || r.call[i].state > TDMI_CALL_FAILED || r.call[i].number < 1 ||
            strlen(r.call[i].op) >= sizeof r.call[i].op)
            abort();
    tdmi_recording_free(&r);
    return 0;
}
