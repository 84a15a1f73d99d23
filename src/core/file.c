/* file.c - reads that are interrupted or come in parts go on; a file that ends early is an error with its name. */
#include "core/file.h"

#include <errno.h>
#include <unistd.h>

tdm_status tdmi_file_read(const char *path, int fd, void *out, size_t nbytes, uint64_t offset)
{
    for (size_t done = 0; done < nbytes;) {
        const ssize_t n = pread(fd, (char *)out + done, nbytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s at byte %llu", path, (unsigned long long)(offset + done));
        if (n == 0)
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s ends at byte %llu; %zu more were expected: it must not change while it is read", path,
                             (unsigned long long)(offset + done), nbytes - done);
        done += (size_t)n;
    }
    return TDM_OK;
}
