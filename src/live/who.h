/* who.h - what /proc says of a process: which rank it is, of which job, and whether its profiler listens. */
#ifndef TDMI_LIVE_WHO_H
#define TDMI_LIVE_WHO_H

#include "core/error.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct tdmi_who {
    pid_t pid;
    char state;                      /* of tdmi_process */
    uid_t owner;
    int rank, size, local_size;      /* RANK, WORLD_SIZE, LOCAL_WORLD_SIZE of the environment it was started with; -1: not there */
    bool listens;                    /* KINETO_USE_DAEMON is there */
    char job[128];                   /* TANDEM_JOB_ID, else TORCHELASTIC_RUN_ID */
    char master[160];                /* MASTER_ADDR:MASTER_PORT */
    char socket_folder[128];         /* KINETO_IPC_SOCKET_DIR; "": abstract names */
} tdmi_who;

/* Errors  TDM_ERR_INVALID there is no such process, or it is another user's (names the user) | TDM_ERR_NO_MEMORY */
tdm_status tdmi_who_read(pid_t pid, tdmi_who *out);
/* Alive: neither gone nor a zombie. */
bool tdmi_who_lives(pid_t pid);
char tdmi_who_state(pid_t pid); /* 'X': gone */
/* Whether both processes see the same files, numbers of processes and network ("mnt", "pid", "net"). */
bool tdmi_who_shares(pid_t pid, const char *name_space);

#endif
