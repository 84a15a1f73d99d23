/* program.h - which file to execute for a command line. */
#ifndef TDMI_LAUNCH_PROGRAM_H
#define TDMI_LAUNCH_PROGRAM_H

#include "core/error.h"

/* The file to execute and the arguments it gets. Strings of `argv` are borrowed from the command line. */
typedef struct tdmi_program {
    char path[4096];
    const char **argv; /* NULL at the end */
} tdmi_program;

/* Looks the program up in PATH as a shell would; "x.py" becomes "python3 -u x.py", so that its output is not held back.
 * A missing or unexecutable program is TDM_ERR_INVALID. */
tdm_status tdmi_program_find(const char *const *command, tdmi_program *out);
void tdmi_program_free(tdmi_program *program);

#endif
