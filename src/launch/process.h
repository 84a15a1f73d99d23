/* process.h - starting ranks, and finding and signalling everything they started. */
#ifndef TDMI_LAUNCH_PROCESS_H
#define TDMI_LAUNCH_PROCESS_H

#include "core/error.h"

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

typedef struct tdmi_spawn {
    const char *path;
    const char *const *argv;
    char *const *environment;
    const cpu_set_t *cpus;       /* NULL: those of this process */
    int input, output, errors;   /* descriptors for 0, 1 and 2; -1: this process's own */
    const sigset_t *signals;     /* mask for the program */
    bool ignore_hangup;          /* nohup stays in force */
} tdmi_spawn;

/* Starts the program as leader of its own POSIX session; it gets SIGKILL when this thread ends. A program that does not start ends with
 * 127, after writing `rank` and errno (two ints) to `report`, which must be close-on-exec. Async-signal-safe in the child. */
tdm_status tdmi_process_spawn(const tdmi_spawn *spawn, int rank, int report, pid_t *out);

/* Before anything is opened: a descriptor 0, 1 or 2 that is closed would become one of our pipes. */
void tdmi_process_occupy_standard(void);

/* Of a status of wait(), as a shell has it: 128 + N where signal N ended it. */
int tdmi_process_exit_code(int status);

typedef struct tdmi_process {
    pid_t pid, parent, group, session;
    char state; /* 'T', 't': stopped; 'Z', 'X': dead */
} tdmi_process;

/* What /proc says of it; false: it is gone. */
bool tdmi_process_read(pid_t pid, tdmi_process *out);

/* All living descendants of `root` (zombies and `except` left out): a new list, freed with tdmi_free. */
tdm_status tdmi_process_descendants(pid_t root, pid_t except, tdmi_process **out, size_t *count);
/* Whether the process has a handler for the signal: one without would be ended by it. */
bool tdmi_process_catches(pid_t pid, int signal);
/* Whether its environment has all these NAME=VALUE. */
bool tdmi_process_has_environment(pid_t pid, const char *const *entries, size_t count);
/* "/proc/PID" entries one after the other: calls `visit` for each living process. */
void tdmi_process_each(void (*visit)(const tdmi_process *process, void *arg), void *arg);

#endif
