/* fuzz_kineto_message.c - any bytes at the daemon's socket: refused, or read into a sound poll. */
#include "live/message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_poll poll;
    if (tdmi_message_read(data, size, &poll) != TDMI_MESSAGE_POLL)
        return 0;
    if (poll.count < 1 || poll.count > TDMI_POLL_PIDS)
        abort();
    for (int i = 0; i < poll.count; i++)
        if (poll.pids[i] < 1)
            abort();
    return 0;
}
