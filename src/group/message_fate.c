/* message_fate.c - messages that do not come to their end: the other rank has left, or their time is up. */
#include "group/group.h"

#include "core/clock.h"

#include <stdio.h>
#include <string.h>

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

void tdmi_message_text(const tdmi_message *m, char *text, size_t nbytes)
{
    char tag[32] = "any tag", peer[32] = "any rank", label[TDMI_LABEL_BYTES + 4];
    if (m->tag != TDM_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %d", m->tag);
    if (m->peer != TDM_ANY_SOURCE)
        snprintf(peer, sizeof peer, "rank %d", m->peer);
    tdmi_label_text(m->work->run.label.text, label);
    if (m->receives)
        snprintf(text, nbytes, "waits for a message from %s with %s%s", peer, tag, label);
    else
        snprintf(text, nbytes, "sends %zu %s to %s with %s%s", m->nbytes / tdm_dtype_size(m->dtype), tdm_dtype_name(m->dtype), peer, tag, label);
}

static tdm_status late(const tdm_group *group, const tdmi_message *m)
{
    char text[TDMI_CALL_TEXT_BYTES], excuse[TDMI_ERROR_TEXT_MAX / 2] = "";
    bool missing[group->size];
    memset(missing, 0, sizeof missing);
    if (m->peer != TDM_ANY_SOURCE && m->peer != group->rank) {
        missing[m->peer] = true;
        tdmi_group_excuses(group, missing, UINT64_MAX, excuse, sizeof excuse);
    }
    tdmi_message_text(m, text, sizeof text);
    if (m->receives)
        return tdmi_fail(TDM_ERR_TIMEOUT, "group %s: rank %d %s; %s within %g s%s", group->name, group->rank, text,
                         m->state == TDMI_MESSAGE_WAITING ? "none came" : "it came only in part", m->work->timeout_s, excuse);
    return tdmi_fail(TDM_ERR_TIMEOUT, "group %s: rank %d %s, which did not receive them within %g s%s", group->name, group->rank, text,
                     m->work->timeout_s, excuse);
}

static const tdmi_message *first_such(const tdmi_message_list *list, bool (*is_such)(const tdm_work *work))
{
    for (const tdmi_message *m = list->first; m != NULL; m = m->next)
        if (is_such(m->work))
            return m;
    return NULL;
}

const tdmi_message *tdmi_messages_find(const tdm_group *group, bool (*is_such)(const tdm_work *work))
{
    const tdmi_messages *messages = &group->messages;
    if (messages->pending == 0)
        return NULL;
    const tdmi_message *m = first_such(&messages->posted, is_such);
    m = m != NULL ? m : first_such(&messages->own, is_such);
    for (int r = 0; r < group->size && m == NULL; r++) {
        const tdmi_message_stream *stream = messages->stream[r];
        if (stream == NULL)
            continue;
        m = first_such(&stream->queued, is_such);
        m = m != NULL ? m : first_such(&stream->announced, is_such);
        m = m != NULL ? m : first_such(&stream->pulling, is_such);
    }
    return m;
}

static bool is_late(const tdm_work *work)
{
    return tdmi_deadline_passed(work->deadline_ns);
}

tdm_status tdmi_messages_late(tdm_group *group)
{
    const tdmi_message *m = tdmi_messages_find(group, is_late);
    return m != NULL ? late(group, m) : TDM_OK;
}
