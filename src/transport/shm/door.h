/* door.h - the unix sockets between ranks of one node: each rank opens a door, lower ranks knock at it, both ends prove that
 * they belong to the same user and know the job's secret. Then they pass fixed-size messages, some with a descriptor.
 * A closed connection is how a rank's death is seen. */
#ifndef TDMI_TRANSPORT_SHM_DOOR_H
#define TDMI_TRANSPORT_SHM_DOOR_H

#include "core/error.h"
#include "store/auth.h"

#define TDMI_DOOR_NAME_MAX 48
#define TDMI_DOOR_MESSAGE 32 /* bytes */

/* Listens in the abstract namespace under a random name: nothing to clean up, however the process ends. */
tdm_status tdmi_door_open(int *fd_out, char name[TDMI_DOOR_NAME_MAX]);

/* A connection on which the handshake is under way. */
typedef struct tdmi_knock {
    int fd;  /* -1: none */
    int pid; /* the other end's process, 0 where it cannot be seen from here */
    tdmi_auth auth;
    uint8_t in[TDMI_AUTH_BYTES_MAX];
    size_t held; /* bytes of `in` */
} tdmi_knock;
/* Connects to a door and says the first word. */
tdm_status tdmi_door_knock(const char *name, const tdmi_auth_key *key, tdmi_knock *out);
/* Lets in one who has knocked; out->fd is -1 if nobody of this user has. */
tdm_status tdmi_door_answer(int door, const tdmi_auth_key *key, tdmi_knock *out);
/* Takes what the other end has said and answers; *proved: it knows the secret, and knows that this end does. Never blocks. */
tdm_status tdmi_knock_step(tdmi_knock *knock, bool *proved);

/* Sends a message, with `passed` unless it is -1. Never blocks: TDM_ERR_SYSTEM when the other end has not read for long,
 * TDM_ERR_PEER_LOST when it is gone. */
tdm_status tdmi_door_send(int fd, const uint8_t message[TDMI_DOOR_MESSAGE], int passed);
typedef enum { TDMI_DOOR_EMPTY, TDMI_DOOR_MESSAGE_CAME, TDMI_DOOR_CLOSED } tdmi_door_event;
/* Takes one message if there is one; *passed: a new descriptor or -1. Never blocks. */
tdmi_door_event tdmi_door_receive(int fd, uint8_t message[TDMI_DOOR_MESSAGE], int *passed);

#endif
