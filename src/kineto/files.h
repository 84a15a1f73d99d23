/* files.h - which files a job's traces may be in. */
#ifndef TDMI_KINETO_FILES_H
#define TDMI_KINETO_FILES_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tdmi_file {
    char *path;
    bool named;   /* by the caller, not found in a folder */
    uint64_t text_bytes; /* about how much text it holds; 0: by its first bytes it is neither JSON nor gzip */
    dev_t device; /* the same file under two names is one */
    ino_t inode;
} tdmi_file;

typedef struct tdmi_files {
    tdmi_file *file; /* of a folder in order of their names, numbers in them by value: worker2 before worker10 */
    size_t count, capacity;
    char **note;     /* paths that are nothing */
    size_t note_count;
    char *inside;    /* the first folder in a folder, which is not entered; NULL */
    size_t missing;  /* paths of the caller that are nothing */
} tdmi_files;

/* Files as they are, and what lies in folders, but for folders, hidden files and what is still being written. Symbolic links are followed;
 * a file is listed once. */
tdm_status tdmi_files_list(const char *const *path, size_t count, tdmi_files *out);
void tdmi_files_drop(tdmi_files *files);

/* The rank that a file's name tells: rank3, rank-3, worker_3; -1: none. */
int tdmi_files_rank_of_name(const char *path);

#endif
