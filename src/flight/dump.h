/* dump.h - a dump of PyTorch's flight recorder: what one rank called, in pickle or JSON form, versions 1.x to 2.10 of the format. */
#ifndef TDMI_FLIGHT_DUMP_H
#define TDMI_FLIGHT_DUMP_H

#include "core/error.h"

typedef enum { TDMI_FLIGHT_SCHEDULED, TDMI_FLIGHT_STARTED, TDMI_FLIGHT_COMPLETED } tdmi_flight_state;

typedef struct tdmi_flight_call {
    char group[64];        /* name of the process group: "0" is the default one */
    char description[64];  /* "default_pg", "undefined", "mesh_dp" ... */
    char backend[16], op[48]; /* "nccl", "all_reduce"; of a profiling name "nccl:all_reduce" */
    char dtype[24];        /* of the first tensor, "" none */
    char place[128];       /* "train.py:31 in step": the innermost frame outside of torch; "" none */
    int64_t record, sequence, p2p_sequence; /* in the ring; in the group: of collectives, of sends and receives */
    int64_t in_elements, out_elements;
    int64_t source, target; /* of a send or receive, in the group; -1 */
    int64_t created_ns, started_ns, completed_ns; /* time of day; 0: it was not seen */
    tdmi_flight_state state;
    bool retired;          /* its work object is gone: done, or timed out */
    bool is_p2p;
} tdmi_flight_call;

typedef struct tdmi_flight_group {
    char name[64];
    int *rank;             /* in the world */
    size_t ranks;          /* 0: the dump does not say */
} tdmi_flight_group;

typedef struct tdmi_flight_dump {
    char version[16], library[32]; /* of the format; of NCCL */
    tdmi_flight_call *call;        /* as they were recorded */
    size_t calls;
    tdmi_flight_group *group;
    size_t groups;
} tdmi_flight_dump;

/* What a file's first bytes tell. */
bool tdmi_flight_is_pickle(const uint8_t *head, size_t nbytes);
bool tdmi_flight_is_dump(const uint8_t *head, size_t nbytes);
/* A copy: nothing points into `bytes`. TDM_ERR_BAD_FILE: it is none, damaged, or wants to run something. Any bytes are safe; memory: at
 * most 400 MB beside them. */
tdm_status tdmi_flight_dump_read(const uint8_t *bytes, size_t nbytes, tdmi_flight_dump *out);
void tdmi_flight_dump_free(tdmi_flight_dump *dump);

#endif
