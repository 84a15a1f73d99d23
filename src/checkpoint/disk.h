/* disk.h - files as a checkpoint needs them: exact writes (reads: core/file.h), space that is really there, sync, and texts that name
 * the file and the numbers. */
#ifndef TDMI_CHECKPOINT_DISK_H
#define TDMI_CHECKPOINT_DISK_H

#include "core/error.h"

#define TDMI_PATH_MAX 4096

/* out = the formatted path.  Errors  TDM_ERR_INVALID it is too long */
tdm_status tdmi_disk_path(char out[TDMI_PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Exactly nbytes at that offset; `path` is for the text.  Errors  TDM_ERR_NO_SPACE | TDM_ERR_SYSTEM */
tdm_status tdmi_disk_write(const char *path, int fd, const void *data, size_t nbytes, uint64_t offset);
/* Makes the file nbytes long and takes the space for it now.
 * Errors  TDM_ERR_NO_SPACE the text has what is needed and what is free | TDM_ERR_SYSTEM */
tdm_status tdmi_disk_reserve(const char *path, int fd, uint64_t nbytes);
tdm_status tdmi_disk_sync(const char *path, int fd);
tdm_status tdmi_disk_sync_directory(const char *path);

/* A whole small file. write: must not exist yet; synced. read: returns new, NUL-terminated; more than `max` bytes are refused. */
tdm_status tdmi_disk_write_file(const char *path, const void *data, size_t nbytes);
tdm_status tdmi_disk_read_file(const char *path, size_t max, char **out, size_t *nbytes);
/* Size and XXH64 of a file. */
tdm_status tdmi_disk_hash(const char *path, uint64_t *nbytes, uint64_t *hash);

#endif
