/* source.c - a file, or bytes in memory, as text. A block of the file at a time is read into a buffer, never mapped: a file that gets
 * shorter while it is read ends early instead of killing the process, and the pages of a large one are not this process's memory.
 *
 * Threads: with `ahead`, one thread inflates into a ring of blocks; it owns `inflate` and everything it reads from until it has ended. The
 * caller's thread takes blocks out of the ring. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kineto/source.h"

#include "core/memory.h"
#include "kineto/inflate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RAW_BYTES = 128 << 10, BLOCK_BYTES = 512 << 10, BLOCKS = 3 };

typedef struct ring {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint8_t *block[BLOCKS];
    size_t nbytes[BLOCKS];   /* guarded by lock */
    unsigned filled, taken;  /* blocks ever filled and taken; guarded by lock */
    bool ended, stop;        /* by the thread; by the caller. Guarded by lock */
    size_t at;               /* in the oldest block; caller only */
} ring;

struct tdmi_source {
    int fd;                  /* -1: bytes */
    const uint8_t *bytes;    /* not yet read */
    size_t nbytes;
    uint8_t *raw;            /* [RAW_BYTES] of a compressed file */
    uint8_t head[2];         /* of a plain file, read to see what it is */
    size_t head_nbytes;
    tdmi_inflate *inflate;   /* NULL: plain */
    ring *ahead;             /* NULL: inflates when asked */
    tdmi_source_facts facts;
};

/* From the file itself. */
static size_t read_file(tdmi_source *source, uint8_t *out, size_t nbytes)
{
    ssize_t got;
    do
        got = read(source->fd, out, nbytes);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        source->facts.end = TDMI_SOURCE_UNREADABLE;
        source->facts.error_number = errno;
        return 0;
    }
    source->facts.file_at += (uint64_t)got;
    return (size_t)got;
}

static size_t more_of_file(void *arg, const uint8_t **out)
{
    tdmi_source *source = arg;
    if (source->fd < 0) {
        const size_t nbytes = source->nbytes < RAW_BYTES ? source->nbytes : RAW_BYTES;
        *out = source->bytes;
        source->bytes += nbytes;
        source->nbytes -= nbytes;
        source->facts.file_at += nbytes;
        return nbytes;
    }
    *out = source->raw;
    if (source->head_nbytes > 0) {
        const size_t nbytes = source->head_nbytes;
        memcpy(source->raw, source->head, nbytes);
        source->head_nbytes = 0;
        return nbytes;
    }
    return read_file(source, source->raw, RAW_BYTES);
}

static void *inflate_ahead(void *arg)
{
    tdmi_source *source = arg;
    ring *r = source->ahead;
    for (unsigned number = 0;; number++) {
        pthread_mutex_lock(&r->lock);
        while (r->filled - r->taken == BLOCKS && !r->stop)
            pthread_cond_wait(&r->moved, &r->lock);
        const bool stop = r->stop;
        pthread_mutex_unlock(&r->lock);
        const size_t nbytes = stop ? 0 : tdmi_inflate_read(source->inflate, r->block[number % BLOCKS], BLOCK_BYTES, &source->facts);
        pthread_mutex_lock(&r->lock);
        if (nbytes == 0)
            r->ended = true;
        r->nbytes[number % BLOCKS] = nbytes;
        r->filled += nbytes > 0;
        pthread_cond_signal(&r->moved);
        pthread_mutex_unlock(&r->lock);
        if (nbytes == 0)
            return NULL;
    }
}

static void drop_ring(ring *r)
{
    for (int i = 0; i < BLOCKS; i++)
        tdmi_free(r->block[i]);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    tdmi_free(r);
}

/* Without memory or a thread for it, inflating just waits to be asked. */
static void start_ahead(tdmi_source *source)
{
    ring *r = tdmi_calloc(1, sizeof *r, "trace inflate");
    if (r == NULL)
        return;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    bool good = true;
    for (int i = 0; i < BLOCKS && good; i++)
        good = (r->block[i] = tdmi_aligned_alloc(64, BLOCK_BYTES, "trace inflate")) != NULL;
    source->ahead = r;
    if (!good || pthread_create(&r->thread, NULL, inflate_ahead, source) != 0) {
        source->ahead = NULL;
        drop_ring(r);
    }
}

static size_t take(ring *r, uint8_t *out, size_t nbytes)
{
    pthread_mutex_lock(&r->lock);
    while (r->filled == r->taken && !r->ended)
        pthread_cond_wait(&r->moved, &r->lock);
    const bool any = r->filled != r->taken;
    const size_t here = any ? r->nbytes[r->taken % BLOCKS] : 0;
    pthread_mutex_unlock(&r->lock);
    if (!any)
        return 0;
    if (nbytes > here - r->at)
        nbytes = here - r->at;
    memcpy(out, r->block[r->taken % BLOCKS] + r->at, nbytes); /* only this thread changes `taken` */
    r->at += nbytes;
    if (r->at == here) {
        r->at = 0;
        pthread_mutex_lock(&r->lock);
        r->taken++;
        pthread_cond_signal(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
    return nbytes;
}

static bool is_gzip(const uint8_t *head, size_t nbytes)
{
    return nbytes >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

static tdm_status start(tdmi_source *source, const uint8_t *head, size_t nbytes, bool ahead)
{
    if (!is_gzip(head, nbytes))
        return TDM_OK;
    if (source->fd >= 0 && (source->raw = tdmi_malloc(RAW_BYTES, "trace inflate")) == NULL)
        return TDM_ERR_NO_MEMORY;
    const tdm_status status = tdmi_inflate_create(more_of_file, source, &source->inflate);
    if (status == TDM_OK && ahead)
        start_ahead(source);
    return status;
}

tdm_status tdmi_source_open(const char *path, bool ahead, tdmi_source **out)
{
    struct stat about;
    tdmi_source *source = tdmi_calloc(1, sizeof *source, "trace source");
    if (source == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = TDM_OK;
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe that nobody writes to must not hold us */
    if (source->fd < 0 || fstat(source->fd, &about) != 0)
        status = tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "%s cannot be opened", path);
    else if (!S_ISREG(about.st_mode))
        status = tdmi_fail(TDM_ERR_BAD_FILE, "%s is %s; a trace is a plain file", path, S_ISDIR(about.st_mode) ? "a folder" : "no plain file");
    if (status == TDM_OK) {
        posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        while (source->head_nbytes < sizeof source->head) {
            const size_t got = read_file(source, source->head + source->head_nbytes, sizeof source->head - source->head_nbytes);
            if (got == 0)
                break;
            source->head_nbytes += got;
        }
        if (source->facts.end == TDMI_SOURCE_UNREADABLE)
            status = tdmi_fail_errno(TDM_ERR_BAD_FILE, source->facts.error_number, "%s cannot be read", path);
        else
            status = start(source, source->head, source->head_nbytes, ahead);
    }
    if (status != TDM_OK) {
        tdmi_source_close(source);
        return status;
    }
    *out = source;
    return TDM_OK;
}

tdm_status tdmi_source_open_bytes(const void *bytes, size_t nbytes, tdmi_source **out)
{
    tdmi_source *source = tdmi_calloc(1, sizeof *source, "trace source");
    if (source == NULL)
        return TDM_ERR_NO_MEMORY;
    source->fd = -1;
    source->bytes = bytes;
    source->nbytes = nbytes;
    const tdm_status status = start(source, bytes, nbytes, false);
    if (status != TDM_OK) {
        tdmi_source_close(source);
        return status;
    }
    *out = source;
    return TDM_OK;
}

void tdmi_source_close(tdmi_source *source)
{
    if (source == NULL)
        return;
    if (source->ahead != NULL) {
        pthread_mutex_lock(&source->ahead->lock);
        source->ahead->stop = true;
        pthread_cond_signal(&source->ahead->moved);
        pthread_mutex_unlock(&source->ahead->lock);
        pthread_join(source->ahead->thread, NULL);
        drop_ring(source->ahead);
    }
    tdmi_inflate_destroy(source->inflate);
    tdmi_free(source->raw);
    if (source->fd >= 0)
        close(source->fd);
    tdmi_free(source);
}

size_t tdmi_source_read(tdmi_source *source, uint8_t *out, size_t nbytes)
{
    if (source->ahead != NULL)
        return take(source->ahead, out, nbytes);
    if (source->inflate != NULL)
        return tdmi_inflate_read(source->inflate, out, nbytes, &source->facts);
    if (source->fd >= 0 && source->head_nbytes == 0)
        return read_file(source, out, nbytes);
    if (source->fd >= 0) {
        nbytes = nbytes < source->head_nbytes ? nbytes : source->head_nbytes;
        memcpy(out, source->head, nbytes);
        memmove(source->head, source->head + nbytes, source->head_nbytes -= nbytes);
        return nbytes;
    }
    if (nbytes > source->nbytes)
        nbytes = source->nbytes;
    if (nbytes > 0)
        memcpy(out, source->bytes, nbytes);
    source->bytes += nbytes;
    source->nbytes -= nbytes;
    source->facts.file_at += nbytes;
    return nbytes;
}

tdmi_source_facts tdmi_source_found(const tdmi_source *source)
{
    return source->facts;
}
