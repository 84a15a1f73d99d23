/* message_fate.c - messages that do not come to their end: the other rank has left, or their time is up. */
#include "group/group.h"

#include "core/clock.h"

#include <stdio.h>

static tdm_status lost(const tdm_group *group, int peer)
{
    return tdmi_fail(TDM_ERR_PEER_LOST, "rank %d of group %s waits for a message from or to rank %d, which has left", group->rank,
                     group->name, peer);
}

tdm_status tdmi_messages_miss_closed(const tdm_group *group)
{
    const tdmi_messages *messages = &group->messages;
    bool any_open = false;
    for (int r = 0; r < group->size; r++) {
        const tdmi_message_stream *stream = messages->stream[r];
        any_open |= stream == NULL || !stream->closed;
        if (stream != NULL && stream->closed &&
            (stream->queued.first != NULL || stream->announced.first != NULL || stream->writing != NULL ||
             (stream->link != NULL && stream->pulling.first != NULL))) /* what an engine carries may still come */
            return lost(group, r);
    }
    for (const tdmi_message *receive = messages->posted.first; receive != NULL; receive = receive->next) {
        const bool some = receive->peer != TDM_ANY_SOURCE;
        if (some ? messages->stream[receive->peer] != NULL && messages->stream[receive->peer]->closed : !any_open)
            return lost(group, some ? receive->peer : group->rank);
    }
    return TDM_OK;
}

bool tdmi_messages_need(tdm_group *group, int rank)
{
    const tdmi_messages *messages = &group->messages;
    const tdmi_message_stream *stream = messages->stream != NULL ? messages->stream[rank] : NULL;
    if (stream != NULL && (stream->queued.first != NULL || stream->announced.first != NULL || stream->writing != NULL ||
                           stream->pulling.first != NULL))
        return true;
    for (const tdmi_message *receive = messages->posted.first; receive != NULL; receive = receive->next)
        if (receive->peer == rank)
            return true;
    return false;
}

static tdm_status late(const tdm_group *group, const tdmi_message *m)
{
    char tag[32] = "any tag", peer[32] = "any rank";
    if (m->tag != TDM_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %d", m->tag);
    if (m->peer != TDM_ANY_SOURCE)
        snprintf(peer, sizeof peer, "rank %d", m->peer);
    if (m->receives)
        return tdmi_fail(TDM_ERR_TIMEOUT, "group %s: rank %d waits for a message from %s with %s; %s within %g s", group->name,
                         group->rank, peer, tag, m->state == TDMI_MESSAGE_WAITING ? "none came" : "it came only in part",
                         m->work->timeout_s);
    return tdmi_fail(TDM_ERR_TIMEOUT, "group %s: rank %d sends %zu %s to %s with %s, which did not receive them within %g s",
                     group->name, group->rank, m->nbytes / tdm_dtype_size(m->dtype), tdm_dtype_name(m->dtype), peer, tag,
                     m->work->timeout_s);
}

static const tdmi_message *first_late(const tdmi_message_list *list)
{
    for (const tdmi_message *m = list->first; m != NULL; m = m->next)
        if (tdmi_deadline_passed(m->work->deadline_ns))
            return m;
    return NULL;
}

tdm_status tdmi_messages_late(tdm_group *group)
{
    const tdmi_messages *messages = &group->messages;
    if (messages->pending == 0)
        return TDM_OK;
    const tdmi_message *m = first_late(&messages->posted);
    m = m != NULL ? m : first_late(&messages->own);
    for (int r = 0; r < group->size && m == NULL; r++) {
        const tdmi_message_stream *stream = messages->stream[r];
        if (stream == NULL)
            continue;
        m = first_late(&stream->queued);
        m = m != NULL ? m : first_late(&stream->announced);
        m = m != NULL ? m : first_late(&stream->pulling);
    }
    return m != NULL ? late(group, m) : TDM_OK;
}
