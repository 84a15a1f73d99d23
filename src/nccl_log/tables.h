/* tables.h - the tables behind a log: entries found by what makes them one, added where they are new, with limits. */
#ifndef TDMI_NCCL_LOG_TABLES_H
#define TDMI_NCCL_LOG_TABLES_H

#include "nccl_log/line.h"
#include "nccl_log/nccl_log.h"

enum {
    TDMI_NCCL_HOSTS_MAX = 1 << 14,
    TDMI_NCCL_PROCESSES_MAX = 1 << 16,
    TDMI_NCCL_COMMS_MAX = 1 << 16,
    TDMI_NCCL_MEMBERS_MAX = 1 << 18,
    TDMI_NCCL_PAIRS_MAX = 1 << 18,
    TDMI_NCCL_CHOICES_MAX = 1 << 12,
    TDMI_NCCL_VARIABLES_MAX = 1 << 14,
    TDMI_NCCL_MESSAGES_MAX = 512,
    TDMI_NCCL_CHAIN_MAX = 1024,     /* steps along a chain for one line, so that no log takes time that grows with its square */
};

tdm_status tdmi_nccl_tables_create(tdmi_nccl_log *log);
void tdmi_nccl_tables_free(tdmi_nccl_log *log);
/* The first error on the way; what comes behind it gives TDMI_NCCL_NONE and NULL. */
tdm_status tdmi_nccl_tables_status(const tdmi_nccl_log *log);

/* The same text as one pointer; cut at 1,000 bytes; "" where the limit is reached. */
const char *tdmi_nccl_name(tdmi_nccl_log *log, tdmi_span text);

/* Each gives the entry of that key, a new one where there is none, and NULL or TDMI_NCCL_NONE beyond the limit. */
bool tdmi_nccl_host_is_known(const void *log, tdmi_span name); /* adds none */
uint32_t tdmi_nccl_process_at(tdmi_nccl_log *log, const tdmi_nccl_record *record);
uint32_t tdmi_nccl_comm_of(tdmi_nccl_log *log, uint64_t id, int64_t ranks, bool numbered);
tdmi_nccl_member *tdmi_nccl_member_of(tdmi_nccl_log *log, uint32_t comm, uint32_t process, int64_t rank);
tdmi_nccl_pair *tdmi_nccl_pair_of(tdmi_nccl_log *log, const tdmi_nccl_pair *key);
tdmi_nccl_choice *tdmi_nccl_choice_of(tdmi_nccl_log *log, const tdmi_nccl_choice *key);
tdmi_nccl_variable *tdmi_nccl_variable_add(tdmi_nccl_log *log, const tdmi_nccl_variable *key);
tdmi_nccl_message *tdmi_nccl_message_add(tdmi_nccl_log *log, const tdmi_nccl_message *key);

/* ---- readers of records; each gives whether the record was its own ---- */
typedef struct tdmi_nccl_place {
    tdmi_nccl_log *log;
    const tdmi_nccl_record *record;
    uint32_t process, host, file;
} tdmi_nccl_place;

bool tdmi_nccl_read_start(const tdmi_nccl_place *place);     /* read_start.c: versions, networks, interfaces, plugins */
bool tdmi_nccl_read_comm(const tdmi_nccl_place *place);      /* read_comm.c: ranks, rings, trees, channels */
bool tdmi_nccl_read_transport(const tdmi_nccl_place *place); /* read_transport.c: the way of each pair */
bool tdmi_nccl_read_topology(const tdmi_nccl_place *place);  /* read_topology.c: distances, GPUDirect */
bool tdmi_nccl_read_choice(const tdmi_nccl_place *place);    /* read_choice.c: algorithms, protocols */
bool tdmi_nccl_read_variable(const tdmi_nccl_place *place);  /* read_variable.c: "NCCL_X set by environment to Y" */
bool tdmi_nccl_read_warning(const tdmi_nccl_place *place);   /* read_warning.c */
/* Lines of others: version lines, shells that set variables, PyTorch's watchdog. */
void tdmi_nccl_read_plain(tdmi_nccl_log *log, tdmi_span line, uint32_t file);
/* Adds "NCCL version 2.18.3+cuda12.1" to a process, or to the log where there is none. */
bool tdmi_nccl_read_version(tdmi_nccl_log *log, uint32_t process, tdmi_span text);

#endif
