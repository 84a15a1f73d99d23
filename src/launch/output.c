/* output.c - pipes in, lines out.
 *
 *   rank's pipe --> stream.partial (bytes of a line not ended yet) --> whole lines --> sink.queue --> stdout or stderr
 *
 * One thread. Nothing here waits: pipes are read when poll says so, sinks are written in pieces of at most PIPE_BUF, which a
 * writable pipe takes without blocking (the descriptor's flags are shared with others and stay as they are). When a sink's
 * reader is slow its streams are not read until it has caught up, so ranks wait as they would without us. When it is gone its
 * streams are still read, and dropped: a closed pipe must not end the job. */
#include "launch/output.h"

#include "core/memory.h"
#include "store/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUEUE_MAX (1u << 20)   /* a sink this far behind stops its streams */
#define LINE_MAX_NBYTES (256u << 20) /* a longer line is cut: something writes without newlines */
#define LAST_LINE_MAX 400
#define DRAIN_READS_MAX 64 /* 4 MiB, more than a pipe holds: somebody may go on writing for ever */
#define PREFIX_MAX 300

typedef struct sink {
    int fd;
    tdmi_buffer queue;
    bool dead; /* nobody reads it any more */
    bool is_file;
} sink;

typedef struct stream {
    int fd; /* -1: at its end */
    sink *to;
    char prefix[PREFIX_MAX];
    bool shown;
    int log_fd;
    tdmi_buffer partial;
    char last_line[LAST_LINE_MAX + 4];
} stream;

struct tdmi_output {
    char name[64];
    sink sinks[2];
    sink *to[2]; /* stdout, stderr: one sink where both are the same file, so that lines do not mix */
    stream *streams;
    size_t stream_count;
    bool log_failed;
};

tdm_status tdmi_output_create(const char *name, tdmi_output **out)
{
    tdmi_output *output = tdmi_calloc(1, sizeof *output, "output");
    if (output == NULL)
        return TDM_ERR_NO_MEMORY;
    snprintf(output->name, sizeof output->name, "%s", name);
    struct stat info[2];
    bool known[2];
    for (int i = 0; i < 2; i++) {
        output->sinks[i].fd = STDOUT_FILENO + i;
        known[i] = fstat(STDOUT_FILENO + i, &info[i]) == 0;
        output->sinks[i].dead = !known[i];
        output->sinks[i].is_file = known[i] && S_ISREG(info[i].st_mode);
        output->to[i] = &output->sinks[i];
    }
    if (known[0] && known[1] && info[0].st_dev == info[1].st_dev && info[0].st_ino == info[1].st_ino)
        output->to[0] = &output->sinks[1];
    *out = output;
    return TDM_OK;
}

tdm_status tdmi_output_add(tdmi_output *output, int fd, bool is_stderr, const char *prefix, bool shown, int log_fd, int *stream_out)
{
    stream *streams = tdmi_realloc(output->streams, (output->stream_count + 1) * sizeof *streams, "output streams");
    if (streams == NULL) {
        close(fd);
        if (log_fd >= 0)
            close(log_fd);
        return TDM_ERR_NO_MEMORY;
    }
    output->streams = streams;
    stream *s = &streams[output->stream_count];
    *s = (stream){.fd = fd, .to = output->to[is_stderr], .shown = shown, .log_fd = log_fd};
    snprintf(s->prefix, sizeof s->prefix, "%s", prefix);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    *stream_out = (int)output->stream_count++;
    return TDM_OK;
}

static void flush(sink *to)
{
    while (tdmi_buffer_held(&to->queue) > 0 && !to->dead) {
        struct pollfd item = {.fd = to->fd, .events = POLLOUT};
        if (poll(&item, 1, 0) <= 0)
            return;
        size_t nbytes = tdmi_buffer_held(&to->queue);
        if (!to->is_file && nbytes > PIPE_BUF)
            nbytes = PIPE_BUF;
        ssize_t written = write(to->fd, tdmi_buffer_front(&to->queue), nbytes);
        if (written > 0)
            tdmi_buffer_take(&to->queue, (size_t)written);
        else if (written < 0 && errno == EAGAIN)
            return;
        else if (written < 0 && errno != EINTR)
            to->dead = true;
    }
    if (to->dead)
        tdmi_buffer_free(&to->queue);
}

static void enqueue(sink *to, const void *bytes, size_t nbytes)
{
    if (!to->dead && tdmi_buffer_append(&to->queue, bytes, nbytes) != TDM_OK)
        to->dead = true; /* without memory for output the job still goes on */
}

/* The stream's partial line and `bytes` make a whole line, with or without its newline. */
static void end_line(stream *s, const uint8_t *bytes, size_t nbytes)
{
    const uint8_t *parts[2] = {tdmi_buffer_front(&s->partial), bytes};
    size_t sizes[2] = {tdmi_buffer_held(&s->partial), nbytes};
    if (s->shown) {
        enqueue(s->to, s->prefix, strlen(s->prefix));
        enqueue(s->to, parts[0], sizes[0]);
        enqueue(s->to, parts[1], sizes[1]);
        enqueue(s->to, "\n", 1);
    }
    size_t used = 0;
    char line[LAST_LINE_MAX];
    bool blank = true;
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < sizes[part] && used < sizeof line; i++) {
            char c = (char)parts[part][i];
            blank &= c == ' ' || c == '\t' || c == '\r';
            line[used++] = (unsigned char)c < ' ' || c == 127 ? ' ' : c; /* for a message: no control characters */
        }
    if (!blank) {
        memcpy(s->last_line, line, used);
        memcpy(s->last_line + used, sizes[0] + sizes[1] > used ? "..." : "", sizes[0] + sizes[1] > used ? 4 : 1);
    }
    tdmi_buffer_take(&s->partial, sizes[0]);
}

static void write_log(tdmi_output *output, stream *s, const uint8_t *bytes, size_t nbytes)
{
    while (s->log_fd >= 0 && nbytes > 0) {
        ssize_t written = write(s->log_fd, bytes, nbytes);
        if (written > 0) {
            bytes += written;
            nbytes -= (size_t)written;
        } else if (errno != EINTR) {
            if (!output->log_failed)
                tdmi_output_say(output, "cannot write a log file: %s; the job goes on without it", strerror(errno));
            output->log_failed = true;
            close(s->log_fd);
            s->log_fd = -1;
        }
    }
}

static void take(tdmi_output *output, stream *s, const uint8_t *bytes, size_t nbytes)
{
    write_log(output, s, bytes, nbytes);
    for (const uint8_t *newline; nbytes > 0 && (newline = memchr(bytes, '\n', nbytes)) != NULL;) {
        size_t length = (size_t)(newline - bytes);
        end_line(s, bytes, length);
        bytes += length + 1;
        nbytes -= length + 1;
    }
    if (tdmi_buffer_held(&s->partial) + nbytes > LINE_MAX_NBYTES || tdmi_buffer_append(&s->partial, bytes, nbytes) != TDM_OK)
        end_line(s, bytes, nbytes);
}

static void close_stream(stream *s)
{
    if (s->fd < 0)
        return;
    close(s->fd);
    s->fd = -1;
    if (tdmi_buffer_held(&s->partial) > 0)
        end_line(s, NULL, 0);
    tdmi_buffer_free(&s->partial);
    if (s->log_fd >= 0)
        close(s->log_fd);
    s->log_fd = -1;
}

/* Reads once. False: nothing there, or at the end. */
static bool read_once(tdmi_output *output, stream *s)
{
    static uint8_t bytes[65536]; /* one thread */
    if (s->fd < 0)
        return false;
    ssize_t got = read(s->fd, bytes, sizeof bytes);
    if (got > 0) {
        take(output, s, bytes, (size_t)got);
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        close_stream(s);
    return false;
}

static bool is_held_back(const stream *s)
{
    return s->shown && !s->to->dead && tdmi_buffer_held(&s->to->queue) > QUEUE_MAX;
}

void tdmi_output_say(tdmi_output *output, const char *format, ...)
{
    char line[2048];
    int used = snprintf(line, sizeof line, "%s: ", output->name);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);
    size_t length = (size_t)used + (size_t)(more < 0 ? 0 : more);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    enqueue(output->to[1], line, length);
    flush(output->to[1]);
}

size_t tdmi_output_poll_max(const tdmi_output *output)
{
    return output->stream_count + 2;
}

size_t tdmi_output_prepare(const tdmi_output *output, struct pollfd *items)
{
    size_t count = 0;
    for (size_t i = 0; i < output->stream_count; i++) /* poll leaves out negative descriptors */
        items[count++] = (struct pollfd){.fd = is_held_back(&output->streams[i]) ? -1 : output->streams[i].fd, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        if (tdmi_buffer_held(&output->sinks[i].queue) > 0)
            items[count++] = (struct pollfd){.fd = output->sinks[i].fd, .events = POLLOUT};
    return count;
}

void tdmi_output_pump(tdmi_output *output, const struct pollfd *items, size_t count)
{
    for (size_t i = 0; i < output->stream_count && i < count; i++)
        if (items[i].fd >= 0 && items[i].revents != 0)
            read_once(output, &output->streams[i]);
    for (int i = 0; i < 2; i++)
        flush(&output->sinks[i]);
}

void tdmi_output_drain(tdmi_output *output, int index)
{
    for (int i = 0; i < DRAIN_READS_MAX && read_once(output, &output->streams[index]); i++)
        ;
}

void tdmi_output_finish(tdmi_output *output)
{
    for (size_t i = 0; i < output->stream_count; i++) {
        tdmi_output_drain(output, (int)i);
        close_stream(&output->streams[i]);
    }
    for (int i = 0; i < 2; i++)
        flush(&output->sinks[i]);
}

bool tdmi_output_is_flushed(const tdmi_output *output)
{
    return tdmi_buffer_held(&output->sinks[0].queue) == 0 && tdmi_buffer_held(&output->sinks[1].queue) == 0;
}

const char *tdmi_output_last_line(const tdmi_output *output, int index)
{
    return output->streams[index].last_line;
}

void tdmi_output_destroy(tdmi_output *output)
{
    if (output == NULL)
        return;
    for (size_t i = 0; i < output->stream_count; i++)
        close_stream(&output->streams[i]);
    tdmi_free(output->streams);
    for (int i = 0; i < 2; i++)
        tdmi_buffer_free(&output->sinks[i].queue);
    tdmi_free(output);
}
