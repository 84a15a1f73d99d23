/* sends.h (internal) - how much of a call's data goes from this rank to others. */
#ifndef TDMI_GROUP_SENDS_H
#define TDMI_GROUP_SENDS_H

#include <tandem/collective.h>

/* Bytes of data that this rank gives to others in a call that was started and not waited for yet, by the least that any algorithm
 * sends evenly: an allreduce of D bytes over n ranks 2 (n-1)/n D, whatever the transport. 0 for messages, barriers, calls made as
 * one, and NULL. */
size_t tdmi_work_sends(const tdm_work *work);

#endif
