/* fuzz_tuning.c - any bytes as a tuning file: refused with a text, or read to what can be written and read again. */
#include "coll/tuning.h"
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_tuning tuning, again;
    char *text;
    size_t nbytes;
    if (tdmi_tuning_read((const char *)data, size, &tuning) != TDM_OK) {
        if (*tdm_error_text() == '\0')
            abort();
        return 0;
    }
    if (tdmi_tuning_write(&tuning, &text, &nbytes) != TDM_OK || tdmi_tuning_read(text, nbytes, &again) != TDM_OK ||
        again.best_count != tuning.best_count || again.costs_count != tuning.costs_count)
        abort();
    tdmi_free(text);
    tdmi_tuning_free(&tuning);
    tdmi_tuning_free(&again);
    return 0;
}
