/* message.h - messages between two ranks of a group.
 *
 *   - A send meets the first receive, in the order they were posted, that fits its sender and tag. Messages of one sender that
 *     fit the same receive arrive in the order they were sent.
 *   - A message of at most 4 KiB is on its way when tdm_send returns, whether or not the receive is posted; a longer one waits
 *     for its receive, and from tdm_alloc memory to a rank of the same node it is copied once.
 *   - Messages and collectives of a group do not see each other and may be under way at once.
 *   - `work` NULL: the call blocks. Otherwise tdm_work_wait consumes the handle; buffers are borrowed until then.
 *   - Errors  TDM_ERR_INVALID an argument | TDM_ERR_MISMATCH the message has another dtype or more elements than the receive
 *     takes | TDM_ERR_TIMEOUT | TDM_ERR_PEER_LOST the other rank is gone. After the last three the group is dead.
 *   - Thread  as in collective.h.   Since 0.1 */
#ifndef TANDEM_MESSAGE_H
#define TANDEM_MESSAGE_H

#include <tandem/group.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_ANY_SOURCE (-1)
#define TDM_ANY_TAG (-1)

typedef struct tdm_message {
    int from, tag;
    size_t count; /* elements that came */
} tdm_message;

/* tdm_send - data [count] to rank `to` of the group (its own rank too). tag: 0 or more.   Source  MPI_Isend, torch.distributed.send */
TDM_API TDM_MUST_CHECK tdm_status tdm_send(tdm_group *group, const void *data, size_t count, tdm_dtype dtype, int to, int tag,
                                           tdm_work **work);
/* tdm_recv - a message of at most `count` elements.
 *   from     a rank of the group or TDM_ANY_SOURCE;  tag  0 or more, or TDM_ANY_TAG
 *   message  says what came; may be NULL. Written before the work is done, so it must live as long
 *   Source   MPI_Irecv, torch.distributed.recv */
TDM_API TDM_MUST_CHECK tdm_status tdm_recv(tdm_group *group, void *data, size_t count, tdm_dtype dtype, int from, int tag,
                                           tdm_message *message, tdm_work **work);

#ifdef __cplusplus
}
#endif
#endif
