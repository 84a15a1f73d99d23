/* nccl.h - findings in NCCL's logs, one file each, and what they share. */
#ifndef TDMI_DOCTOR_NCCL_H
#define TDMI_DOCTOR_NCCL_H

#include "doctor/report.h"
#include "nccl_log/nccl_log.h"

#define TDMI_NCCL_DOCS "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"

/* Reads the logs, says what the job looked like, adds the findings; *summary_out: an object for programs, new. */
tdm_status tdmi_nccl_examine(const char *const *paths, int count, tdm_doctor_report *report, json_t **summary_out);
/* The same of a log that was read; *summary_out NULL: no memory. */
void tdmi_nccl_report(const tdmi_nccl_log *log, tdm_doctor_report *report, json_t **summary_out);

/* ---- one file each; a healthy log gives none ---- */
void tdmi_find_nccl_socket_fallback(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_wrong_interface(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_no_gpu_direct(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_p2p_off(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_shm_off(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_shm_too_small(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_sharp(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_mixed_versions(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_host_differs(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_lost_peer(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_unused_variable(const tdmi_nccl_log *log, tdm_doctor_report *report);
void tdmi_find_nccl_warnings(const tdmi_nccl_log *log, tdm_doctor_report *report);

/* ---- nccl_ways.c: the ways of pairs, counted host by host ---- */
typedef struct tdmi_nccl_ways {
    int64_t p2p, shm, net_inside, sockets_inside; /* pairs of ranks on this host */
    int64_t sockets, adapters, gdr;               /* pairs over the network: IP sockets; InfiniBand, RoCE, plugins; of those with GPUDirect */
} tdmi_nccl_ways;
/* [log->hosts], new; NULL: no memory. */
tdmi_nccl_ways *tdmi_nccl_ways_of(const tdmi_nccl_log *log);

/* Hosts with one cause are one finding: which were spoken of already, and which share the cause at hand. */
typedef struct tdmi_nccl_marks {
    tdmi_nccl_ways *ways; /* [log->hosts], as are: */
    bool *done, *same;    /* all false at first */
} tdmi_nccl_marks;
/* False: no memory, which the report knows. */
bool tdmi_nccl_marks_make(const tdmi_nccl_log *log, tdm_doctor_report *report, tdmi_nccl_marks *out);
void tdmi_nccl_marks_free(tdmi_nccl_marks *marks);

/* "node1, node2 and 3 more" of the hosts with which[h]; and the same as an array. */
void tdmi_nccl_hosts_text(const tdmi_nccl_log *log, const bool *which, char *text, size_t nbytes);
json_t *tdmi_nccl_hosts_json(const tdmi_nccl_log *log, const bool *which);
/* "rank 3", or that the log does not say which. */
const char *tdmi_nccl_rank_text(int64_t rank, char text[32]);
/* Adds a finding; takes evidence, which gets not_when and source. set: what to change; not_when: when not to; source: the section of NCCL's
 * documentation, or the file of its sources. */
void tdmi_nccl_add(tdm_doctor_report *report, const char *id, tdmi_severity severity, int64_t rank, json_t *evidence, const char *text,
                   const char *set, const char *not_when, const char *source);

#endif
