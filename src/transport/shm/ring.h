/* ring.h - a link through shared memory: one ring a direction, in the receiver's arena. */
#ifndef TDMI_TRANSPORT_SHM_RING_H
#define TDMI_TRANSPORT_SHM_RING_H

#include "transport/link.h"
#include "transport/shm/node.h"

#define TDMI_RING_DATA ((size_t)256 << 10)         /* bytes in flight; a power of two */
#define TDMI_RING_BYTES (TDMI_RING_DATA + 256)     /* of address space, aligned to 128 */

/* An empty ring in reserved address space. By its owner, before the peer hears of it. */
void tdmi_ring_clear(void *space);
/* A link to world rank `peer`. own_ring lies in this rank's arena: what it receives. peer_ring lies in the peer's: what it
 * sends; its memory comes with the first send. */
tdm_status tdmi_ring_link_create(tdmi_node *node, int peer, void *own_ring, void *peer_ring, tdmi_link **out);

#endif
