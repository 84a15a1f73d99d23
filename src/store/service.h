/* service.h - what the TCP store's server does with requests, without sockets: bytes in, bytes out. */
#ifndef TDMI_STORE_SERVICE_H
#define TDMI_STORE_SERVICE_H

#include "store/buffer.h"
#include "store/table.h"

/* One authenticated connection. All zero at first, address must not change. */
typedef struct tdmi_member {
    struct tdmi_member *next_ready; /* in service->ready */
    bool is_ready;                  /* has output that the server has not been told of */
    tdmi_buffer in, out;
    char *will_key, *will_value; /* NULL: none */
    size_t will_nbytes;
} tdmi_member;

typedef struct tdmi_parked tdmi_parked; /* a GET whose key does not exist yet */

typedef struct tdmi_service {
    tdmi_table table;
    tdmi_parked *parked;
    tdmi_member *ready; /* members whose `out` has grown; whoever drives the service takes them off */
} tdmi_service;         /* all zero: empty */

/* Takes bytes that a member sent and answers every whole request among them. An error means: drop this member. */
tdm_status tdmi_service_feed(tdmi_service *service, tdmi_member *member, const void *bytes, size_t nbytes);
/* The next member with new output, or NULL. */
tdmi_member *tdmi_service_next_ready(tdmi_service *service);
/* The member's connection has ended: its waits are forgotten, its will is made, its memory freed (not the struct). */
void tdmi_service_leave(tdmi_service *service, tdmi_member *member);
void tdmi_service_free(tdmi_service *service); /* after all members have left */

#endif
