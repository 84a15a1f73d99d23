/* link.h - a byte stream between two ranks that never blocks. Implementations: shm/ring.c, tcp/tcp.c, ucx/link.c.
 * A transport moves bytes and knows nothing of calls; framing is channel.c's. */
#ifndef TDMI_TRANSPORT_LINK_H
#define TDMI_TRANSPORT_LINK_H

#include "core/error.h"

#include <sys/uio.h>

typedef struct tdmi_link tdmi_link;

typedef struct tdmi_link_ops {
    const char *name;
    /* Take what there is room for, give what there is, of `count` parts; *moved may be 0. TDM_ERR_PEER_LOST: the other end is
     * gone, and everything it had sent has been given. */
    tdm_status (*send)(tdmi_link *link, const struct iovec *parts, int count, size_t *moved);
    tdm_status (*receive)(tdmi_link *link, const struct iovec *parts, int count, size_t *moved);
    /* NULL: what send takes leaves by itself. Else only while this rank calls; *flushed: all of it has left. */
    tdm_status (*flush)(tdmi_link *link, bool *flushed);
    /* To sleep on, edge-triggered: the descriptors with index 0, 1, ... until -1. Without any the peer rings this rank's bell, or
     * the links have one in common. */
    int (*fd)(const tdmi_link *link, int index);
    void (*close)(tdmi_link *link);
} tdmi_link_ops;

struct tdmi_link {
    const tdmi_link_ops *ops;
};

#endif
