/* disk.c - exact, durable file access. */
#include "checkpoint/disk.h"

#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

enum { HASH_CHUNK = 1 << 20 };

tdm_status tdmi_disk_path(char out[TDMI_PATH_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(out, TDMI_PATH_MAX, format, args);
    va_end(args);
    if (length < 0 || length >= TDMI_PATH_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "path %.60s... has %d bytes; at most %d are possible", out, length, TDMI_PATH_MAX - 1);
    return TDM_OK;
}

/* The text of a write that failed; says what is free where that is the reason. */
static tdm_status write_failed(const char *path, int fd, int err, uint64_t nbytes)
{
    struct statvfs fs;
    if ((err == ENOSPC || err == EDQUOT) && fstatvfs(fd, &fs) == 0)
        return tdmi_fail(TDM_ERR_NO_SPACE, "no space for %s: it needs %llu bytes, %llu are free on its file system%s", path,
                         (unsigned long long)nbytes, (unsigned long long)fs.f_bavail * fs.f_frsize,
                         err == EDQUOT ? " (your quota is used up)" : "");
    return tdmi_fail_errno(TDM_ERR_SYSTEM, err, "cannot write %llu bytes to %s", (unsigned long long)nbytes, path);
}

tdm_status tdmi_disk_write(const char *path, int fd, const void *data, size_t nbytes, uint64_t offset)
{
    for (size_t done = 0; done < nbytes;) {
        ssize_t n = pwrite(fd, (const char *)data + done, nbytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_failed(path, fd, n < 0 ? errno : ENOSPC, nbytes);
        done += (size_t)n;
    }
    return TDM_OK;
}

tdm_status tdmi_disk_reserve(const char *path, int fd, uint64_t nbytes)
{
    struct statvfs fs; /* asked first, so that a hopeless request does not fill the disk on its way to fail */
    if (fstatvfs(fd, &fs) == 0 && nbytes > (uint64_t)fs.f_bavail * fs.f_frsize)
        return write_failed(path, fd, ENOSPC, nbytes);
    if (nbytes == 0)
        return TDM_OK;
    int err;
    do
        err = fallocate(fd, 0, 0, (off_t)nbytes) == 0 ? 0 : errno;
    while (err == EINTR);
    if (err == EOPNOTSUPP) /* this file system cannot promise space; a write that finds none is still an error */
        err = ftruncate(fd, (off_t)nbytes) == 0 ? 0 : errno;
    return err == 0 ? TDM_OK : write_failed(path, fd, err, nbytes);
}

tdm_status tdmi_disk_sync(const char *path, int fd)
{
    if (fsync(fd) == 0)
        return TDM_OK;
    if (errno == ENOSPC || errno == EDQUOT)
        return write_failed(path, fd, errno, 0);
    return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot bring %s to the disk", path);
}

tdm_status tdmi_disk_sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot open directory %s", path);
    tdm_status st = tdmi_disk_sync(path, fd);
    close(fd);
    return st;
}

tdm_status tdmi_disk_write_file(const char *path, const void *data, size_t nbytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot create %s", path);
    tdm_status st = tdmi_disk_write(path, fd, data, nbytes, 0);
    if (st == TDM_OK)
        st = tdmi_disk_sync(path, fd);
    if (close(fd) != 0 && st == TDM_OK)
        st = write_failed(path, fd, errno, nbytes);
    return st;
}

/* Opens a regular file for reading and gives its size. */
static tdm_status open_file(const char *path, int *fd, uint64_t *nbytes)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot open %s", path);
    struct stat info;
    tdm_status st = TDM_OK;
    if (fstat(*fd, &info) != 0)
        st = tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", path);
    else if (!S_ISREG(info.st_mode))
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s is not a regular file", path);
    if (st != TDM_OK)
        close(*fd);
    else
        *nbytes = (uint64_t)info.st_size;
    return st;
}

tdm_status tdmi_disk_read_file(const char *path, size_t max, char **out, size_t *nbytes)
{
    int fd;
    uint64_t size = 0;
    tdm_status st = open_file(path, &fd, &size);
    if (st != TDM_OK)
        return st;
    char *text = NULL;
    if (size > max)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s has %llu bytes; more than %zu cannot be right", path, (unsigned long long)size, max);
    else if ((text = tdmi_malloc((size_t)size + 1, "file text")) == NULL)
        st = TDM_ERR_NO_MEMORY;
    else
        st = tdmi_file_read(path, fd, text, (size_t)size, 0);
    close(fd);
    if (st != TDM_OK) {
        tdmi_free(text);
        return st;
    }
    text[size] = '\0';
    *out = text;
    *nbytes = (size_t)size;
    return TDM_OK;
}

tdm_status tdmi_disk_hash(const char *path, uint64_t *nbytes, uint64_t *hash)
{
    int fd;
    uint64_t size = 0;
    tdm_status st = open_file(path, &fd, &size);
    if (st != TDM_OK)
        return st;
    char *chunk = tdmi_malloc(HASH_CHUNK, "hash chunk");
    XXH64_state_t *state = XXH64_createState();
    if (chunk == NULL || state == NULL || XXH64_reset(state, 0) == XXH_ERROR)
        st = tdmi_fail(TDM_ERR_NO_MEMORY, "no memory to check %s", path);
    for (uint64_t done = 0; st == TDM_OK && done < size; done += HASH_CHUNK) {
        size_t n = size - done < HASH_CHUNK ? (size_t)(size - done) : HASH_CHUNK;
        st = tdmi_file_read(path, fd, chunk, n, done);
        if (st == TDM_OK)
            XXH64_update(state, chunk, n);
    }
    if (st == TDM_OK) {
        *nbytes = size;
        *hash = XXH64_digest(state);
    }
    XXH64_freeState(state);
    tdmi_free(chunk);
    close(fd);
    return st;
}
