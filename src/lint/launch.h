/* launch.h - how a job is started: the words of a launch line, and what it and a file of settings put into the environment. */
#ifndef TDMI_LINT_LAUNCH_H
#define TDMI_LINT_LAUNCH_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    TDMI_NO_LAUNCHER,    /* no launch line was given */
    TDMI_TORCHRUN,       /* torchrun, python -m torch.distributed.run */
    TDMI_TORCH_LAUNCH,   /* python -m torch.distributed.launch */
    TDMI_PYTHON,         /* python train.py: one process */
    TDMI_MANY_PROCESSES, /* srun, mpirun, mpiexec */
    TDMI_OTHER_LAUNCHER, /* accelerate, deepspeed, a shell script */
} tdmi_launcher;

static inline bool tdmi_is_torch_launcher(tdmi_launcher launcher)
{
    return launcher == TDMI_TORCHRUN || launcher == TDMI_TORCH_LAUNCH;
}

/* NAME=VALUE */
typedef struct tdmi_setting {
    const char *name, *value;
    const char *file; /* NULL: of the launch line */
    int line;         /* in the file */
    int column;       /* of the launch line, from 1 */
} tdmi_setting;

typedef struct tdmi_word {
    const char *text;
    int column; /* from 1 */
} tdmi_word;

typedef struct tdmi_launch {
    tdmi_launcher launcher;
    tdmi_word *word; /* [words] */
    size_t words;
    size_t program;       /* the word that names the launcher; options of torchrun begin behind it (behind -m MODULE too) */
    size_t script;        /* the word that names the script; `words`: none */
    int processes;        /* a node; 0: not said, -1: as many as there are devices */
    tdmi_setting *setting; /* [settings] */
    size_t settings, settings_capacity;
    char *text; /* what the words lie in */
    char *file; /* and the settings of the file */
} tdmi_launch;

/* line: words as a shell splits them (quotes, backslash; nothing is expanded), assignments in front. env_file: NAME=VALUE lines, as
 * in `docker --env-file` and `source`; both may be NULL.
 * Errors  TDM_ERR_INVALID an open quote, or no word in the line | TDM_ERR_BAD_FILE the file is unreadable or a line is no assignment */
tdm_status tdmi_launch_read(const char *line, const char *env_file, tdmi_launch *out);
void tdmi_launch_free(tdmi_launch *launch);
/* The name of an option, up to its '=', with - for _. Returns its length: where in the word it ends, or where `name` does. */
size_t tdmi_launch_option(const char *word, char *name, size_t nbytes);
/* The last setting of that name; NULL: none. */
const tdmi_setting *tdmi_launch_setting(const tdmi_launch *launch, const char *name);

#endif
