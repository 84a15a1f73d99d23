/* folder.h - the names in a run's directory: step-N is a checkpoint, .step-N.tmp-* one that is being made or removed. */
#ifndef TDMI_CHECKPOINT_FOLDER_H
#define TDMI_CHECKPOINT_FOLDER_H

#include "checkpoint/disk.h"

/* RUN/.step-N.tmp-PURPOSE */
tdm_status tdmi_folder_temporary(const char *run, uint64_t step, const char *purpose, char out[TDMI_PATH_MAX]);
/* The N of a name "step-N"; false if it is another name. */
bool tdmi_folder_step_of(const char *name, uint64_t *step);
/* The steps of RUN's folders, newest first; returns new (NULL if there are none).  Errors  TDM_ERR_BAD_FILE no such RUN */
tdm_status tdmi_folder_steps(const char *run, uint64_t **steps, size_t *count);
/* Removes a folder and the files in it; false (and errno) if something is left. */
bool tdmi_folder_remove(const char *path);
/* Removes all temporary folders. */
void tdmi_folder_clean(const char *run);
/* Removes step-N so that a death on the way leaves no half of it: renames first. Failures are warned about. */
void tdmi_folder_retire(const char *run, uint64_t step);

#endif
