/* fuzz_algo.c - any text as TANDEM_ALGO: refused with a text, or a choice that offers the operation. */
#include "coll/steps.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    setenv("TANDEM_ALGO", text, 1);
    free(text);
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (size_t count = 1; count < (size_t)1 << 40; count <<= 13) {
            const tdmi_call call = {.coll = (tdmi_coll)coll, .dtype = TDM_F32, .op = TDM_SUM, .root = 0, .count = count};
            const tdmi_algorithm *algorithm = NULL;
            tdm_status st = tdmi_select(&call, &(tdmi_topology){.n = 2}, TDMI_NEEDS_LINKS | TDMI_NEEDS_STAGE | TDMI_NEEDS_SHARED, &algorithm, NULL);
            if (st == TDM_OK ? !algorithm->supports(call.coll, false) : *tdm_error_text() == '\0')
                abort();
        }
    return 0;
}
