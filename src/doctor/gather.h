/* gather.h - the recordings of one job: found in files and folders, one a rank. */
#ifndef TDMI_DOCTOR_GATHER_H
#define TDMI_DOCTOR_GATHER_H

#include "trace/recording.h"

typedef struct tdmi_witness {
    char *path;
    bool is_ring; /* the rank did not get so far as to close it */
    tdmi_recording recording;
} tdmi_witness;

typedef struct tdmi_witnesses {
    tdmi_witness *of; /* by rank */
    size_t count, capacity;
    char note[512]; /* what was left out, for people; "" */
} tdmi_witnesses;

tdm_status tdmi_gather(const char *const *paths, int count, tdmi_witnesses *out);
void tdmi_witnesses_free(tdmi_witnesses *witnesses);

/* Whether these bytes begin a ring. */
bool tdmi_is_ring(const char *bytes, size_t nbytes);

/* read_dump.c - a dump's text. Any bytes are safe. */
tdm_status tdmi_dump_parse(const char *bytes, size_t nbytes, tdmi_recording *out);

#endif
