/* message.h - the datagrams that libkineto, PyTorch's profiler, exchanges with its local daemon. Pure: no sockets.
 *
 *   offset 0   uint64    bytes of payload, little endian
 *          8   char[32]  type, filled with zeros: "req" or "ctxt"
 *         40   payload of a poll, "req": int32 mask, int32 n, int64 job, int32 pids[n], the process itself first, then those above it
 *              payload of its answer, "req": the text of a configuration, or nothing
 *              payload of "ctxt": int32 gpu, int32 pid, int64 job; of its answer: int32 count of processes
 * Source  pytorch/kineto libkineto/src/IpcFabricConfigClient.cpp and facebookincubator/dynolog dynolog/src/ipcfabric: the layout alone. */
#ifndef TDMI_LIVE_MESSAGE_H
#define TDMI_LIVE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TDMI_MESSAGE_HEAD 40
#define TDMI_MESSAGE_MAX 4096 /* of what a process sends; longer ones are not its */
#define TDMI_POLL_PIDS 64

typedef struct tdmi_poll {
    bool idle; /* would begin a trace now: none is under way, and the script's own profiler is off */
    int count;
    pid_t pids[TDMI_POLL_PIDS]; /* [count]: the process, its parent, the parent of that, ... */
} tdmi_poll;

typedef enum { TDMI_MESSAGE_OTHER, TDMI_MESSAGE_POLL, TDMI_MESSAGE_CONTEXT } tdmi_message_kind;

/* What these bytes are; poll is written for a poll alone. Anything that is not exactly one is OTHER. */
tdmi_message_kind tdmi_message_read(const uint8_t *bytes, size_t nbytes, tdmi_poll *poll);
/* Writes the answer: configuration "" is "nothing to do". Gives its bytes, 0 if `capacity` is too small. */
size_t tdmi_message_answer_poll(const char *configuration, uint8_t *out, size_t capacity);
size_t tdmi_message_answer_context(int32_t processes, uint8_t *out, size_t capacity);

#endif
