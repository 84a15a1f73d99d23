/* tokens.c - opening, checking, reading and splitting a file of tokens. */
#include "data/tokens.h"

#include "core/file.h"
#include "core/memory.h"
#include "data/token_format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 8192 };                                  /* tokens read at once; lives on the stack */
static const uint64_t checked_at_open = (uint64_t)1 << 30; /* bytes */

struct tdmi_tokens {
    const tdmi_token_format *format;
    char *path;
    int fd;
    uint32_t vocab;
    uint64_t first_byte, count;
};

static bool is_bin(const char *path)
{
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".bin") == 0;
}

static tdm_status check_vocabulary(const tdmi_tokens *t, uint64_t first, size_t count, const int32_t *tokens)
{
    uint32_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong |= (uint32_t)tokens[i] >= t->vocab;
    if (!wrong)
        return TDM_OK;
    size_t i = 0;
    while ((uint32_t)tokens[i] < t->vocab)
        i++;
    return tdmi_fail(TDM_ERR_BAD_FILE,
                     "%s: token %d at position %llu is beyond the vocabulary of %u (read as %s); use the tokenizer or the "
                     "vocabulary it was made with",
                     t->path, tokens[i], (unsigned long long)(first + i), t->vocab, t->format->name);
}

tdm_status tdmi_tokens_read(const tdmi_tokens *t, uint64_t first, size_t count, int32_t *out)
{
    if (first > t->count || count > t->count - first)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tokens %llu to %llu asked for, it has %llu", t->path, (unsigned long long)first,
                         (unsigned long long)first + count, (unsigned long long)t->count);
    uint8_t raw[CHUNK * sizeof(uint16_t)];
    const uint32_t width = t->format->width;
    for (size_t done = 0; done < count;) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        tdm_status st = tdmi_file_read(t->path, t->fd, raw, n * width, t->first_byte + (first + done) * width);
        if (st != TDM_OK)
            return st;
        t->format->widen(raw, n, out + done);
        st = check_vocabulary(t, first + done, n, out + done);
        if (st != TDM_OK)
            return st;
        done += n;
    }
    return TDM_OK;
}

static tdm_status check_start(const tdmi_tokens *t)
{
    if (t->vocab >= 1u << (8 * t->format->width))
        return TDM_OK; /* no token of this width can be too large */
    uint64_t count = checked_at_open / t->format->width;
    if (count > t->count)
        count = t->count;
    int32_t tokens[CHUNK];
    for (uint64_t first = 0; first < count; first += CHUNK) {
        size_t n = count - first < CHUNK ? (size_t)(count - first) : CHUNK;
        tdm_status st = tdmi_tokens_read(t, first, n, tokens);
        if (st != TDM_OK)
            return st;
    }
    return TDM_OK;
}

/* Opens the file and finds out what it holds. On failure the caller closes what is open. */
static tdm_status look_into(tdmi_tokens *t)
{
    /* O_NONBLOCK: a fifo must be refused below, not waited for */
    t->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (t->fd < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot open data file %s", t->path);
    struct stat info;
    if (fstat(t->fd, &info) != 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read data file %s", t->path);
    if (!S_ISREG(info.st_mode))
        return tdmi_fail(TDM_ERR_BAD_FILE, "data file %s is %s; give a text file or a .bin of 16-bit tokens", t->path,
                         S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    uint8_t head[TDMI_TOKEN_HEAD_BYTES];
    const uint64_t file_bytes = (uint64_t)info.st_size;
    const size_t nbytes = file_bytes < sizeof head ? (size_t)file_bytes : sizeof head;
    tdm_status st = tdmi_file_read(t->path, t->fd, head, nbytes, 0);
    if (st == TDM_OK)
        st = t->format->measure(t->path, head, nbytes, file_bytes, &t->first_byte, &t->count);
    if (st != TDM_OK)
        return st;
    if (t->count == 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "data file %s is empty", t->path);
    return check_start(t);
}

tdm_status tdmi_tokens_open(const char *path, tdmi_token_kind kind, uint32_t vocab, tdmi_tokens **out)
{
    tdmi_tokens *t = tdmi_calloc(1, sizeof *t, "tokens");
    if (t == NULL)
        return TDM_ERR_NO_MEMORY;
    t->fd = -1;
    t->path = tdmi_strdup(path, "tokens path");
    if (t->path == NULL) {
        tdmi_tokens_close(t);
        return TDM_ERR_NO_MEMORY;
    }
    bool bin = kind == TDMI_TOKENS_U16 || (kind == TDMI_TOKENS_AUTO && is_bin(path));
    t->format = bin ? &tdmi_token_bin : &tdmi_token_text;
    t->vocab = vocab != 0 ? vocab : t->format->vocab;
    tdm_status st = look_into(t);
    if (st != TDM_OK) {
        tdmi_tokens_close(t);
        return st;
    }
    *out = t;
    return TDM_OK;
}

void tdmi_tokens_close(tdmi_tokens *t)
{
    if (t == NULL)
        return;
    if (t->fd >= 0)
        close(t->fd);
    tdmi_free(t->path);
    tdmi_free(t);
}

uint64_t tdmi_tokens_count(const tdmi_tokens *t)
{
    return t->count;
}

uint32_t tdmi_tokens_vocab(const tdmi_tokens *t)
{
    return t->vocab;
}

const char *tdmi_tokens_path(const tdmi_tokens *t)
{
    return t->path;
}

const char *tdmi_tokens_format(const tdmi_tokens *t)
{
    return t->format->name;
}

tdm_status tdmi_tokens_split(const tdmi_tokens *t, double val_fraction, uint32_t seq, tdmi_windows *train, tdmi_windows *val)
{
    if (!(val_fraction >= 0 && val_fraction < 1))
        return tdmi_fail(TDM_ERR_INVALID, "validation fraction %g is not in [0, 1)", val_fraction);
    if (seq < 1)
        return tdmi_fail(TDM_ERR_INVALID, "a window of %u tokens; it needs at least 1", seq);
    const uint64_t held_out = (uint64_t)((double)t->count * val_fraction), kept = t->count - held_out;
    *train = (tdmi_windows){t, 0, kept, seq, kept > 0 ? (kept - 1) / seq : 0};
    *val = (tdmi_windows){t, kept, held_out, seq, held_out > 0 ? (held_out - 1) / seq : 0};
    return TDM_OK;
}

tdm_status tdmi_windows_read(const tdmi_windows *w, uint64_t index, int32_t *out)
{
    if (index >= w->windows)
        return tdmi_fail(TDM_ERR_INVALID, "%s: window %llu asked for, there are %llu", w->tokens->path,
                         (unsigned long long)index, (unsigned long long)w->windows);
    return tdmi_tokens_read(w->tokens, w->first + index * w->seq, (size_t)w->seq + 1, out);
}
