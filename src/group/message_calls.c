/* message_calls.c - the public calls. */
#include "group/group.h"

#include "core/memory.h"

static tdm_status check(const tdm_group *group, const char *what, const void *data, size_t count, tdm_dtype dtype, int peer, int tag,
                        bool any)
{
    if (group == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "%s: the group is NULL", what);
    if ((unsigned)dtype >= TDM_DTYPE_COUNT)
        return tdmi_fail(TDM_ERR_INVALID, "%s: %d is no dtype", what, (int)dtype);
    if (data == NULL && count > 0)
        return tdmi_fail(TDM_ERR_INVALID, "%s: a buffer of %zu elements is NULL", what, count);
    if (count > SIZE_MAX / 2 / tdm_dtype_size(dtype))
        return tdmi_fail(TDM_ERR_INVALID, "%s: %zu elements are more than an address space holds", what, count);
    if (!(any && peer == TDM_ANY_SOURCE) && (peer < 0 || peer >= group->size))
        return tdmi_fail(TDM_ERR_INVALID, "%s: there is no rank %d; the group has ranks 0 to %d", what, peer, group->size - 1);
    if (!(any && tag == TDM_ANY_TAG) && tag < 0)
        return tdmi_fail(TDM_ERR_INVALID, "%s: tag %d is negative", what, tag);
    return TDM_OK;
}

tdm_status tdm_send(tdm_group *group, const void *data, size_t count, tdm_dtype dtype, int to, int tag, tdm_work **work)
{
    tdm_status status = check(group, "send", data, count, dtype, to, tag, false);
    if (status != TDM_OK)
        return status;
    const tdmi_message message = {.data = (char *)(uintptr_t)data, .nbytes = count * tdm_dtype_size(dtype), .dtype = dtype, .peer = to,
                                  .tag = tag};
    return tdmi_group_message(group, &message, work);
}

tdm_status tdm_recv(tdm_group *group, void *data, size_t count, tdm_dtype dtype, int from, int tag, tdm_message *message_out,
                    tdm_work **work)
{
    tdm_status status = check(group, "recv", data, count, dtype, from, tag, true);
    if (status != TDM_OK)
        return status;
    const tdmi_message message = {.receives = true, .state = TDMI_MESSAGE_WAITING, .data = data,
                                  .nbytes = count * tdm_dtype_size(dtype), .dtype = dtype, .peer = from, .tag = tag,
                                  .what_came = message_out};
    return tdmi_group_message(group, &message, work);
}
