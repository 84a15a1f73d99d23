/* recorder_file.h - the folder and the file of a recorder: found, made safely, removed, and what others left swept away. */
#ifndef TDMI_TRACE_RECORDER_FILE_H
#define TDMI_TRACE_RECORDER_FILE_H

#include "core/error.h"

#define TDMI_REC_PATH_MAX 512

typedef struct tdmi_recorder_file {
    char base[TDMI_REC_PATH_MAX - 192]; /* TANDEM_RECORDER_DIR */
    char folder[TDMI_REC_PATH_MAX - 96]; /* of the job */
    char path[TDMI_REC_PATH_MAX];
    bool base_is_ours; /* the default one: it goes with its last job */
} tdmi_recorder_file;

/* A new file of `nbytes` that is backed by its disk (no SIGBUS later), open for reading and writing. */
tdm_status tdmi_recorder_file_make(const char *job, int rank, size_t nbytes, tdmi_recorder_file *out, int *fd_out);
/* Removes the file and what is empty then. */
void tdmi_recorder_file_remove(const tdmi_recorder_file *file);

/* When a process began, in the kernel's ticks since boot; 0: there is no such process. */
uint64_t tdmi_process_birth(int pid);
void tdmi_boot_id(char *text, size_t nbytes);

#endif
