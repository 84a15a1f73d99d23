/* file.h - exact reads. */
#ifndef TDMI_CORE_FILE_H
#define TDMI_CORE_FILE_H

#include "core/error.h"

/* Exactly nbytes at that offset; `path` is for the text. TDM_ERR_BAD_FILE: the file ends before, or cannot be read. */
tdm_status tdmi_file_read(const char *path, int fd, void *out, size_t nbytes, uint64_t offset);

#endif
