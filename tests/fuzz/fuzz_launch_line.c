/* fuzz_launch_line.c - any text as a launch line: refused, or split into words and settings. */
#include "lint/launch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_launch launch;
    char *line = malloc(size + 1);
    if (line == NULL)
        return 0;
    if (size > 0)
        memcpy(line, data, size);
    line[size] = '\0';
    if (tdmi_launch_read(line, NULL, &launch) == TDM_OK) {
        size_t letters = 0;
        if (launch.words == 0 || launch.program >= launch.words || launch.script > launch.words || launch.launcher == TDMI_NO_LAUNCHER)
            abort();
        for (size_t i = 0; i < launch.words; i++)
            letters += strlen(launch.word[i].text);
        for (size_t i = 0; i < launch.settings; i++)
            letters += strlen(launch.setting[i].value);
        if (letters > 2 * size)
            abort();
        tdmi_launch_free(&launch);
    }
    free(line);
    return 0;
}
