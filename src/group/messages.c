/* messages.c - which send meets which receive.
 *
 * Receives that wait lie in `posted` in their order, messages that came before their receive in `unexpected` in theirs; either
 * is searched from the front. A message to the own rank lies in `unexpected` as it is. */
#include "group/group.h"

#include "core/memory.h"

#include <string.h>

#define PIECE_BYTES ((size_t)512 << 10) /* copied at one go: about 0.1 ms */

/* ---- lists ---- */

void tdmi_message_append(tdmi_message_list *list, tdmi_message *message)
{
    if (list->first == NULL)
        list->last = &list->first;
    message->next = NULL;
    *list->last = message;
    list->last = &message->next;
}

void tdmi_message_remove(tdmi_message_list *list, tdmi_message *message)
{
    for (tdmi_message **at = &list->first; *at != NULL; at = &(*at)->next)
        if (*at == message) {
            *at = message->next;
            if (list->last == &message->next)
                list->last = at;
            return;
        }
}

static void keep(tdmi_messages *messages, tdmi_unexpected *u)
{
    if (messages->unexpected == NULL)
        messages->unexpected_last = &messages->unexpected;
    u->next = NULL;
    *messages->unexpected_last = u;
    messages->unexpected_last = &u->next;
}

static void forget(tdmi_messages *messages, tdmi_unexpected **at)
{
    tdmi_unexpected *u = *at;
    *at = u->next;
    if (messages->unexpected_last == &u->next)
        messages->unexpected_last = at;
    tdmi_free(u);
}

/* ---- meeting ---- */

static bool fits(const tdmi_message *receive, int from, int tag)
{
    return (receive->peer == TDM_ANY_SOURCE || receive->peer == from) && (receive->tag == TDM_ANY_TAG || receive->tag == tag);
}

static tdm_status check_match(const tdm_group *group, const tdmi_message *receive, int from, const tdmi_announcement *what)
{
    const size_t size = tdm_dtype_size(what->dtype);
    if (receive->dtype != what->dtype)
        return tdmi_fail(TDM_ERR_MISMATCH, "group %s: rank %d sends %zu %s with tag %d, but rank %d receives %s", group->name, from,
                         what->nbytes / size, tdm_dtype_name(what->dtype), what->tag, group->rank, tdm_dtype_name(receive->dtype));
    if (what->nbytes > receive->nbytes)
        return tdmi_fail(TDM_ERR_MISMATCH, "group %s: rank %d sends %zu %s with tag %d, but rank %d has room for %zu", group->name, from,
                         what->nbytes / size, tdm_dtype_name(what->dtype), what->tag, group->rank, receive->nbytes / size);
    return TDM_OK;
}

/* The receive knows now what comes, and from whom. */
static tdm_status meet(tdm_group *group, tdmi_message *receive, int from, const tdmi_announcement *what)
{
    tdm_status status = check_match(group, receive, from, what);
    receive->peer = from;
    receive->tag = what->tag;
    receive->id = what->id;
    receive->length = what->nbytes;
    return status;
}

/* A long message: its bytes are copied where this rank reaches them, else asked for. */
static tdm_status fetch(tdm_group *group, tdmi_message *receive, const tdmi_announcement *what)
{
    tdmi_messages *messages = &group->messages;
    if (what->place.owner == TDMI_NOWHERE) {
        receive->state = TDMI_MESSAGE_PULLING;
        tdmi_message_append(&messages->stream[receive->peer]->pulling, receive);
        return tdmi_stream_answer(messages->stream[receive->peer], TDMI_FRAME_PULL, what->id);
    }
    void *address;
    tdm_status status = tdmi_node_resolve(group->world->node, what->place, &address);
    receive->source = address;
    receive->state = TDMI_MESSAGE_COPYING;
    tdmi_message_append(&messages->copying, receive);
    return status;
}

tdm_status tdmi_messages_meet(tdm_group *group, int from, const tdmi_announcement *what, tdmi_message **match, tdmi_unexpected **kept)
{
    tdmi_messages *messages = &group->messages;
    *match = NULL;
    *kept = NULL;
    for (tdmi_message *receive = messages->posted.first; receive != NULL; receive = receive->next) {
        if (!fits(receive, from, what->tag))
            continue;
        tdmi_message_remove(&messages->posted, receive);
        messages->stream[from]->taken += what->carries && what->nbytes > 0;
        tdm_status status = meet(group, receive, from, what);
        if (status == TDM_OK && !what->carries)
            return fetch(group, receive, what);
        *match = receive;
        return status;
    }
    tdmi_unexpected *u = tdmi_calloc(1, sizeof *u + (what->carries ? what->nbytes : 0), "unexpected message");
    if (u == NULL)
        return TDM_ERR_NO_MEMORY;
    u->from = from;
    u->what = *what;
    keep(messages, u);
    *kept = what->carries ? u : NULL;
    return TDM_OK;
}

/* What was kept goes to its receive; true if it is all there. */
static tdm_status hand_over(tdm_group *group, tdmi_message *receive, tdmi_unexpected **at)
{
    tdmi_messages *messages = &group->messages;
    tdmi_unexpected *u = *at;
    tdm_status status = meet(group, receive, u->from, &u->what);
    if (status != TDM_OK)
        return status;
    if (u->own != NULL) {
        receive->source = u->own->data;
        receive->state = TDMI_MESSAGE_COPYING;
        tdmi_message_append(&messages->copying, receive);
    } else if (!u->what.carries) {
        status = fetch(group, receive, &u->what);
    } else {
        if (u->what.nbytes > 0)
            memcpy(receive->data, u->data, u->what.nbytes);
        messages->stream[u->from]->taken += u->what.nbytes > 0;
        tdmi_message_complete(group, receive);
    }
    forget(messages, at);
    return status;
}

tdm_status tdmi_messages_kept(tdm_group *group, tdmi_unexpected *kept)
{
    kept->have = kept->what.nbytes;
    for (tdmi_message *receive = group->messages.posted.first; receive != NULL; receive = receive->next)
        if (fits(receive, kept->from, kept->what.tag)) { /* posted while the bytes came */
            tdmi_unexpected **at = &group->messages.unexpected;
            while (*at != kept)
                at = &(*at)->next;
            tdmi_message_remove(&group->messages.posted, receive);
            return hand_over(group, receive, at);
        }
    return TDM_OK;
}

static tdm_status post(tdm_group *group, tdmi_message *receive)
{
    tdmi_messages *messages = &group->messages;
    for (tdmi_unexpected **at = &messages->unexpected; *at != NULL; at = &(*at)->next)
        if (fits(receive, (*at)->from, (*at)->what.tag)) {
            if ((*at)->what.carries && (*at)->have < (*at)->what.nbytes)
                break; /* tdmi_messages_kept hands it over: no later message may overtake it */
            return hand_over(group, receive, at);
        }
    tdmi_message_append(&messages->posted, receive);
    return TDM_OK;
}

/* ---- advancing ---- */

void tdmi_message_complete(tdm_group *group, tdmi_message *message)
{
    message->state = TDMI_MESSAGE_DONE;
    if (message->receives && message->what_came != NULL)
        *message->what_came = (tdm_message){.from = message->peer, .tag = message->tag,
                                            .count = message->length / tdm_dtype_size(message->dtype)};
    tdmi_work_done(message->work);
    group->messages.pending--;
}

/* The world counts the groups that somebody must advance. */
static void note_busy(tdm_group *group)
{
    tdmi_messages *messages = &group->messages;
    const bool busy = messages->pending > 0 || messages->unwritten;
    if (busy != messages->busy)
        atomic_fetch_add_explicit(&group->world->busy, busy ? 1 : -1, memory_order_relaxed);
    messages->busy = busy;
}

/* A send of this rank to itself whose bytes the receive has. */
static void complete_own(tdm_group *group, tdmi_message *receive)
{
    tdmi_message_list *own = &group->messages.own;
    for (tdmi_message *send = own->first; send != NULL; send = send->next)
        if (send->id == receive->id) {
            tdmi_message_remove(own, send);
            tdmi_message_complete(group, send);
            return;
        }
}

static tdm_status copy_some(tdm_group *group, bool *moved)
{
    tdmi_messages *messages = &group->messages;
    tdmi_message *receive = messages->copying.first;
    tdm_status status = TDM_OK;
    if (receive == NULL)
        return TDM_OK;
    const size_t left = receive->length - receive->moved, part = left < PIECE_BYTES ? left : PIECE_BYTES;
    if (part > 0)
        memcpy(receive->data + receive->moved, receive->source + receive->moved, part);
    receive->moved += part;
    *moved = true;
    if (part < left)
        return TDM_OK;
    tdmi_message_remove(&messages->copying, receive);
    if (receive->peer == group->rank)
        complete_own(group, receive);
    else
        status = tdmi_stream_answer(messages->stream[receive->peer], TDMI_FRAME_TAKEN, receive->id);
    tdmi_message_complete(group, receive);
    return status;
}

tdm_status tdmi_messages_open(tdm_group *group, int peer)
{
    tdmi_messages *messages = &group->messages;
    if (messages->stream == NULL)
        messages->stream = tdmi_calloc((size_t)group->size, sizeof *messages->stream, "message streams");
    if (messages->stream == NULL)
        return TDM_ERR_NO_MEMORY;
    if (peer == group->rank || messages->stream[peer] != NULL)
        return TDM_OK;
    tdmi_message_stream *stream = tdmi_calloc(1, sizeof *stream, "message stream");
    if (stream == NULL)
        return TDM_ERR_NO_MEMORY;
    stream->peer = peer;
    stream->credit = TDMI_MESSAGE_CREDIT;
    if (tdmi_group_meets_alone(group))
        stream->closed = group->control[peer].left;
    else
        stream->link = messages->link[peer];
    messages->stream[peer] = stream;
    return TDM_OK;
}

tdm_status tdmi_messages_advance(tdm_group *group, bool *moved)
{
    tdmi_messages *messages = &group->messages;
    tdm_status status = copy_some(group, moved);
    bool closed = false;
    if (tdmi_group_meets_alone(group))
        tdmi_control_hear(group);
    messages->unwritten = false;
    for (int r = 0; r < group->size && status == TDM_OK; r++)
        if (messages->stream[r] != NULL) {
            status = messages->stream[r]->link != NULL ? tdmi_stream_advance(group, messages->stream[r], moved)
                                                       : tdmi_notes_advance(group, messages->stream[r], moved);
            closed |= messages->stream[r]->closed;
            messages->unwritten |= tdmi_stream_has_unwritten(messages->stream[r]);
        }
    note_busy(group);
    return status == TDM_OK && closed ? tdmi_messages_miss_closed(group) : status;
}

/* ---- beginning and end ---- */

static tdm_status begin_send(tdm_group *group, tdmi_message *send)
{
    tdmi_messages *messages = &group->messages;
    if (send->peer != group->rank) {
        send->state = TDMI_MESSAGE_QUEUED;
        tdmi_message_append(&messages->stream[send->peer]->queued, send);
        return TDM_OK;
    }
    tdmi_unexpected *u = tdmi_calloc(1, sizeof *u, "message to the own rank");
    if (u == NULL)
        return TDM_ERR_NO_MEMORY;
    send->id = ++messages->own_id;
    send->state = TDMI_MESSAGE_WAITING;
    u->from = group->rank;
    u->own = send;
    u->what = (tdmi_announcement){.id = send->id, .tag = send->tag, .dtype = send->dtype, .nbytes = send->nbytes};
    keep(messages, u);
    tdmi_message_append(&messages->own, send);
    return tdmi_messages_kept(group, u);
}

tdm_status tdmi_messages_prepare(tdm_group *group, const tdmi_message *message)
{
    tdm_status status = TDM_OK;
    if (message->peer != TDM_ANY_SOURCE)
        return tdmi_messages_open(group, message->peer);
    for (int r = 0; r < group->size && status == TDM_OK; r++)
        status = tdmi_messages_open(group, r);
    return status;
}

tdm_status tdmi_messages_begin(tdm_group *group, tdmi_message *message)
{
    tdmi_label_copy(group->team.label, &message->work->run.label);
    group->messages.pending++;
    note_busy(group);
    return message->receives ? post(group, message) : begin_send(group, message);
}


void tdmi_messages_drop(tdm_group *group, tdmi_message *message)
{
    tdmi_messages *messages = &group->messages;
    tdmi_message_remove(&messages->posted, message);
    tdmi_message_remove(&messages->copying, message);
    tdmi_message_remove(&messages->own, message);
    for (int r = 0; r < group->size; r++) {
        tdmi_message_stream *stream = messages->stream[r];
        if (stream == NULL)
            continue;
        tdmi_message_remove(&stream->queued, message);
        tdmi_message_remove(&stream->announced, message);
        tdmi_message_remove(&stream->pulling, message);
        if (stream->writing == message || stream->reading == message)
            stream->closed = true; /* the group is dead: nothing more is written or read */
    }
    tdmi_message_complete(group, message);
    note_busy(group);
}

void tdmi_messages_free(tdm_group *group)
{
    tdmi_messages *messages = &group->messages;
    while (messages->unexpected != NULL)
        forget(messages, &messages->unexpected);
    if (messages->busy)
        atomic_fetch_sub_explicit(&group->world->busy, 1, memory_order_relaxed);
    for (int r = 0; r < group->size; r++) {
        if (messages->stream != NULL && messages->stream[r] != NULL)
            tdmi_stream_free(messages->stream[r]);
        if (messages->link != NULL && messages->link[r] != NULL)
            messages->link[r]->ops->close(messages->link[r]);
    }
    tdmi_free(messages->stream);
    tdmi_free(messages->link);
}

