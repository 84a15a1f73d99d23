/* daemon.h - the socket at which processes ask for something to do. One thread: it is served when its owner calls. */
#ifndef TDMI_LIVE_DAEMON_H
#define TDMI_LIVE_DAEMON_H

#include "live/clients.h"

#include <sys/un.h>

#define TDMI_SOCKET_FOLDER_MAX 54 /* bytes: PyTorch's side writes the socket's path behind the end of a longer one */

typedef struct tdmi_daemon {
    int fd; /* -1: closed */
    char folder[TDMI_SOCKET_FOLDER_MAX + 1]; /* "": the abstract name of this network namespace */
    tdmi_clients clients;
    /* Whether a process that asks belongs to the job; if so, its RANK goes to rank_out (-1: none). Called for each that is new. */
    bool (*belongs)(const tdmi_poll *poll, int *rank_out, void *arg);
    void *arg;
} tdmi_daemon;

/* folder: where jobs started with KINETO_IPC_SOCKET_DIR look; "": where all others do. The caller sets belongs and arg.
 * Errors  TDM_ERR_EXISTS somebody else answers there | TDM_ERR_INVALID the folder's name is too long | TDM_ERR_SYSTEM */
tdm_status tdmi_daemon_open(const char *folder, tdmi_daemon *out);
/* Answers all that have asked since. A process waits for its answer for 90 ms; one that asked longer ago is noted and not answered, for it
 * would take that answer for the one to its next poll, and so on for ever. */
void tdmi_daemon_serve(tdmi_daemon *daemon);
/* Also removes the socket files that processes which have ended left in the folder: they never do. */
void tdmi_daemon_close(tdmi_daemon *daemon);

#endif
