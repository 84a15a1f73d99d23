/* safetensors_write.c - a layout, the file made from it, and ranges written into it by any rank.
 *
 * The header is padded with spaces so that the data begin at a multiple of 64 bytes. It says {"format": "pt"}, without which
 * Hugging Face's loaders refuse a file. */
#include "checkpoint/safetensors.h"

#include "checkpoint/disk.h"
#include "checkpoint/transpose.h"
#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 64, SCRATCH = 1 << 20 };

struct tdmi_layout {
    size_t count, capacity;
    tdmi_file_tensor *tensors; /* names are owned; offset counts from the start of the data */
    uint64_t data_bytes;
};

struct tdmi_safetensors_writer {
    const tdmi_layout *layout;
    char *path;
    int fd;
    uint64_t data_at; /* where the data begin */
};

tdm_status tdmi_layout_create(tdmi_layout **out)
{
    *out = tdmi_calloc(1, sizeof **out, "layout");
    return *out != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

void tdmi_layout_destroy(tdmi_layout *layout)
{
    if (layout == NULL)
        return;
    for (size_t i = 0; i < layout->count; i++)
        tdmi_free((char *)layout->tensors[i].name);
    tdmi_free(layout->tensors);
    tdmi_free(layout);
}

tdm_status tdmi_layout_add(tdmi_layout *layout, const char *name, int ndim, const uint64_t *shape)
{
    if (ndim < 0 || ndim > TDMI_TENSOR_DIMS_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "tensor \"%s\" has %d dimensions; at most %d are possible", name, ndim,
                         TDMI_TENSOR_DIMS_MAX);
    tdmi_file_tensor t = {.type = "F32", .ndim = ndim, .count = 1};
    for (int d = 0; d < ndim; d++) {
        if (shape[d] != 0 && t.count > ((uint64_t)1 << 60) / shape[d])
            return tdmi_fail(TDM_ERR_INVALID, "tensor \"%s\" is larger than any file", name);
        t.shape[d] = shape[d];
        t.count *= shape[d];
    }
    t.nbytes = t.count * sizeof(float);
    if (layout->data_bytes + t.nbytes > (uint64_t)1 << 62)
        return tdmi_fail(TDM_ERR_INVALID, "with tensor \"%s\" the layout is larger than any file", name);
    for (size_t i = 0; i < layout->count; i++)
        if (strcmp(layout->tensors[i].name, name) == 0)
            return tdmi_fail(TDM_ERR_INVALID, "tensor \"%s\" is in the layout already", name);
    json_t *text = json_string(name); /* refuses what JSON cannot hold */
    if (text == NULL || strcmp(name, "__metadata__") == 0) {
        json_decref(text);
        return tdmi_fail(TDM_ERR_INVALID, "a tensor cannot be called \"%s\": not UTF-8, or a name of the format itself", name);
    }
    json_decref(text);
    if (layout->count == layout->capacity) {
        size_t capacity = layout->capacity != 0 ? 2 * layout->capacity : 64;
        tdmi_file_tensor *more = tdmi_realloc(layout->tensors, capacity * sizeof *more, "layout tensors");
        if (more == NULL)
            return TDM_ERR_NO_MEMORY;
        layout->tensors = more;
        layout->capacity = capacity;
    }
    t.name = tdmi_strdup(name, "tensor name");
    if (t.name == NULL)
        return TDM_ERR_NO_MEMORY;
    t.offset = layout->data_bytes;
    layout->data_bytes += t.nbytes;
    layout->tensors[layout->count++] = t;
    return TDM_OK;
}

size_t tdmi_layout_count(const tdmi_layout *layout)
{
    return layout->count;
}

const tdmi_file_tensor *tdmi_layout_at(const tdmi_layout *layout, size_t i)
{
    return &layout->tensors[i];
}

/* One tensor's entry; NULL without memory. */
static json_t *entry_of(const tdmi_file_tensor *t)
{
    json_t *shape = json_array();
    for (int d = 0; shape != NULL && d < t->ndim; d++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->type, "shape", shape, "data_offsets", (json_int_t)t->offset,
                     (json_int_t)(t->offset + t->nbytes));
}

/* Length word, JSON and padding, as they stand at the start of the file. Returns new. */
static tdm_status make_header(const tdmi_layout *layout, char **out, size_t *nbytes)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    bool whole = root != NULL;
    for (size_t i = 0; whole && i < layout->count; i++)
        whole = json_object_set_new(root, layout->tensors[i].name, entry_of(&layout->tensors[i])) == 0;
    char *json = whole ? json_dumps(root, JSON_COMPACT) : NULL; /* in the order of insertion */
    json_decref(root);
    if (json == NULL)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for a header of %zu tensors", layout->count);
    const size_t length = strlen(json), total = (8 + length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *header = total - 8 <= TDMI_SAFETENSORS_HEADER_MAX ? tdmi_malloc(total, "safetensors header") : NULL;
    if (header != NULL) {
        for (int i = 0; i < 8; i++)
            header[i] = (char)((uint64_t)(total - 8) >> (8 * i));
        memcpy(header + 8, json, length);
        memset(header + 8 + length, ' ', total - 8 - length);
    }
    free(json);
    if (total - 8 > TDMI_SAFETENSORS_HEADER_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "%zu tensors need a header of %zu bytes; readers allow %d", layout->count, total - 8,
                         TDMI_SAFETENSORS_HEADER_MAX);
    *out = header;
    *nbytes = total;
    return header != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

/* Writes the header into a file of the final size, or compares the header that is there. */
static tdm_status settle(tdmi_safetensors_writer *w, bool created)
{
    char *header = NULL;
    size_t nbytes = 0;
    tdm_status st = make_header(w->layout, &header, &nbytes);
    if (st != TDM_OK)
        return st;
    w->data_at = nbytes;
    if (created) {
        st = tdmi_disk_reserve(w->path, w->fd, nbytes + w->layout->data_bytes);
        if (st == TDM_OK)
            st = tdmi_disk_write(w->path, w->fd, header, nbytes, 0);
    } else {
        char *there = tdmi_malloc(nbytes, "safetensors header");
        st = there != NULL ? tdmi_file_read(w->path, w->fd, there, nbytes, 0) : TDM_ERR_NO_MEMORY;
        if (st == TDM_ERR_BAD_FILE || (st == TDM_OK && memcmp(there, header, nbytes) != 0))
            st = tdmi_fail(TDM_ERR_MISMATCH, "%s was begun by a rank with other tensors; all ranks must save the same model",
                           w->path);
        tdmi_free(there);
    }
    tdmi_free(header);
    return st;
}

static tdm_status open_writer(const char *path, const tdmi_layout *layout, bool create, tdmi_safetensors_writer **out)
{
    tdmi_safetensors_writer *w = tdmi_calloc(1, sizeof *w, "safetensors writer");
    if (w == NULL)
        return TDM_ERR_NO_MEMORY;
    w->layout = layout;
    w->path = tdmi_strdup(path, "safetensors path");
    w->fd = -1;
    tdm_status st = w->path != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    if (st == TDM_OK) {
        w->fd = create ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : open(path, O_RDWR | O_CLOEXEC);
        if (w->fd < 0)
            st = tdmi_fail_errno(errno == EEXIST ? TDM_ERR_EXISTS : TDM_ERR_SYSTEM, errno, "cannot %s %s",
                                 create ? "create" : "open", path);
        else if ((st = settle(w, create)) != TDM_OK && create)
            unlink(path);
    }
    if (st != TDM_OK) {
        tdmi_safetensors_end(w);
        return st;
    }
    *out = w;
    return TDM_OK;
}

tdm_status tdmi_safetensors_create(const char *path, const tdmi_layout *layout, tdmi_safetensors_writer **out)
{
    return open_writer(path, layout, true, out);
}

tdm_status tdmi_safetensors_join(const char *path, const tdmi_layout *layout, tdmi_safetensors_writer **out)
{
    return open_writer(path, layout, false, out);
}

static tdm_status find_range(const tdmi_safetensors_writer *w, size_t index, uint64_t first, size_t count, const tdmi_file_tensor **out)
{
    if (index >= w->layout->count)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tensor number %zu does not exist; there are %zu", w->path, index, w->layout->count);
    const tdmi_file_tensor *t = &w->layout->tensors[index];
    if (first > t->count || count > t->count - first)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tensor \"%s\" has %llu elements; %llu to %llu were to be written", w->path, t->name,
                         (unsigned long long)t->count, (unsigned long long)first, (unsigned long long)first + count);
    *out = t;
    return TDM_OK;
}

tdm_status tdmi_safetensors_write(tdmi_safetensors_writer *w, size_t index, uint64_t first, size_t count, const float *data)
{
    const tdmi_file_tensor *t = NULL;
    tdm_status st = find_range(w, index, first, count, &t);
    if (st != TDM_OK)
        return st;
    return tdmi_disk_write(w->path, w->fd, data, count * sizeof *data, w->data_at + t->offset + first * sizeof *data);
}

tdm_status tdmi_safetensors_write_transposed(tdmi_safetensors_writer *w, size_t index, uint64_t first, size_t count,
                                             const float *data)
{
    const tdmi_file_tensor *t = NULL;
    tdm_status st = find_range(w, index, first, count, &t);
    if (st != TDM_OK)
        return st;
    if (t->ndim != 2)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tensor \"%s\" has %d dimensions; only a matrix can be transposed", w->path,
                         t->name, t->ndim);
    float *scratch = tdmi_malloc(SCRATCH * sizeof *scratch, "transposing");
    if (scratch == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_transpose walk = tdmi_transpose_begin(t->shape[1], t->shape[0], first, count);
    tdmi_transpose_run run;
    while (st == TDM_OK && tdmi_transpose_next(&walk, SCRATCH, &run)) {
        tdmi_transpose_gather(&walk, &run, data, scratch);
        st = tdmi_safetensors_write(w, index, run.position, run.count, scratch);
    }
    tdmi_free(scratch);
    return st;
}

tdm_status tdmi_safetensors_sync(tdmi_safetensors_writer *w)
{
    return tdmi_disk_sync(w->path, w->fd);
}

void tdmi_safetensors_end(tdmi_safetensors_writer *w)
{
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    tdmi_free(w->path);
    tdmi_free(w);
}
