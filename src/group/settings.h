/* settings.h - what a group is made from, after options, environment and defaults have been put together. */
#ifndef TDMI_GROUP_SETTINGS_H
#define TDMI_GROUP_SETTINGS_H

#include "core/error.h"
#include "engine/engine.h"

#include <tandem/group.h>

#define TDMI_GROUP_NAME_MAX 64 /* bytes, with the final NUL */

typedef struct tdmi_settings {
    tdm_store *store; /* borrowed; NULL: to be opened at host:port */
    char host[256];
    int port;
    char secret[128]; /* that the job has by itself, on one host; "": TANDEM_JOB_SECRET */
    int rank, size, local_rank, local_size; /* the last two -1 where nobody says */
    char name[TDMI_GROUP_NAME_MAX];
    bool force_links; /* transport tcp or ucx: no shared memory */
    bool force_local; /* transport shm: all ranks must share memory */
    bool ucx;         /* links are UCX's, instead of tcp's */
    const tdmi_engine_ops *engine; /* NULL: native */
    double timeout_s, rendezvous_timeout_s;
} tdmi_settings;

/* options NULL: everything from the environment. Every error says which option or variable is missing or wrong. */
tdm_status tdmi_settings_make(const tdm_group_options *options, tdmi_settings *out);

#endif
