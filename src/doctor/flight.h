/* flight.h - dumps of PyTorch's flight recorder as recordings, lined up like Tandem's own. */
#ifndef TDMI_DOCTOR_FLIGHT_H
#define TDMI_DOCTOR_FLIGHT_H

#include "doctor/report.h"
#include "flight/dump.h"

typedef struct tdmi_flight_job {
    tdmi_witnesses witnesses; /* by rank */
    tdmi_flight_dump *dump;   /* [witnesses.count] of the same order; calls are freed */
    int world;                /* ranks, as far as the dumps know */
    int64_t sends_left_out;   /* sends and receives of dumps whose ring had gone round: their order is not known */
    json_t *unread;           /* array of texts: files that could not be read */
} tdmi_flight_job;

/* flight_gather.c - files to recordings. One file a rank; its rank is the number at the end of its name. What is damaged is left out
 * and said; TDM_ERR_BAD_FILE if nothing is left. */
tdm_status tdmi_flight_gather(const char *const *paths, int count, tdmi_flight_job *out);
void tdmi_flight_job_free(tdmi_flight_job *job);
/* For tests and fuzzing: a dump that was read, as the recording of a rank. Takes dump's calls. */
tdm_status tdmi_flight_convert(tdmi_flight_dump *dump, int rank, int world, bool with_sends, tdmi_recording *out);
/* Equal on all ranks of a group. */
uint64_t tdmi_flight_group_id(const char *name, const tdmi_flight_group *group);

/* Reads the dumps, adds findings; *summary_out: an object for programs, new. */
tdm_status tdmi_flight_examine(const char *const *paths, int count, tdm_doctor_report *report, json_t **summary_out);

/* ---- one file each ---- */
/* absent_rank.c - ranks of a group that never entered it, and ranks without a dump, where others wait. */
void tdmi_find_absent_ranks(const tdmi_flight_job *job, const tdmi_lineup *lineup, tdm_doctor_report *report);
/* unstarted_call.c - calls that all ranks made, and that run on some GPUs but not on all. */
void tdmi_find_unstarted_calls(const tdmi_lineup *lineup, tdm_doctor_report *report);

/* The group's ranks as a dump of a member knows them; false: it does not say. */
bool tdmi_flight_has_rank(const tdmi_flight_job *job, const tdmi_lined_group *group, int rank);

#endif
