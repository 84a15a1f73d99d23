/* fuzz_message_stream.c - any bytes, from a peer on another node, over the stream of messages, while messages both ways are under
 * way: no byte is written outside a buffer, whatever is announced. */
#include "core/memory.h"
#include "group/group.h"
#include "memory_link.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SENDS = 3, RECEIVES = 3, WORKS = SENDS + RECEIVES, COUNT = 2000 };

static tdm_status swallow(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    (void)base;
    *moved = 0;
    for (int i = 0; i < count; i++)
        *moved += parts[i].iov_len;
    return TDM_OK;
}

static const tdmi_link_ops ops = {.name = "memory", .send = swallow, .receive = memory_link_receive, .fd = memory_link_fd,
                                  .close = memory_link_close};

static void talk(const uint8_t *data, size_t size, size_t most)
{
    memory_link link = {.base.ops = &ops, .data = data, .size = size, .most = most};
    bool is_local[2] = {true, false};
    tdmi_world world = {.kick = -1};
    const tdmi_label no_label = {0};
    tdm_group *group = calloc(1, sizeof *group);
    tdm_work *works = calloc(WORKS, sizeof *works);
    float *buffers = calloc(WORKS * COUNT, sizeof *buffers);
    if (group == NULL || works == NULL || buffers == NULL)
        abort();
    group->world = &world;
    group->size = 2;
    group->team.label = &no_label;
    group->is_local = is_local;
    group->messages.link = tdmi_calloc(2, sizeof *group->messages.link, "fuzz");
    group->messages.link[1] = &link.base;
    for (int i = 0; i < WORKS; i++) {
        tdm_work *work = &works[i];
        work->group = group;
        work->is_message = true;
        work->timeout_s = 1;
        work->deadline_ns = INT64_MAX;
        work->message = (tdmi_message){.work = work, .receives = i >= SENDS, .data = (char *)(buffers + i * COUNT),
                                       .state = i >= SENDS ? TDMI_MESSAGE_WAITING : TDMI_MESSAGE_QUEUED,
                                       .nbytes = (i % 2 == 0 ? COUNT : 10) * sizeof(float), .dtype = TDM_F32,
                                       .peer = i == WORKS - 1 ? TDM_ANY_SOURCE : 1, .tag = i == WORKS - 1 ? TDM_ANY_TAG : i % 2};
        if (tdmi_messages_prepare(group, &work->message) != TDM_OK || tdmi_messages_begin(group, &work->message) != TDM_OK)
            abort();
    }
    tdm_status status = TDM_OK;
    for (bool moved = true; moved && status == TDM_OK;) {
        moved = false;
        status = tdmi_messages_advance(group, &moved);
    }
    if (status != TDM_OK && *tdm_error_text() == '\0')
        abort();
    tdmi_messages_free(group);
    free(buffers);
    free(works);
    free(group);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    talk(data, size, size + 1);
    talk(data, size, 5);
    return 0;
}
