/* messages.h - messages between two ranks: matching (messages.c) over one byte stream a pair (message_stream.c), or over notes of an
 * engine (message_notes.c).
 *
 * A message is announced by a MESSAGE frame, in the order of sends. A short one carries its bytes; the receiver keeps those
 * that nobody waits for yet, and credit bounds how many. A long one waits: the receiver, once it has a place for it, answers
 * PULL, and DATA frames follow; or, where it reaches the sender's buffer, copies it and answers TAKEN. So no stream is ever
 * blocked by bytes that nobody takes. Wire: docs/wire.md.
 *
 * Everything here is touched with the group's lock held. */
#ifndef TDMI_GROUP_MESSAGES_H
#define TDMI_GROUP_MESSAGES_H

#include "transport/frame.h"
#include "transport/link.h"
#include "transport/shm/node.h"

#include <tandem/message.h>

#define TDMI_MESSAGE_SHORT 4096 /* bytes that travel with the announcement */
#define TDMI_MESSAGE_CREDIT 64  /* short messages to one rank that it has not taken yet */

typedef enum {
    TDMI_MESSAGE_QUEUED,   /* send: its announcement or its data wait for the stream */
    TDMI_MESSAGE_WAITING,  /* send: announced; receive: posted */
    TDMI_MESSAGE_PULLING,  /* receive: DATA frames come */
    TDMI_MESSAGE_COPYING,  /* receive: copies out of the sender's buffer */
    TDMI_MESSAGE_DONE
} tdmi_message_state;

/* One send or receive under way; part of its work handle. */
typedef struct tdmi_message {
    struct tdmi_message *next; /* in the one list it is in */
    tdm_work *work;
    bool receives, announced;
    tdmi_message_state state;
    char *data;
    size_t nbytes;       /* of a receive: room */
    tdm_dtype dtype;
    int peer, tag;       /* of a receive: perhaps any */
    uint64_t id;         /* of the message in its sender's stream */
    size_t length;       /* bytes that come */
    size_t moved;
    const char *source;  /* COPYING */
    struct tdmi_engine_call *call; /* that an engine carries it with; NULL: none yet */
    tdm_message *what_came;
} tdmi_message;

typedef struct tdmi_message_list {
    tdmi_message *first, **last; /* last == NULL: empty and never used */
} tdmi_message_list;

void tdmi_message_append(tdmi_message_list *list, tdmi_message *message);
void tdmi_message_remove(tdmi_message_list *list, tdmi_message *message);

/* What a MESSAGE frame says. */
typedef struct tdmi_announcement {
    uint64_t id;
    int tag;
    tdm_dtype dtype;
    bool carries; /* its bytes follow */
    size_t nbytes;
    tdmi_place place; /* of the sender's buffer; TDMI_NOWHERE */
} tdmi_announcement;

/* ---- message_frames.c: what is said to and by one peer ---- */

typedef struct tdmi_message_stream {
    tdmi_link *link;          /* NULL: notes */
    int peer;
    bool closed;              /* by the other end; all it had sent was read */
    /* out */
    tdmi_message_list queued; /* sends that have something to write */
    tdmi_message_list announced; /* sends that wait for PULL or TAKEN */
    uint8_t *answers;         /* PULL, TAKEN, CREDIT frames not written yet */
    size_t answers_at, answers_nbytes, answers_capacity;
    uint8_t head[TDMI_FRAME_HEAD + TDMI_FRAME_MESSAGE_HEAD];
    size_t head_at, head_nbytes;
    const char *payload;
    size_t payload_left;
    tdmi_message *writing;    /* whose frame is being written */
    bool unflushed;           /* the link may still have some of it */
    uint64_t last_id;
    unsigned credit;          /* short messages that may still be sent */
    /* in */
    uint8_t in[4096 + 1024];
    size_t in_at, in_nbytes;
    tdmi_message_list pulling; /* receives that DATA frames belong to; sends and receives that an engine carries */
    bool in_payload;           /* else the head of a frame is read next */
    char *to;                  /* where the payload goes */
    size_t to_left;
    tdmi_message *reading;
    struct tdmi_unexpected *keeping;
    unsigned taken;           /* short messages taken since the last CREDIT */
} tdmi_message_stream;

struct tdm_group;
tdm_status tdmi_stream_answer(tdmi_message_stream *stream, tdmi_frame_type type, uint64_t id);
/* Answers with credit, once it is worth a frame. */
tdm_status tdmi_stream_give_credit(tdmi_message_stream *stream);
/* The next frame: head and payload. False: there is nothing to write. */
bool tdmi_stream_begin_frame(const struct tdm_group *group, tdmi_message_stream *stream);
/* The frame of `writing` has left. */
void tdmi_stream_end_frame(struct tdm_group *group, tdmi_message_stream *stream);
bool tdmi_stream_is_ours(const tdmi_frame *frame);
/* A frame came; head: TDMI_FRAME_MESSAGE_HEAD bytes of a MESSAGE. Where in_payload is set then, the rest belongs at `to`. */
tdm_status tdmi_stream_hear(struct tdm_group *group, tdmi_message_stream *stream, const tdmi_frame *frame, const uint8_t *head);
/* The payload of a frame is where it belongs. */
tdm_status tdmi_stream_end_payload(struct tdm_group *group, tdmi_message_stream *stream);
tdm_status tdmi_stream_broken(const tdmi_message_stream *stream, const char *what);

/* ---- message_stream.c: over a link ---- */
/* Writes and reads what it can. *moved as everywhere. An error ends the group. */
tdm_status tdmi_stream_advance(struct tdm_group *group, tdmi_message_stream *stream, bool *moved);
bool tdmi_stream_has_unwritten(const tdmi_message_stream *stream);
void tdmi_stream_free(tdmi_message_stream *stream);

/* ---- message_notes.c: over an engine ---- */
/* The same; what came is read by control.c. */
tdm_status tdmi_notes_advance(struct tdm_group *group, tdmi_message_stream *stream, bool *moved);
/* A note that is a frame of messages, with its payload. */
tdm_status tdmi_notes_hear(struct tdm_group *group, int rank, const tdmi_frame *frame, const uint8_t *payload);

/* ---- messages.c: matching ---- */

typedef struct tdmi_unexpected {
    struct tdmi_unexpected *next;
    int from;
    tdmi_announcement what;
    tdmi_message *own;  /* a send of this rank to itself */
    size_t have;        /* bytes of data that are here */
    char data[];        /* of a short message */
} tdmi_unexpected;

typedef struct tdmi_messages {
    tdmi_message_stream **stream; /* [size]; NULL until a message needs it */
    tdmi_link **link;             /* [size]; made with the group, taken by the streams; NULL for this rank */
    tdmi_message_list posted;     /* receives that nothing fits yet, in order */
    tdmi_unexpected *unexpected, **unexpected_last;
    tdmi_message_list copying;
    tdmi_message_list own;        /* sends to this rank itself */
    uint64_t own_id;
    size_t pending;               /* works not done */
    bool unwritten;               /* answers that peers wait for have not left */
    bool busy;                    /* either of the two; counted in the world */
} tdmi_messages;

/* A message of `from` is announced: *match is the receive that takes it, or NULL and *keep a place for its bytes. */
tdm_status tdmi_messages_meet(struct tdm_group *group, int from, const tdmi_announcement *what, tdmi_message **match,
                              tdmi_unexpected **keep);
/* All bytes of a short message that was kept are here. */
tdm_status tdmi_messages_kept(struct tdm_group *group, tdmi_unexpected *kept);
void tdmi_message_complete(struct tdm_group *group, tdmi_message *message);

/* ---- for the rest of group/ ---- */
/* Memory for a message: an error here is the caller's alone. Then its start: an error is the group's end. */
tdm_status tdmi_messages_prepare(struct tdm_group *group, const tdmi_message *message);
tdm_status tdmi_messages_begin(struct tdm_group *group, tdmi_message *message);
tdm_status tdmi_messages_advance(struct tdm_group *group, bool *moved);
/* Whether there is something to advance. */
static inline bool tdmi_messages_busy(const tdmi_messages *messages)
{
    return messages->busy;
}
/* The stream to and from `peer`. */
tdm_status tdmi_messages_open(struct tdm_group *group, int peer);
/* ---- message_fate.c ---- */
/* Whether a message under way needs this rank. */
bool tdmi_messages_need(struct tdm_group *group, int rank);
/* The first under way whose work is such a one, or NULL. */
const tdmi_message *tdmi_messages_find(const struct tdm_group *group, bool (*is_such)(const tdm_work *work));
/* "waits for a message from rank 1 with tag 3 [step 12]" */
void tdmi_message_text(const tdmi_message *message, char *text, size_t nbytes);
/* One whose time is up: its error text is written. */
tdm_status tdmi_messages_late(struct tdm_group *group);
/* A stream that its peer closed can bring nothing any more: the error of a message that needs it. */
tdm_status tdmi_messages_miss_closed(const struct tdm_group *group);
/* ---- messages.c again ---- */
/* Takes the message out of everything, because its group has failed. */
void tdmi_messages_drop(struct tdm_group *group, tdmi_message *message);
void tdmi_messages_free(struct tdm_group *group);

#endif
