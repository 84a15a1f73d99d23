/* safetensors_read.c - the header, checked before it is believed, and ranges of tensors as float32.
 *
 * The rules that make a range safe to read: type and shape give the bytes a tensor needs without overflow; its data_offsets
 * hold exactly these; all ranges together cover the data once, without hole or overlap, to its last byte. */
#include "checkpoint/safetensors.h"

#include "checkpoint/disk.h"
#include "checkpoint/transpose.h"
#include "core/dtype.h"
#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are read and written as they lie in memory");

enum { CHUNK = 4096 };           /* halves converted at once; lives on the stack */
enum { SCRATCH = 1 << 20 };      /* elements of a transposed run */

struct tdmi_safetensors {
    char *path;
    int fd;
    size_t count;
    tdmi_file_tensor *tensors; /* sorted by offset; names are owned */
};

static const struct {
    const char *name;
    uint32_t nbytes;
} types[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
    {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4},     {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8},
    {"C64", 8},
};

/* A name as a message may show it: cut, and without control characters. */
typedef struct {
    char text[128];
} shown;

static shown show(const char *name, size_t length)
{
    shown s;
    size_t n = length < sizeof s.text - 4 ? length : sizeof s.text - 4;
    for (size_t i = 0; i < n; i++)
        s.text[i] = (unsigned char)name[i] < 32 || name[i] == 127 ? '?' : name[i];
    memcpy(s.text + n, n < length ? "..." : "", n < length ? 4 : 1);
    return s;
}

static tdm_status refuse(const char *path, const char *name, const char *reason)
{
    return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": %s", path, show(name, strlen(name)).text, reason);
}

/* The last key of the outermost object before `position`: the tensor at which the parser gave up. */
static shown tensor_before(const char *json, size_t nbytes, size_t position)
{
    size_t key = 0, key_end = 0;
    int depth = 0;
    for (size_t i = 0; i < nbytes && i < position; i++) {
        if (json[i] == '"') {
            size_t begin = ++i;
            while (i < nbytes && json[i] != '"')
                i += json[i] == '\\' ? 2 : 1;
            if (depth == 1) {
                key = begin;
                key_end = i < nbytes ? i : nbytes;
            }
        } else if (json[i] == '{' || json[i] == '[') {
            depth++;
        } else if (json[i] == '}' || json[i] == ']') {
            depth--;
        }
    }
    return show(json + key, key_end - key);
}

/* A JSON value as a number that can be a size or an offset. */
static bool as_size(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static tdm_status take_shape(const char *path, const char *name, const json_t *shape, uint32_t element, tdmi_file_tensor *t)
{
    if (!json_is_array(shape))
        return refuse(path, name, "it has no shape, or one that is no list");
    if (json_array_size(shape) > TDMI_TENSOR_DIMS_MAX)
        return refuse(path, name, "it has more than 8 dimensions, which are not supported");
    t->ndim = (int)json_array_size(shape);
    t->count = 1;
    bool empty = false;
    for (int d = 0; d < t->ndim; d++) {
        uint64_t size;
        if (!as_size(json_array_get(shape, (size_t)d), &size))
            return refuse(path, name, "its shape has a size that is not a whole number from 0 to 2^63 - 1");
        t->shape[d] = size;
        empty = empty || size == 0;
        if (size != 0 && t->count > (uint64_t)INT64_MAX / element / size)
            return refuse(path, name, "its shape is larger than any file (the product overflows 63 bits)");
        t->count *= size != 0 ? size : 1;
    }
    if (empty)
        t->count = 0;
    t->nbytes = t->count * element;
    return TDM_OK;
}

static tdm_status take_tensor(const char *path, const char *name, const json_t *entry, uint64_t data_bytes, tdmi_file_tensor *t)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    if (type == NULL)
        return refuse(path, name, "it has no dtype, or one that is no text");
    size_t k = 0;
    while (k < sizeof types / sizeof *types && strcmp(types[k].name, type) != 0)
        k++;
    if (k == sizeof types / sizeof *types)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": unknown dtype \"%s\"", path, show(name, strlen(name)).text,
                         show(type, strlen(type)).text);
    t->type = types[k].name;
    tdm_status st = take_shape(path, name, json_object_get(entry, "shape"), types[k].nbytes, t);
    if (st != TDM_OK)
        return st;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !as_size(json_array_get(offsets, 0), &begin) ||
        !as_size(json_array_get(offsets, 1), &end))
        return refuse(path, name, "its data_offsets are not two whole numbers from 0 to 2^63 - 1");
    const shown n = show(name, strlen(name));
    if (begin > end)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": its data begin at %llu, behind their end at %llu", path, n.text,
                         (unsigned long long)begin, (unsigned long long)end);
    if (end > data_bytes)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": its data end at %llu, but the file has %llu bytes of data; it was "
                         "cut off, or is damaged", path, n.text, (unsigned long long)end, (unsigned long long)data_bytes);
    if (end - begin != t->nbytes)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": its %s shape needs %llu bytes, its data_offsets hold %llu", path,
                         n.text, t->type, (unsigned long long)t->nbytes, (unsigned long long)(end - begin));
    t->offset = begin;
    t->name = tdmi_strdup(name, "tensor name");
    return t->name != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

static tdm_status check_metadata(const char *path, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return refuse(path, "__metadata__", "it is not an object of texts");
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return refuse(path, "__metadata__", "one of its values is not a text");
    return TDM_OK;
}

static int by_offset(const void *a, const void *b)
{
    const tdmi_file_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes);
}

/* No hole, no overlap, nothing left over. */
static tdm_status check_cover(const tdmi_safetensors *f, uint64_t data_bytes)
{
    uint64_t covered = 0;
    for (size_t i = 0; i < f->count; i++) {
        const tdmi_file_tensor *t = &f->tensors[i];
        const shown n = show(t->name, strlen(t->name));
        if (t->offset < covered)
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": its data begin at %llu, inside those of \"%s\"", f->path, n.text,
                             (unsigned long long)t->offset, show(t[-1].name, strlen(t[-1].name)).text);
        if (t->offset > covered)
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor \"%s\": its data begin at %llu, which leaves a hole of %llu bytes", f->path,
                             n.text, (unsigned long long)t->offset, (unsigned long long)(t->offset - covered));
        covered += t->nbytes;
    }
    if (covered != data_bytes)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: %llu bytes behind its last tensor belong to none", f->path,
                         (unsigned long long)(data_bytes - covered));
    return TDM_OK;
}

static tdm_status take_header(tdmi_safetensors *f, const char *json, size_t nbytes, uint64_t data_bytes)
{
    json_error_t error;
    json_t *root = json[0] == '{' ? json_loadb(json, nbytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (root == NULL && json[0] != '{')
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: its header is not a JSON object, so it is no safetensors file", f->path);
    if (root == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: its header is damaged at byte %d, at tensor \"%s\": %s", f->path,
                         error.position, tensor_before(json, nbytes, (size_t)error.position).text,
                         show(error.text, strlen(error.text)).text);
    tdm_status st = TDM_OK;
    f->tensors = tdmi_calloc(json_object_size(root), sizeof *f->tensors, "tensors");
    if (f->tensors == NULL)
        st = TDM_ERR_NO_MEMORY;
    const char *name;
    json_t *entry;
    json_object_foreach(root, name, entry) {
        if (st != TDM_OK)
            break;
        if (strcmp(name, "__metadata__") == 0)
            st = check_metadata(f->path, entry);
        else if ((st = take_tensor(f->path, name, entry, data_bytes, &f->tensors[f->count])) == TDM_OK)
            f->count++;
    }
    json_decref(root);
    if (st != TDM_OK)
        return st;
    qsort(f->tensors, f->count, sizeof *f->tensors, by_offset);
    return check_cover(f, data_bytes);
}

static tdm_status look_into(tdmi_safetensors *f)
{
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot open %s", f->path);
    struct stat info;
    if (fstat(f->fd, &info) != 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", f->path);
    if (!S_ISREG(info.st_mode))
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s is not a regular file", f->path);
    const uint64_t file_bytes = (uint64_t)info.st_size;
    uint8_t head[8];
    if (file_bytes < sizeof head)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has %llu bytes; a safetensors file has at least 10", f->path,
                         (unsigned long long)file_bytes);
    tdm_status st = tdmi_file_read(f->path, f->fd, head, sizeof head, 0);
    if (st != TDM_OK)
        return st;
    uint64_t length = 0;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)head[i] << (8 * i);
    if (length < 2)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: a header of %llu bytes cannot be a JSON object", f->path,
                         (unsigned long long)length);
    if (length > TDMI_SAFETENSORS_HEADER_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: its header would have %llu bytes, more than the %d that are allowed; it is no "
                         "safetensors file, or damaged", f->path, (unsigned long long)length, TDMI_SAFETENSORS_HEADER_MAX);
    if (length > file_bytes - 8)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: its header would have %llu bytes, but only %llu follow; it was cut off", f->path,
                         (unsigned long long)length, (unsigned long long)file_bytes - 8);
    char *json = tdmi_malloc((size_t)length, "safetensors header");
    if (json == NULL)
        return TDM_ERR_NO_MEMORY;
    st = tdmi_file_read(f->path, f->fd, json, (size_t)length, 8);
    if (st == TDM_OK)
        st = take_header(f, json, (size_t)length, file_bytes - 8 - length);
    tdmi_free(json);
    for (size_t i = 0; i < f->count; i++)
        f->tensors[i].offset += 8 + length;
    return st;
}

tdm_status tdmi_safetensors_open(const char *path, tdmi_safetensors **out)
{
    tdmi_safetensors *f = tdmi_calloc(1, sizeof *f, "safetensors");
    if (f == NULL)
        return TDM_ERR_NO_MEMORY;
    f->fd = -1;
    f->path = tdmi_strdup(path, "safetensors path");
    tdm_status st = f->path != NULL ? look_into(f) : TDM_ERR_NO_MEMORY;
    if (st != TDM_OK) {
        tdmi_safetensors_close(f);
        return st;
    }
    *out = f;
    return TDM_OK;
}

void tdmi_safetensors_close(tdmi_safetensors *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    for (size_t i = 0; i < f->count; i++)
        tdmi_free((char *)f->tensors[i].name);
    tdmi_free(f->tensors);
    tdmi_free(f->path);
    tdmi_free(f);
}

size_t tdmi_safetensors_count(const tdmi_safetensors *f)
{
    return f->count;
}

const tdmi_file_tensor *tdmi_safetensors_at(const tdmi_safetensors *f, size_t i)
{
    return &f->tensors[i];
}

const tdmi_file_tensor *tdmi_safetensors_find(const tdmi_safetensors *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

static tdm_status check_range(const char *path, const tdmi_file_tensor *t, uint64_t first, size_t count)
{
    if (first > t->count || count > t->count - first)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tensor \"%s\" has %llu elements; %llu to %llu were asked for", path, t->name,
                         (unsigned long long)t->count, (unsigned long long)first, (unsigned long long)first + count);
    return TDM_OK;
}

tdm_status tdmi_safetensors_read(const tdmi_safetensors *f, const tdmi_file_tensor *t, uint64_t first, size_t count, float *out)
{
    tdm_status st = check_range(f->path, t, first, count);
    if (st != TDM_OK)
        return st;
    if (strcmp(t->type, "F32") == 0)
        return tdmi_file_read(f->path, f->fd, out, count * sizeof *out, t->offset + first * sizeof *out);
    const bool bf16 = strcmp(t->type, "BF16") == 0;
    if (!bf16 && strcmp(t->type, "F16") != 0)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s: tensor \"%s\" is of type %s; only F32, F16 and BF16 can be read as float32",
                         f->path, t->name, t->type);
    uint16_t halves[CHUNK];
    for (size_t done = 0; done < count; done += CHUNK) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        st = tdmi_file_read(f->path, f->fd, halves, n * sizeof *halves, t->offset + (first + done) * sizeof *halves);
        if (st != TDM_OK)
            return st;
        for (size_t i = 0; i < n; i++)
            out[done + i] = bf16 ? tdmi_bf16_to_f32(halves[i]) : tdmi_f16_to_f32(halves[i]);
    }
    return TDM_OK;
}

tdm_status tdmi_safetensors_read_transposed(const tdmi_safetensors *f, const tdmi_file_tensor *t, uint64_t first, size_t count,
                                            float *out)
{
    if (t->ndim != 2)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tensor \"%s\" has %d dimensions; only a matrix can be transposed", f->path,
                         t->name, t->ndim);
    tdm_status st = check_range(f->path, t, first, count);
    if (st != TDM_OK)
        return st;
    float *scratch = tdmi_malloc(SCRATCH * sizeof *scratch, "transposing");
    if (scratch == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_transpose walk = tdmi_transpose_begin(t->shape[1], t->shape[0], first, count);
    tdmi_transpose_run run;
    while (st == TDM_OK && tdmi_transpose_next(&walk, SCRATCH, &run)) {
        st = tdmi_safetensors_read(f, t, run.position, run.count, scratch);
        if (st == TDM_OK)
            tdmi_transpose_scatter(&walk, &run, scratch, out);
    }
    tdmi_free(scratch);
    return st;
}
