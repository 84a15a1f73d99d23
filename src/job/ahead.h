/* ahead.h - iterations as the device goes through them, where the host is so far ahead that its own say nothing about the device. */
#ifndef TDMI_JOB_AHEAD_H
#define TDMI_JOB_AHEAD_H

#include "job/job.h"

/* Fills out[rank->iterations]: each begins with the first that it launched on the stream that computes, and ends where the next begins; the
 * last ends with the last that it launched there. False: some iteration launched nothing there, or out of its turn. */
bool tdmi_iterations_on_device(const tdmi_rank *rank, tdmi_iteration *out);
/* Whether these begin, on average, more than an iteration later than the host's. */
bool tdmi_host_is_ahead(const tdmi_rank *rank, const tdmi_iteration *on_device);

#endif
