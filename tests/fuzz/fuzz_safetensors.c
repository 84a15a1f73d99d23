/* fuzz_safetensors.c - any bytes as a safetensors file: opened, and every tensor that came through read. */
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 4096 };

static void read_tensor(const tdmi_safetensors *file, const tdmi_file_tensor *tensor, size_t size)
{
    static float out[MAX];
    if (tensor->offset > size || tensor->nbytes > size - tensor->offset || tensor->count > tensor->nbytes)
        abort(); /* outside the file */
    const size_t count = tensor->count < MAX ? (size_t)tensor->count : MAX;
    tdm_status st = tdmi_safetensors_read(file, tensor, tensor->count - count, count, out);
    if (st != TDM_OK && st != TDM_ERR_UNSUPPORTED)
        abort(); /* what was checked must be readable */
    if (tdmi_safetensors_read_transposed(file, tensor, 0, count, out) == TDM_OK && tensor->ndim != 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tdmi_safetensors *file;
    if (tdmi_safetensors_open(path, &file) == TDM_OK) {
        for (size_t i = 0; i < tdmi_safetensors_count(file); i++) {
            read_tensor(file, tdmi_safetensors_at(file, i), size);
            if (tdmi_safetensors_find(file, tdmi_safetensors_at(file, i)->name) == NULL)
                abort();
        }
        tdmi_safetensors_close(file);
    }
    close(fd);
    return 0;
}
