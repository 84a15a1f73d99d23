/* message_notes.c - messages to and from one rank where an engine alone connects the ranks: each frame is a note, and the bytes of
 * a long message go in one call of the engine from the sender's buffer to the receiver's. That call is begun by the receiver
 * before it answers PULL, and by the sender when it hears that. */
#include "group/group.h"

#include <string.h>

_Static_assert(TDMI_ENGINE_NOTE >= TDMI_FRAME_HEAD + TDMI_FRAME_MESSAGE_HEAD + TDMI_MESSAGE_SHORT, "a short message fits a note");

static tdm_status carry(tdm_group *group, tdmi_message_stream *stream, tdmi_message *message)
{
    tdmi_engine *engine = group->engine;
    return engine->ops->carry(engine, message->receives, stream->peer, message->id, message->data,
                              message->receives ? message->length : message->nbytes, &message->call);
}

static tdm_status carry_receives(tdm_group *group, tdmi_message_stream *stream)
{
    tdm_status status = TDM_OK;
    for (tdmi_message *m = stream->pulling.first; m != NULL && status == TDM_OK; m = m->next)
        if (m->call == NULL)
            status = carry(group, stream, m);
    return status;
}

/* Those that the other end has asked for; the rest of the queue is to be announced. */
static tdm_status carry_sends(tdm_group *group, tdmi_message_stream *stream)
{
    tdm_status status = TDM_OK;
    for (tdmi_message *next, *m = stream->queued.first; m != NULL && status == TDM_OK; m = next) {
        next = m->next;
        if (!m->announced)
            continue;
        tdmi_message_remove(&stream->queued, m);
        tdmi_message_append(&stream->pulling, m);
        status = carry(group, stream, m);
    }
    return status;
}

static tdm_status tell(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    uint8_t note[TDMI_ENGINE_NOTE];
    tdm_status status = TDM_OK;
    while (status == TDM_OK && tdmi_stream_begin_frame(group, stream)) {
        memcpy(note, stream->head, stream->head_nbytes);
        if (stream->payload_left > 0)
            memcpy(note + stream->head_nbytes, stream->payload, stream->payload_left);
        status = group->engine->ops->tell(group->engine, stream->peer, note, stream->head_nbytes + stream->payload_left);
        stream->head_nbytes = stream->payload_left = 0;
        if (status == TDM_OK)
            tdmi_stream_end_frame(group, stream);
        *moved = true;
    }
    return status;
}

static tdm_status test_carried(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    for (tdmi_message *next, *m = stream->pulling.first; m != NULL; m = next) {
        bool done = false;
        next = m->next;
        tdm_status status = m->call->ops->test(m->call, &done);
        if (status != TDM_OK)
            return status;
        if (!done)
            continue;
        m->call->ops->end(m->call);
        tdmi_message_remove(&stream->pulling, m);
        tdmi_message_complete(group, m);
        *moved = true;
    }
    return TDM_OK;
}

tdm_status tdmi_notes_advance(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    tdm_status status = carry_receives(group, stream);
    if (status == TDM_OK && !stream->closed)
        status = carry_sends(group, stream);
    if (status == TDM_OK && !stream->closed)
        status = tdmi_stream_give_credit(stream);
    if (status == TDM_OK && !stream->closed)
        status = tell(group, stream, moved);
    if (status == TDM_OK)
        status = test_carried(group, stream, moved);
    return status;
}

tdm_status tdmi_notes_hear(tdm_group *group, int rank, const tdmi_frame *frame, const uint8_t *payload)
{
    tdm_status status = tdmi_messages_open(group, rank);
    if (status != TDM_OK)
        return status;
    tdmi_message_stream *stream = group->messages.stream[rank];
    status = tdmi_stream_hear(group, stream, frame, payload);
    if (status != TDM_OK || !stream->in_payload)
        return status;
    if (stream->to_left > 0)
        memcpy(stream->to, payload + TDMI_FRAME_MESSAGE_HEAD, stream->to_left);
    stream->to_left = 0;
    return tdmi_stream_end_payload(group, stream);
}
