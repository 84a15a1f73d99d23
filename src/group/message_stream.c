/* message_stream.c - the byte stream of messages to and from one rank: frames are written one after the other, answers before
 * announcements and data, and read one after the other; neither side ever waits for the other to post something. */
#include "group/group.h"

#include "core/memory.h"
#include "transport/bytes.h"

#include <string.h>

#define DATA_BYTES TDMI_FRAME_DATA_MAX
#define ANNOUNCEMENT_BYTES 40
#define CREDIT_AT (TDMI_MESSAGE_CREDIT / 4)

_Static_assert(ANNOUNCEMENT_BYTES == TDMI_FRAME_MESSAGE_HEAD, "the frame's least payload");

static tdm_status while_talking(const tdm_group *group, const tdmi_message_stream *stream, tdm_status status)
{
    return status == TDM_OK ? status : tdmi_fail_while(status, "rank %d of group %s exchanged messages with rank %d", group->rank,
                                                       group->name, stream->peer);
}

static tdm_status broken(const tdmi_message_stream *stream, const char *what)
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

bool tdmi_stream_has_unwritten(const tdmi_message_stream *stream)
{
    return !stream->closed && (stream->answers_at < stream->answers_nbytes || stream->head_at < stream->head_nbytes ||
                               stream->payload_left > 0);
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

/* The next frame; false: there is nothing to write. */
static bool begin_frame(const tdm_group *group, tdmi_message_stream *stream)
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

/* The frame of `writing` has left. */
static void end_frame(tdm_group *group, tdmi_message_stream *stream)
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

static tdm_status write_some(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    for (;;) {
        const size_t head = stream->head_nbytes - stream->head_at;
        if (head == 0 && stream->payload_left == 0) {
            end_frame(group, stream);
            if (!begin_frame(group, stream))
                return TDM_OK;
            continue;
        }
        const struct iovec parts[2] = {{stream->head + stream->head_at, head}, {(char *)(uintptr_t)stream->payload, stream->payload_left}};
        const int first = head > 0 ? 0 : 1, count = stream->payload_left > 0 ? 2 : 1;
        size_t sent = 0;
        tdm_status status = stream->link->ops->send(stream->link, parts + first, count - first, &sent);
        if (status != TDM_OK || sent == 0)
            return status;
        const size_t of_head = sent < head ? sent : head;
        stream->head_at += of_head;
        if (sent > of_head) {
            stream->payload += sent - of_head;
            stream->payload_left -= sent - of_head;
        }
        *moved = true;
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

static tdm_status hear_announcement(tdm_group *group, tdmi_message_stream *stream, const tdmi_frame *frame)
{
    tdmi_announcement what;
    if (!read_announcement(stream->in + stream->in_at, frame->nbytes, &what))
        return broken(stream, "a damaged announcement");
    if (what.place.owner != TDMI_NOWHERE && !group->is_local[stream->peer])
        return broken(stream, "a place in memory that it does not share");
    what.id = frame->number;
    stream->in_at += ANNOUNCEMENT_BYTES;
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
            return broken(stream, "more credit than was spent");
        stream->credit += (unsigned)frame->number;
        return TDM_OK;
    }
    tdmi_message *send = find(&stream->announced, frame->number);
    if (send == NULL)
        return broken(stream, "an answer to no message");
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
        return broken(stream, "data of no message");
    stream->in_payload = true;
    stream->reading = receive;
    stream->to = receive->data + receive->moved;
    stream->to_left = frame->nbytes;
    receive->moved += frame->nbytes;
    return TDM_OK;
}

static tdm_status read_frame(tdm_group *group, tdmi_message_stream *stream, const tdmi_frame *frame)
{
    switch (frame->type) {
    case TDMI_FRAME_MESSAGE: return hear_announcement(group, stream, frame);
    case TDMI_FRAME_DATA: return hear_data(stream, frame);
    default: return hear_answer(group, stream, frame);
    }
}

/* The payload of a frame is where it belongs. */
static tdm_status end_payload(tdm_group *group, tdmi_message_stream *stream)
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

static bool is_ours(const tdmi_frame *frame)
{
    return frame->type == TDMI_FRAME_MESSAGE || frame->type == TDMI_FRAME_DATA || frame->type == TDMI_FRAME_PULL ||
           frame->type == TDMI_FRAME_TAKEN || frame->type == TDMI_FRAME_CREDIT;
}

/* One step with what is in the buffer; *again: there may be more. */
static tdm_status use_buffer(tdm_group *group, tdmi_message_stream *stream, bool *again)
{
    const size_t held = stream->in_nbytes - stream->in_at;
    *again = false;
    if (stream->in_payload) {
        const size_t part = held < stream->to_left ? held : stream->to_left;
        if (part > 0) {
            memcpy(stream->to, stream->in + stream->in_at, part);
            stream->in_at += part;
            stream->to += part;
            stream->to_left -= part;
        }
        *again = stream->to_left == 0;
        return *again ? end_payload(group, stream) : TDM_OK;
    }
    tdmi_frame frame;
    if (held < TDMI_FRAME_HEAD)
        return TDM_OK;
    if (!tdmi_frame_read(stream->in + stream->in_at, &frame) || !is_ours(&frame))
        return broken(stream, "bytes that are no frame");
    if (frame.type == TDMI_FRAME_MESSAGE && held < TDMI_FRAME_HEAD + ANNOUNCEMENT_BYTES)
        return TDM_OK;
    stream->in_at += TDMI_FRAME_HEAD;
    *again = true;
    return read_frame(group, stream, &frame);
}

static tdm_status fill(tdmi_message_stream *stream, bool *moved)
{
    const size_t held = stream->in_nbytes - stream->in_at;
    size_t got = 0;
    memmove(stream->in, stream->in + stream->in_at, held);
    stream->in_at = 0;
    stream->in_nbytes = held;
    const struct iovec parts[2] = {{stream->to, stream->to_left}, {stream->in + held, sizeof stream->in - held}};
    const bool direct = stream->in_payload && held == 0;
    tdm_status status = stream->link->ops->receive(stream->link, direct ? parts : parts + 1, direct ? 2 : 1, &got);
    if (direct) {
        const size_t part = got < stream->to_left ? got : stream->to_left;
        if (part > 0) {
            stream->to += part;
            stream->to_left -= part;
        }
        stream->in_nbytes += got - part;
    } else {
        stream->in_nbytes += got;
    }
    *moved = got > 0;
    return status;
}

static tdm_status read_some(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    for (;;) {
        bool again = true, got = false;
        tdm_status status = TDM_OK;
        while (again && status == TDM_OK)
            status = use_buffer(group, stream, &again);
        if (status != TDM_OK)
            return status;
        status = fill(stream, &got);
        if (status == TDM_ERR_PEER_LOST) { /* matters only if a message still needs it: tdmi_messages_advance */
            stream->closed = true;
            return TDM_OK;
        }
        if (status != TDM_OK || !got)
            return status;
        *moved = true;
    }
}

static tdm_status give_credit(tdmi_message_stream *stream)
{
    if (stream->taken < CREDIT_AT)
        return TDM_OK;
    const unsigned taken = stream->taken;
    stream->taken = 0;
    return tdmi_stream_answer(stream, TDMI_FRAME_CREDIT, taken);
}

tdm_status tdmi_stream_advance(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    tdm_status status = stream->closed ? TDM_OK : read_some(group, stream, moved);
    if (status == TDM_OK)
        status = give_credit(stream);
    if (status == TDM_OK && !stream->closed)
        status = write_some(group, stream, moved);
    return while_talking(group, stream, status);
}

void tdmi_stream_free(tdmi_message_stream *stream)
{
    tdmi_free(stream->answers);
    tdmi_free(stream);
}
