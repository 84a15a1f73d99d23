/* message_stream.c - the byte stream of messages to and from one rank: frames are written one after the other, answers before
 * announcements and data, and read one after the other; neither side ever waits for the other to post something. */
#include "group/group.h"

#include "core/memory.h"

#include <string.h>

static tdm_status while_talking(const tdm_group *group, const tdmi_message_stream *stream, tdm_status status)
{
    return status == TDM_OK ? status : tdmi_fail_while(status, "rank %d of group %s exchanged messages with rank %d", group->rank,
                                                       group->name, stream->peer);
}

bool tdmi_stream_has_unwritten(const tdmi_message_stream *stream)
{
    return !stream->closed && (stream->unflushed || stream->answers_at < stream->answers_nbytes || stream->head_at < stream->head_nbytes ||
                               stream->payload_left > 0);
}

/* ---- out ---- */

static tdm_status write_some(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    for (;;) {
        const size_t head = stream->head_nbytes - stream->head_at;
        if (head == 0 && stream->payload_left == 0) {
            tdmi_stream_end_frame(group, stream);
            if (!tdmi_stream_begin_frame(group, stream))
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
        stream->unflushed = stream->link->ops->flush != NULL;
    }
}

/* What the link has taken moves only while somebody calls it. */
static tdm_status flush(tdmi_message_stream *stream)
{
    bool flushed = true;
    tdm_status status = stream->unflushed ? stream->link->ops->flush(stream->link, &flushed) : TDM_OK;
    stream->unflushed = !flushed;
    return status;
}

/* ---- in ---- */

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
        return *again ? tdmi_stream_end_payload(group, stream) : TDM_OK;
    }
    tdmi_frame frame;
    if (held < TDMI_FRAME_HEAD)
        return TDM_OK;
    if (!tdmi_frame_read(stream->in + stream->in_at, &frame) || !tdmi_stream_is_ours(&frame))
        return tdmi_stream_broken(stream, "bytes that are no frame");
    const size_t head = TDMI_FRAME_HEAD + (frame.type == TDMI_FRAME_MESSAGE ? TDMI_FRAME_MESSAGE_HEAD : 0);
    if (held < head)
        return TDM_OK;
    const uint8_t *at = stream->in + stream->in_at + TDMI_FRAME_HEAD;
    stream->in_at += head;
    *again = true;
    return tdmi_stream_hear(group, stream, &frame, at);
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

tdm_status tdmi_stream_advance(tdm_group *group, tdmi_message_stream *stream, bool *moved)
{
    tdm_status status = stream->closed ? TDM_OK : read_some(group, stream, moved);
    if (status == TDM_OK)
        status = tdmi_stream_give_credit(stream);
    if (status == TDM_OK && !stream->closed)
        status = write_some(group, stream, moved);
    if (status == TDM_OK && !stream->closed)
        status = flush(stream);
    return while_talking(group, stream, status);
}

void tdmi_stream_free(tdmi_message_stream *stream)
{
    tdmi_free(stream->answers);
    tdmi_free(stream);
}
