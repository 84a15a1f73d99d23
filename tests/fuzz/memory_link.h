/* memory_link.h - a link that gives the fuzzer's bytes, a few at a time, then is gone. Each target has its own send. */
#ifndef TESTS_FUZZ_MEMORY_LINK_H
#define TESTS_FUZZ_MEMORY_LINK_H

#include "transport/link.h"

#include <string.h>

typedef struct memory_link {
    tdmi_link base;
    const uint8_t *data;
    size_t size, at, most;
} memory_link;

static inline tdm_status memory_link_receive(tdmi_link *base, const struct iovec *parts, int count, size_t *moved)
{
    memory_link *link = (memory_link *)base;
    size_t left = link->size - link->at < link->most ? link->size - link->at : link->most;
    *moved = 0;
    if (left == 0)
        return TDM_ERR_PEER_LOST;
    for (int i = 0; i < count && left > 0; i++) {
        const size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (part > 0)
            memcpy(parts[i].iov_base, link->data + link->at, part);
        link->at += part, left -= part, *moved += part;
    }
    return TDM_OK;
}

static inline int memory_link_fd(const tdmi_link *base, int index)
{
    (void)base, (void)index;
    return -1;
}

static inline void memory_link_close(tdmi_link *base)
{
    (void)base;
}

#endif
