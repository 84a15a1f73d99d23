/* record.h - what a rank tells the others of its group. Wire: docs/wire.md */
#ifndef TDMI_GROUP_RECORD_H
#define TDMI_GROUP_RECORD_H

#include "transport/shm/node.h"

#define TDMI_HOST_ID_MAX 192
#define TDMI_HOST_NAME_BYTES 72
#define TDMI_RECORD_BYTES_MAX 1024

typedef struct tdmi_record {
    int size;                     /* of the group, as this rank sees it */
    int world_rank;
    int pid;
    char host_id[TDMI_HOST_ID_MAX]; /* equal: the ranks can share memory; "": this rank does not share */
    char host_name[TDMI_HOST_NAME_BYTES];
    uint64_t arena_number;
    uint64_t board_offset;        /* of its board in its arena */
    uint64_t ring_offset;         /* of the rings it receives from; see links.h */
    char door[TDMI_DOOR_NAME_MAX];
} tdmi_record;

/* Boot, user, network namespace (unix sockets reach no further) and TANDEM_NODE_ID. */
tdm_status tdmi_host_id(char out[TDMI_HOST_ID_MAX]);

size_t tdmi_record_write(const tdmi_record *record, uint8_t out[TDMI_RECORD_BYTES_MAX]);
tdm_status tdmi_record_read(const uint8_t *bytes, size_t nbytes, int rank, tdmi_record *out);

#endif
