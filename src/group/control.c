/* control.c - the connections to ranks on other nodes that carry no data: who has arrived, who leaves, why the group is dead.
 * They are read whenever a rank waits, so such news never stand behind data that nobody asked for yet. A connection that
 * closes without a goodbye is a death. Where an engine alone connects the ranks, its notes carry the same frames.
 *
 * Reading happens with the group's lock held; sending with control_lock, by any thread. */
#include "group/group.h"

#include "core/clock.h"
#include "store/socket.h"
#include "transport/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>


bool tdmi_control_reaches(const tdm_group *group, int rank)
{
    return group->control != NULL && (group->control[rank].fd >= 0 || (tdmi_group_meets_alone(group) && rank != group->rank));
}

static void send_frame(tdm_group *group, int rank, tdmi_frame_type type, uint64_t number, const void *payload, size_t nbytes)
{
    uint8_t bytes[TDMI_FRAME_HEAD + TDMI_FRAME_TEXT_MAX];
    const tdmi_frame frame = {.type = type, .number = number, .nbytes = (uint32_t)nbytes};
    tdmi_frame_write(&frame, bytes);
    memcpy(bytes + TDMI_FRAME_HEAD, payload, nbytes);
    /* One that does not take it is dead or will be told by others. */
    if (tdmi_group_meets_alone(group)) {
        (void)!group->engine->ops->tell(group->engine, rank, bytes, TDMI_FRAME_HEAD + nbytes);
        return;
    }
    pthread_mutex_lock(&group->control_lock);
    (void)!tdmi_socket_send_all(group->control[rank].fd, bytes, TDMI_FRAME_HEAD + nbytes, tdmi_deadline_in(1), "a peer");
    pthread_mutex_unlock(&group->control_lock);
}

static void send_all(tdm_group *group, tdmi_frame_type type, uint64_t number, const char *text)
{
    if (group->control == NULL)
        return;
    char kept[TDMI_ERROR_TEXT_MAX]; /* a failed send must not overwrite the error text */
    snprintf(kept, sizeof kept, "%s", tdm_error_text());
    for (int r = 0; r < group->size; r++)
        if (tdmi_control_reaches(group, r))
            send_frame(group, r, type, number, text, strlen(text));
    tdmi_error_set_text(kept);
}

void tdmi_control_announce(tdm_group *group)
{
    group->announced = group->number;
    send_all(group, TDMI_FRAME_ARRIVED, group->number, "");
}

void tdmi_control_send_failure(tdm_group *group, tdm_status status, const char *text)
{
    send_all(group, TDMI_FRAME_FAILURE, (uint64_t)status, text);
}

void tdmi_control_send_goodbye(tdm_group *group)
{
    send_all(group, TDMI_FRAME_GOODBYE, group->number, "");
}

void tdmi_control_send_elsewhere(tdm_group *group, const char *text)
{
    send_all(group, TDMI_FRAME_ELSEWHERE, 0, text);
}

void tdmi_control_send_signature(tdm_group *group, int rank, uint64_t number, const uint8_t signature[TDMI_SIGNATURE_BYTES],
                                 const tdmi_label *label)
{
    uint8_t bytes[TDMI_SIGNATURE_BYTES + TDMI_LABEL_BYTES];
    memcpy(bytes, signature, TDMI_SIGNATURE_BYTES);
    tdmi_label_put(label, (char *)bytes + TDMI_SIGNATURE_BYTES);
    send_frame(group, rank, TDMI_FRAME_SIGNATURE, number, bytes, TDMI_SIGNATURE_BYTES + strlen((char *)bytes + TDMI_SIGNATURE_BYTES));
}

/* Number of a status that came over the wire, or INTERNAL. */
static tdm_status status_of(uint64_t number)
{
#define CASE(name, value, text)                                                                                        \
    if (number == value && number != TDM_OK)                                                                           \
        return TDM_##name;
    TDM_STATUS_MAP(CASE)
#undef CASE
    return TDM_ERR_INTERNAL;
}

static void handle(tdm_group *group, int rank, const tdmi_frame *frame, const uint8_t *payload)
{
    tdmi_control *control = &group->control[rank];
    switch (frame->type) {
    case TDMI_FRAME_ARRIVED:
        if (frame->number > group->team.arrived[rank])
            group->team.arrived[rank] = frame->number;
        if (frame->number > group->asked)
            group->asked = frame->number;
        break;
    case TDMI_FRAME_GOODBYE:
        control->left = true;
        control->left_ns = tdmi_now_ns();
        control->done = frame->number;
        if (tdmi_group_meets_alone(group) && group->messages.stream != NULL && group->messages.stream[rank] != NULL)
            group->messages.stream[rank]->closed = true; /* its notes came before this one */
        break;
    case TDMI_FRAME_FAILURE:
        tdmi_group_fail(group, tdmi_fail(status_of(frame->number), "%.*s", (int)frame->nbytes, (const char *)payload));
        break;
    case TDMI_FRAME_ELSEWHERE:
        snprintf(control->elsewhere, sizeof control->elsewhere, "%.*s", (int)frame->nbytes, (const char *)payload);
        break;
    default: break; /* refused by parse */
    }
}

/* The other end broke, or somebody stands between: nothing it says counts from now on. */
static void refuse(tdm_group *group, int rank, const uint8_t head[TDMI_FRAME_HEAD])
{
    group->control[rank].closed = true;
    const tdm_status status = tdmi_fail_while(tdmi_frame_refuse(head), "rank %d of group %s heard news from rank %d", group->rank,
                                              group->name, rank);
    tdmi_group_fail(group, status);
}

static bool is_news(const tdmi_frame *frame)
{
    return frame->type == TDMI_FRAME_ARRIVED || frame->type == TDMI_FRAME_GOODBYE || frame->type == TDMI_FRAME_FAILURE ||
           frame->type == TDMI_FRAME_ELSEWHERE;
}

/* Takes the whole frames out of what came. */
static void parse(tdm_group *group, int rank)
{
    tdmi_control *control = &group->control[rank];
    size_t at = 0;
    while (control->in_nbytes - at >= TDMI_FRAME_HEAD) {
        tdmi_frame frame;
        if (!tdmi_frame_read(control->in + at, &frame) || !is_news(&frame)) {
            refuse(group, rank, control->in + at);
            return;
        }
        const bool has_text = frame.type == TDMI_FRAME_FAILURE || frame.type == TDMI_FRAME_ELSEWHERE;
        const size_t nbytes = has_text ? frame.nbytes : 0;
        if (control->in_nbytes - at < TDMI_FRAME_HEAD + nbytes)
            break;
        handle(group, rank, &frame, control->in + at + TDMI_FRAME_HEAD);
        at += TDMI_FRAME_HEAD + nbytes;
    }
    control->in_nbytes -= at;
    memmove(control->in, control->in + at, control->in_nbytes);
}

static void hear(tdm_group *group, int rank)
{
    tdmi_control *control = &group->control[rank];
    while (!control->closed) {
        const ssize_t got =
            recv(control->fd, control->in + control->in_nbytes, sizeof control->in - control->in_nbytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            control->closed = true;
            return;
        }
        control->in_nbytes += (size_t)got;
        parse(group, rank);
    }
}

/* signature, then label */
static void hear_signature(tdm_group *group, int rank, const tdmi_frame *frame, const uint8_t *payload)
{
    char label[TDMI_LABEL_BYTES];
    snprintf(label, sizeof label, "%.*s", (int)(frame->nbytes - TDMI_SIGNATURE_BYTES), (const char *)payload + TDMI_SIGNATURE_BYTES);
    tdmi_agreement_hear(group, &(tdmi_said){rank, payload, label}, frame->number);
}

/* Each is one frame. */
static void hear_notes(tdm_group *group)
{
    uint8_t bytes[TDMI_ENGINE_NOTE];
    for (;;) {
        tdmi_frame frame;
        size_t nbytes;
        int rank;
        tdm_status status = group->engine->ops->hear(group->engine, &rank, bytes, &nbytes);
        if (status != TDM_OK)
            tdmi_group_fail(group, status);
        if (status != TDM_OK || nbytes == 0)
            return;
        if (!tdmi_frame_read(bytes, &frame) || nbytes != TDMI_FRAME_HEAD + frame.nbytes)
            refuse(group, rank, bytes);
        else if (frame.type == TDMI_FRAME_SIGNATURE)
            hear_signature(group, rank, &frame, bytes + TDMI_FRAME_HEAD);
        else if (is_news(&frame))
            handle(group, rank, &frame, bytes + TDMI_FRAME_HEAD);
        else if (frame.type == TDMI_FRAME_DATA || !tdmi_stream_is_ours(&frame))
            refuse(group, rank, bytes);
        else if ((status = tdmi_notes_hear(group, rank, &frame, bytes + TDMI_FRAME_HEAD)) != TDM_OK)
            tdmi_group_fail(group, status);
    }
}

void tdmi_control_hear(tdm_group *group)
{
    if (tdmi_group_meets_alone(group) && group->size > 1)
        hear_notes(group);
    for (int r = 0; group->control != NULL && r < group->size; r++)
        if (group->control[r].fd >= 0)
            hear(group, r);
    if (group->asked > group->announced && group->number >= group->asked)
        tdmi_control_announce(group); /* someone wonders who is there */
}
