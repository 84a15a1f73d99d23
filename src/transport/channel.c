/* channel.c - frames on a link. Small messages cost one system call a direction: signature, header and payload leave in one
 * vector, and what arrives is read into a buffer first. Large payloads go straight to where they belong. */
#include "transport/channel.h"

#include "core/memory.h"

#include <string.h>

#define DIRECT_BYTES 4096 /* a payload of which more than this is missing is received in place */

tdm_status tdmi_channel_create(tdmi_link *link, tdmi_channel **out)
{
    tdmi_channel *channel = tdmi_calloc(1, sizeof *channel, "channel");
    if (channel == NULL) {
        link->ops->close(link);
        return TDM_ERR_NO_MEMORY;
    }
    channel->link = link;
    *out = channel;
    return TDM_OK;
}

void tdmi_channel_destroy(tdmi_channel *channel)
{
    if (channel == NULL)
        return;
    channel->link->ops->close(channel->link);
    tdmi_free(channel);
}

/* ---- sending ---- */

static uint8_t *append(tdmi_channel *channel, size_t nbytes)
{
    if (channel->head_at == channel->head_nbytes)
        channel->head_at = channel->head_nbytes = 0;
    uint8_t *at = channel->head + channel->head_nbytes;
    channel->head_nbytes += nbytes;
    return at;
}

void tdmi_channel_sign(tdmi_channel *channel, uint64_t call, const uint8_t signature[TDMI_CHANNEL_SIGNATURE], const tdmi_label *label)
{
    const size_t length = label->nbytes > 0 ? label->nbytes - 1 : 0, nbytes = TDMI_CHANNEL_SIGNATURE + length;
    uint8_t *at = append(channel, TDMI_FRAME_HEAD + nbytes);
    tdmi_frame_write(&(tdmi_frame){.type = TDMI_FRAME_SIGNATURE, .nbytes = (uint32_t)nbytes, .number = call}, at);
    memcpy(at + TDMI_FRAME_HEAD, signature, TDMI_CHANNEL_SIGNATURE);
    memcpy(at + TDMI_FRAME_HEAD + TDMI_CHANNEL_SIGNATURE, label->text, length);
}

tdm_status tdmi_channel_send(tdmi_channel *channel, uint64_t call, const void *data, size_t nbytes, size_t *moved)
{
    *moved = 0;
    while (*moved < nbytes) {
        const size_t left = nbytes - *moved;
        if (channel->frame_left == 0) {
            channel->frame_left = left < TDMI_FRAME_DATA_MAX ? left : TDMI_FRAME_DATA_MAX;
            tdmi_frame_write(&(tdmi_frame){.type = TDMI_FRAME_DATA, .nbytes = (uint32_t)channel->frame_left, .number = call},
                             append(channel, TDMI_FRAME_HEAD));
        }
        const size_t head = channel->head_nbytes - channel->head_at;
        const struct iovec parts[2] = {{channel->head + channel->head_at, head},
                                       {(char *)(uintptr_t)data + *moved, channel->frame_left}};
        size_t sent = 0;
        tdm_status status = channel->link->ops->send(channel->link, head > 0 ? parts : parts + 1, head > 0 ? 2 : 1, &sent);
        if (status != TDM_OK)
            return status;
        const size_t of_head = sent < head ? sent : head;
        const bool whole = sent == head + channel->frame_left;
        channel->head_at += of_head;
        channel->frame_left -= sent - of_head;
        channel->payload_sent += sent - of_head;
        *moved += sent - of_head;
        if (!whole)
            return TDM_OK;
    }
    return TDM_OK;
}

tdm_status tdmi_channel_flush(tdmi_channel *channel, bool *flushed)
{
    const size_t head = channel->head_nbytes - channel->head_at;
    tdm_status status = TDM_OK;
    if (head > 0) {
        const struct iovec part = {channel->head + channel->head_at, head};
        size_t sent = 0;
        status = channel->link->ops->send(channel->link, &part, 1, &sent);
        channel->head_at += sent;
    }
    *flushed = channel->head_at == channel->head_nbytes;
    return status == TDM_OK && *flushed && channel->link->ops->flush != NULL ? channel->link->ops->flush(channel->link, flushed)
                                                                             : status;
}

/* ---- receiving ---- */

/* Moves bytes from the link into the buffer, behind those already there. *got: whether any came. */
static tdm_status fill(tdmi_channel *channel, bool *got)
{
    const size_t held = channel->in_nbytes - channel->in_at;
    if (channel->in_at > 0)
        memmove(channel->in, channel->in + channel->in_at, held);
    channel->in_at = 0;
    channel->in_nbytes = held;
    const struct iovec part = {channel->in + held, sizeof channel->in - held};
    size_t moved = 0;
    tdm_status status = channel->link->ops->receive(channel->link, &part, 1, &moved);
    channel->in_nbytes += moved;
    *got = moved > 0;
    return status;
}

/* Takes the signature of `call`, or else the next data frame's header. *ready: channel->frame is a data frame with payload
 * left. Reads nothing behind what it takes: the peer may have closed there. */
static tdm_status next_frame(tdmi_channel *channel, uint64_t call, bool *ready)
{
    *ready = channel->in_frame;
    while (!*ready) {
        const size_t held = channel->in_nbytes - channel->in_at;
        const uint8_t *at = channel->in + channel->in_at;
        tdmi_frame frame = {0};
        const bool whole_head = held >= TDMI_FRAME_HEAD;
        if (whole_head && (!tdmi_frame_read(at, &frame) || (frame.type != TDMI_FRAME_DATA && frame.type != TDMI_FRAME_SIGNATURE)))
            return tdmi_frame_refuse(at);
        if (!whole_head || (frame.type == TDMI_FRAME_SIGNATURE && held < TDMI_FRAME_HEAD + frame.nbytes)) {
            bool got;
            tdm_status status = fill(channel, &got);
            if (status != TDM_OK || !got)
                return status;
            continue;
        }
        if (frame.type == TDMI_FRAME_SIGNATURE) {
            if (frame.number > call)
                return TDM_OK; /* of a call to come: it waits in the buffer */
            channel->signature_call = frame.number;
            memcpy(channel->signature, at + TDMI_FRAME_HEAD, TDMI_CHANNEL_SIGNATURE);
            memcpy(channel->label, at + TDMI_FRAME_HEAD + TDMI_CHANNEL_SIGNATURE, frame.nbytes - TDMI_CHANNEL_SIGNATURE);
            channel->label[frame.nbytes - TDMI_CHANNEL_SIGNATURE] = '\0';
            channel->in_at += TDMI_FRAME_HEAD + frame.nbytes;
            return TDM_OK;
        }
        channel->in_at += TDMI_FRAME_HEAD;
        channel->frame = frame;
        channel->frame_taken = 0;
        channel->in_frame = *ready = true;
    }
    return TDM_OK;
}

tdm_status tdmi_channel_hear(tdmi_channel *channel, uint64_t call, bool *came)
{
    bool ready = false;
    tdm_status status = channel->signature_call >= call ? TDM_OK : next_frame(channel, call, &ready);
    *came = channel->signature_call >= call;
    return status;
}

/* One piece of the current frame's payload: out of the buffer, or straight from the link. */
static tdm_status take(tdmi_channel *channel, char *to, size_t wanted, size_t *moved)
{
    const size_t left = channel->frame.nbytes - channel->frame_taken, held = channel->in_nbytes - channel->in_at;
    if (wanted > left)
        wanted = left;
    *moved = 0;
    if (held == 0 && wanted > DIRECT_BYTES) {
        channel->in_at = channel->in_nbytes = 0;
        /* What lies behind this frame comes along. */
        const struct iovec parts[2] = {{to, wanted}, {channel->in, wanted == left ? sizeof channel->in : 0}};
        size_t got = 0;
        tdm_status status = channel->link->ops->receive(channel->link, parts, wanted == left ? 2 : 1, &got);
        if (status != TDM_OK)
            return status;
        *moved = got < wanted ? got : wanted;
        channel->in_nbytes = got - *moved;
    } else {
        if (held == 0) {
            bool got;
            tdm_status status = fill(channel, &got);
            if (status != TDM_OK || !got)
                return status;
        }
        const size_t have = channel->in_nbytes - channel->in_at;
        *moved = wanted < have ? wanted : have;
        memcpy(to, channel->in + channel->in_at, *moved);
        channel->in_at += *moved;
    }
    channel->frame_taken += *moved;
    channel->in_frame = channel->frame_taken < channel->frame.nbytes;
    return TDM_OK;
}

tdm_status tdmi_channel_receive(tdmi_channel *channel, uint64_t call, void *data, size_t nbytes, size_t *moved)
{
    *moved = 0;
    while (*moved < nbytes) {
        bool ready;
        size_t got = 0;
        tdm_status status = next_frame(channel, call, &ready);
        if (status != TDM_OK || !ready)
            return status;
        if (channel->frame.number != call)
            return tdmi_fail(TDM_ERR_INTERNAL, "data of call %llu came where call %llu was expected",
                             (unsigned long long)channel->frame.number, (unsigned long long)call);
        status = take(channel, (char *)data + *moved, nbytes - *moved, &got);
        if (status != TDM_OK || got == 0)
            return status;
        *moved += got;
    }
    return TDM_OK;
}
