/* lineup.h - the calls of all ranks beside each other: a group's call number 17, as each rank recorded it. */
#ifndef TDMI_DOCTOR_LINEUP_H
#define TDMI_DOCTOR_LINEUP_H

#include "doctor/gather.h"

typedef struct tdmi_line {
    const tdmi_recorded_call *call;
    const tdmi_witness *witness;
} tdmi_line;

/* A rank of a group, as its own recording knows it. */
typedef struct tdmi_member {
    int rank; /* in the group */
    const tdmi_witness *witness;
    const tdmi_recorded_call *last; /* of this group */
} tdmi_member;

typedef struct tdmi_lined_group {
    const char *name;
    int size;
    tdmi_line *line; /* by number, then by rank */
    size_t count;
    tdmi_member *member; /* by rank; those with a recording of at least one call */
    size_t members;
} tdmi_lined_group;

typedef struct tdmi_lineup {
    const tdmi_witnesses *witnesses;
    tdmi_lined_group *group; /* by the time of their first call */
    size_t groups;
    tdmi_line *line;     /* behind the groups' */
    tdmi_member *member;
} tdmi_lineup;

tdm_status tdmi_line_up(const tdmi_witnesses *witnesses, tdmi_lineup *out);
void tdmi_lineup_free(tdmi_lineup *lineup);

/* How many lines from `at` on are of the same call. */
size_t tdmi_lines_of_call(const tdmi_lined_group *group, size_t at);
bool tdmi_is_open(const tdmi_recorded_call *call); /* not finished */
bool tdmi_is_same_call(const tdmi_recorded_call *a, const tdmi_recorded_call *b);
/* "allreduce of 1024 float32 (sum)" */
void tdmi_call_text(const tdmi_recorded_call *call, char *text, size_t nbytes);
/* "12:03:04.567", UTC; "?" for 0 */
void tdmi_time_text(int64_t ns, char text[32]);
/* Whether the process of a ring is gone, as far as this host can know: same host and boot. */
bool tdmi_is_dead(const tdmi_witness *witness);

#endif
