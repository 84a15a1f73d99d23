/* safetensors.h - files of named tensors as Hugging Face defines them: 8 bytes of header length, a JSON header, the data.
 *
 * Reading trusts nothing: header length, types, shapes and ranges are checked against the file before anything is taken from
 * it, and a refusal names the tensor. Writing is for many ranks at once: all know the layout, one creates the file in its full
 * size, each writes any ranges of any tensors, in any order.
 *
 * A Linear layer is [out, in] in memory, but some formats (GPT-2's Conv1D) keep it as [in, out]: the _transposed calls
 * address the tensor by ranges of its elements in memory order, also ranges that begin or end inside a row. */
#ifndef TDMI_CHECKPOINT_SAFETENSORS_H
#define TDMI_CHECKPOINT_SAFETENSORS_H

#include "core/error.h"

#include <tandem/dtype.h>

#define TDMI_TENSOR_DIMS_MAX 8
#define TDMI_SAFETENSORS_HEADER_MAX 100000000 /* bytes; what the reference reader allows */

typedef struct {
    const char *name;
    const char *type; /* as the file calls it: "F32", "BF16", "BOOL" ... */
    int ndim;         /* 0: one number */
    uint64_t shape[TDMI_TENSOR_DIMS_MAX];
    uint64_t count;  /* elements */
    uint64_t nbytes; /* in the file */
    uint64_t offset; /* of its first byte, from the start of the file */
} tdmi_file_tensor;

/* ---- reading ---- */
typedef struct tdmi_safetensors tdmi_safetensors;

/* Errors  TDM_ERR_BAD_FILE with the file, the tensor and what is wrong with it | TDM_ERR_NO_MEMORY */
tdm_status tdmi_safetensors_open(const char *path, tdmi_safetensors **out);
void tdmi_safetensors_close(tdmi_safetensors *file); /* NULL is fine */
size_t tdmi_safetensors_count(const tdmi_safetensors *file);
const tdmi_file_tensor *tdmi_safetensors_at(const tdmi_safetensors *file, size_t i); /* in the order of their data */
const tdmi_file_tensor *tdmi_safetensors_find(const tdmi_safetensors *file, const char *name); /* NULL: there is none */

/* out [count] = elements [first, first + count) as float32; F32, and F16 or BF16 widened.  Any thread.
 * transposed: the tensor is [C, R] in the file and [R, C] in memory; first and count are in memory's order.
 * Errors  TDM_ERR_UNSUPPORTED another type | TDM_ERR_INVALID beyond the tensor, not two-dimensional | TDM_ERR_BAD_FILE */
tdm_status tdmi_safetensors_read(const tdmi_safetensors *file, const tdmi_file_tensor *tensor, uint64_t first, size_t count,
                                 float *out);
tdm_status tdmi_safetensors_read_transposed(const tdmi_safetensors *file, const tdmi_file_tensor *tensor, uint64_t first,
                                            size_t count, float *out);

/* ---- writing ---- */
typedef struct tdmi_layout tdmi_layout; /* which tensors a file holds, in which order */
typedef struct tdmi_safetensors_writer tdmi_safetensors_writer;

tdm_status tdmi_layout_create(tdmi_layout **out);
void tdmi_layout_destroy(tdmi_layout *layout); /* NULL is fine */
/* Adds a float32 tensor; its index is the number of tensors added before.
 * Errors  TDM_ERR_INVALID a name twice or not UTF-8, too many dimensions, larger than any file */
tdm_status tdmi_layout_add(tdmi_layout *layout, const char *name, int ndim, const uint64_t *shape);
size_t tdmi_layout_count(const tdmi_layout *layout);
const tdmi_file_tensor *tdmi_layout_at(const tdmi_layout *layout, size_t i); /* offset is not filled in */

/* create: makes the file (which must not exist) in its full size and writes the header; one rank does.
 * join: opens a file that another rank has created from the same layout. The layout is borrowed until close.
 * Errors  TDM_ERR_NO_SPACE with what is needed and free; the file is removed again | TDM_ERR_EXISTS | TDM_ERR_SYSTEM |
 *         join: TDM_ERR_MISMATCH the file has another header */
tdm_status tdmi_safetensors_create(const char *path, const tdmi_layout *layout, tdmi_safetensors_writer **out);
tdm_status tdmi_safetensors_join(const char *path, const tdmi_layout *layout, tdmi_safetensors_writer **out);
/* Elements [first, first + count) of tensor number `index`; transposed: as for reading.  One thread per writer. */
tdm_status tdmi_safetensors_write(tdmi_safetensors_writer *writer, size_t index, uint64_t first, size_t count,
                                  const float *data);
tdm_status tdmi_safetensors_write_transposed(tdmi_safetensors_writer *writer, size_t index, uint64_t first, size_t count,
                                             const float *data);
/* Brings what this rank wrote to the disk. */
tdm_status tdmi_safetensors_sync(tdmi_safetensors_writer *writer);
void tdmi_safetensors_end(tdmi_safetensors_writer *writer); /* closes; NULL is fine */

#endif
