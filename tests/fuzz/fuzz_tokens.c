/* fuzz_tokens.c - any bytes as a file of tokens of either kind: opened, split and read to its end. */
#include "data/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_windows(const tdmi_windows *windows)
{
    int32_t window[8];
    for (uint64_t i = 0; i < windows->windows; i++)
        if (tdmi_windows_read(windows, i, window) != TDM_OK)
            abort(); /* what was checked must be readable */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int kind = TDMI_TOKENS_BYTES; kind <= TDMI_TOKENS_U16; kind++) {
        tdmi_tokens *tokens;
        if (tdmi_tokens_open(path, (tdmi_token_kind)kind, 0, &tokens) != TDM_OK)
            continue;
        tdmi_windows train, val;
        if (tdmi_tokens_count(tokens) > size || tdmi_tokens_split(tokens, 0.3, 7, &train, &val) != TDM_OK)
            abort();
        read_windows(&train);
        read_windows(&val);
        tdmi_tokens_close(tokens);
    }
    close(fd);
    return 0;
}
