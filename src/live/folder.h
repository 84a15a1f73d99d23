/* folder.h - a private folder for sockets and traces, which goes away with its owner: at the latest when the next one is made. */
#ifndef TDMI_LIVE_FOLDER_H
#define TDMI_LIVE_FOLDER_H

#include "core/error.h"

#include <sys/types.h>

typedef struct tdmi_folder {
    char path[64];   /* "": none */
    char traces[80]; /* a folder in it */
    int lock;        /* held as long as the owner lives: who finds it free may remove the folder */
} tdmi_folder;

/* In TMPDIR, else in /tmp; nobody but its owner may enter. Removes those whose owners were killed. */
tdm_status tdmi_folder_make(tdmi_folder *out);
/* Gives its folder of traces to the user whose job is to write there. */
tdm_status tdmi_folder_give(const tdmi_folder *folder, uid_t user);
/* The name of a file in its folder of traces. */
void tdmi_folder_trace(const tdmi_folder *folder, const char *name, char *out, size_t nbytes);
void tdmi_folder_remove(tdmi_folder *folder); /* with all that is in it */

#endif
