/* message_frames.c - what two ranks say to each other about their messages: frames are written here and understood here;
 * message_stream.c and message_notes.c carry them. */
#include "group/group.h"

#include "core/memory.h"
#include "transport/bytes.h"

#include <string.h>

#define DATA_BYTES TDMI_FRAME_DATA_MAX
#define ANNOUNCEMENT_BYTES 40
#define CREDIT_AT (TDMI_MESSAGE_CREDIT / 4)

_Static_assert(ANNOUNCEMENT_BYTES == TDMI_FRAME_MESSAGE_HEAD, "the frame's least payload");

tdm_status tdmi_stream_broken(const tdmi_message_stream *stream, const char *what)
{
    return tdmi_fail(TDM_ERR_PEER_LOST, "the message stream of rank %d carries %s", stream->peer, what);
}

/* ---- out ---- */

tdm_status tdmi_stream_answer(tdmi_message_stream *stream, tdmi_frame_type type, uint64_t id)
{
    if (stream->answers_at == stream->answers_nbytes)
        stream->answers_at = stream->answers_nbytes = 0;
    if (stream->answers_nbytes + TDMI_FRAME_HEAD > stream->answers_capacity) {
        const size_t capacity = stream->answers_capacity == 0 ? 16 * TDMI_FRAME_HEAD : 2 * stream->answers_capacity;
        uint8_t *grown = tdmi_realloc(stream->answers, capacity, "message answers");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        stream->answers = grown;
        stream->answers_capacity = capacity;
    }
    tdmi_frame_write(&(tdmi_frame){.type = type, .number = id}, stream->answers + stream->answers_nbytes);
    stream->answers_nbytes += TDMI_FRAME_HEAD;
    return TDM_OK;
}

tdm_status tdmi_stream_give_credit(tdmi_message_stream *stream)
{
    if (stream->taken < CREDIT_AT)
        return TDM_OK;
    const unsigned taken = stream->taken;
    stream->taken = 0;
    return tdmi_stream_answer(stream, TDMI_FRAME_CREDIT, taken);
}

/* tag 4, dtype 1, carries 1, zero 2, nbytes 8, owner 4, region 4, offset 8, zero 8 */
static void write_announcement(const tdmi_announcement *what, uint8_t *out)
{
    memset(out, 0, ANNOUNCEMENT_BYTES);
    tdmi_put_u32(out, (uint32_t)what->tag);
    out[4] = (uint8_t)what->dtype;
    out[5] = what->carries;
    tdmi_put_u64(out + 8, what->nbytes);
    tdmi_put_u32(out + 16, what->place.owner);
    tdmi_put_u32(out + 20, what->place.region);
    tdmi_put_u64(out + 24, what->place.offset);
}

static bool read_announcement(const uint8_t *in, size_t payload, tdmi_announcement *out)
{
    *out = (tdmi_announcement){.tag = (int)tdmi_get_u32(in), .dtype = (tdm_dtype)in[4], .carries = in[5] == 1,
                               .nbytes = tdmi_get_u64(in + 8)};
    out->place = (tdmi_place){.owner = tdmi_get_u32(in + 16), .region = tdmi_get_u32(in + 20), .offset = tdmi_get_u64(in + 24)};
    const size_t carried = payload - ANNOUNCEMENT_BYTES;
    return out->tag >= 0 && (unsigned)out->dtype < TDM_DTYPE_COUNT && in[5] <= 1 &&
           (out->carries ? carried == out->nbytes && carried <= TDMI_MESSAGE_SHORT : carried == 0 && out->nbytes > 0) &&
           out->nbytes % tdm_dtype_size(out->dtype) == 0;
}

static void begin_announcement(const tdm_group *group, tdmi_message_stream *stream, tdmi_message *send)
{
    const bool carries = send->nbytes <= TDMI_MESSAGE_SHORT && stream->credit > 0;
    tdmi_announcement what = {.id = ++stream->last_id, .tag = send->tag, .dtype = send->dtype, .carries = carries || send->nbytes == 0,
                              .nbytes = send->nbytes, .place = {.owner = TDMI_NOWHERE}};
    if (!what.carries && group->is_local[send->peer])
        what.place = tdmi_node_locate(group->world->node, send->data, send->nbytes);
    stream->credit -= carries && send->nbytes > 0;
    stream->payload = send->data;
    stream->payload_left = what.carries ? send->nbytes : 0;
    tdmi_frame_write(&(tdmi_frame){.type = TDMI_FRAME_MESSAGE, .nbytes = (uint32_t)(ANNOUNCEMENT_BYTES + stream->payload_left),
                                   .number = what.id},
                     stream->head);
    write_announcement(&what, stream->head + TDMI_FRAME_HEAD);
    stream->head_nbytes = TDMI_FRAME_HEAD + ANNOUNCEMENT_BYTES;
    send->id = what.id;
    send->moved = stream->payload_left;
}

static void begin_data(tdmi_message_stream *stream, tdmi_message *send)
{
    const size_t left = send->nbytes - send->moved;
    stream->payload = send->data + send->moved;
    stream->payload_left = left < DATA_BYTES ? left : DATA_BYTES;
    tdmi_frame_write(&(tdmi_frame){.type = TDMI_FRAME_DATA, .nbytes = (uint32_t)stream->payload_left, .number = send->id},
                     stream->head);
    stream->head_nbytes = TDMI_FRAME_HEAD;
    send->moved += stream->payload_left;
}

bool tdmi_stream_begin_frame(const tdm_group *group, tdmi_message_stream *stream)
{
    stream->head_at = stream->head_nbytes = 0;
    if (stream->answers_at < stream->answers_nbytes) {
        memcpy(stream->head, stream->answers + stream->answers_at, TDMI_FRAME_HEAD);
        stream->answers_at += TDMI_FRAME_HEAD;
        stream->head_nbytes = TDMI_FRAME_HEAD;
        return true;
    }
    tdmi_message *send = stream->queued.first;
    if (send == NULL)
        return false;
    tdmi_message_remove(&stream->queued, send);
    stream->writing = send;
    if (send->announced)
        begin_data(stream, send);
    else
        begin_announcement(group, stream, send);
    return true;
}

void tdmi_stream_end_frame(tdm_group *group, tdmi_message_stream *stream)
{
    tdmi_message *send = stream->writing;
    stream->writing = NULL;
    if (send == NULL)
        return;
    if (send->moved == send->nbytes) {
        tdmi_message_complete(group, send);
    } else if (send->announced) {
        tdmi_message_append(&stream->queued, send);
    } else {
        send->announced = true;
        send->state = TDMI_MESSAGE_WAITING;
        tdmi_message_append(&stream->announced, send);
    }
}

/* ---- in ---- */

static tdmi_message *find(const tdmi_message_list *list, uint64_t id)
{
    tdmi_message *m = list->first;
    while (m != NULL && m->id != id)
        m = m->next;
    return m;
}

static tdm_status hear_announcement(tdm_group *group, tdmi_message_stream *stream, const tdmi_frame *frame, const uint8_t *head)
{
    tdmi_announcement what;
    if (!read_announcement(head, frame->nbytes, &what))
        return tdmi_stream_broken(stream, "a damaged announcement");
    if (what.place.owner != TDMI_NOWHERE && !group->is_local[stream->peer])
        return tdmi_stream_broken(stream, "a place in memory that it does not share");
    what.id = frame->number;
    tdm_status status = tdmi_messages_meet(group, stream->peer, &what, &stream->reading, &stream->keeping);
    if (status != TDM_OK)
        return status;
    stream->in_payload = what.carries;
    if (what.carries) {
        stream->to = stream->reading != NULL ? stream->reading->data : stream->keeping->data;
        stream->to_left = what.nbytes;
    }
    return TDM_OK;
}

static tdm_status hear_answer(tdm_group *group, tdmi_message_stream *stream, const tdmi_frame *frame)
{
    if (frame->type == TDMI_FRAME_CREDIT) {
        if (frame->number > TDMI_MESSAGE_CREDIT - stream->credit)
            return tdmi_stream_broken(stream, "more credit than was spent");
        stream->credit += (unsigned)frame->number;
        return TDM_OK;
    }
    tdmi_message *send = find(&stream->announced, frame->number);
    if (send == NULL)
        return tdmi_stream_broken(stream, "an answer to no message");
    tdmi_message_remove(&stream->announced, send);
    if (frame->type == TDMI_FRAME_TAKEN) {
        tdmi_message_complete(group, send);
    } else {
        send->state = TDMI_MESSAGE_QUEUED;
        tdmi_message_append(&stream->queued, send);
    }
    return TDM_OK;
}

static tdm_status hear_data(tdmi_message_stream *stream, const tdmi_frame *frame)
{
    tdmi_message *receive = find(&stream->pulling, frame->number);
    if (receive == NULL || frame->nbytes > receive->length - receive->moved)
        return tdmi_stream_broken(stream, "data of no message");
    stream->in_payload = true;
    stream->reading = receive;
    stream->to = receive->data + receive->moved;
    stream->to_left = frame->nbytes;
    receive->moved += frame->nbytes;
    return TDM_OK;
}

tdm_status tdmi_stream_hear(tdm_group *group, tdmi_message_stream *stream, const tdmi_frame *frame, const uint8_t *head)
{
    switch (frame->type) {
    case TDMI_FRAME_MESSAGE: return hear_announcement(group, stream, frame, head);
    case TDMI_FRAME_DATA: return hear_data(stream, frame);
    default: return hear_answer(group, stream, frame);
    }
}

tdm_status tdmi_stream_end_payload(tdm_group *group, tdmi_message_stream *stream)
{
    tdmi_message *receive = stream->reading;
    tdmi_unexpected *kept = stream->keeping;
    stream->in_payload = false;
    stream->reading = NULL;
    stream->keeping = NULL;
    if (kept != NULL)
        return tdmi_messages_kept(group, kept);
    if (receive != NULL && receive->state == TDMI_MESSAGE_PULLING) {
        if (receive->moved < receive->length)
            return TDM_OK;
        tdmi_message_remove(&stream->pulling, receive);
    }
    if (receive != NULL)
        tdmi_message_complete(group, receive);
    return TDM_OK;
}

bool tdmi_stream_is_ours(const tdmi_frame *frame)
{
    return frame->type == TDMI_FRAME_MESSAGE || frame->type == TDMI_FRAME_DATA || frame->type == TDMI_FRAME_PULL ||
           frame->type == TDMI_FRAME_TAKEN || frame->type == TDMI_FRAME_CREDIT;
}
