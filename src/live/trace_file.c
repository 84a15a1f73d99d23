/* trace_file.c - copies a trace with a head in front. */
#include "live/trace_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* The place behind the brace that opens the trace; 0: there is none near its begin. */
static off_t behind_brace(int fd)
{
    char begin[64];
    const ssize_t got = pread(fd, begin, sizeof begin, 0);
    for (ssize_t i = 0; i < got; i++) {
        if (begin[i] == '{')
            return i + 1;
        if (!isspace((unsigned char)begin[i]))
            break;
    }
    return 0;
}

static bool copy(int in, int out, int rank, int size)
{
    struct stat info;
    char head[128];
    off_t at = rank >= 0 ? behind_brace(in) : 0;
    if (fstat(in, &info) != 0)
        return false;
    if (at > 0) {
        int length = snprintf(head, sizeof head, "{\n  \"distributedInfo\": {\"rank\": %d", rank);
        if (size > 0)
            length += snprintf(head + length, sizeof head - (size_t)length, ", \"world_size\": %d", size);
        length += snprintf(head + length, sizeof head - (size_t)length, "},");
        if (write(out, head, (size_t)length) != length)
            return false;
    }
    while (at < info.st_size) {
        const ssize_t sent = sendfile(out, in, &at, (size_t)(info.st_size - at));
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
    }
    return true;
}

tdm_status tdmi_trace_file_move(const char *from, const char *to, int rank, int size)
{
    const int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    bool good = out >= 0 && copy(in, out, rank, size);
    int error = errno;
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && good) {
        error = errno;
        good = false;
    }
    if (!good)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot write the trace of rank %d as %s", rank, to);
    unlink(from);
    return TDM_OK;
}
