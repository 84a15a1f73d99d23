/* probe.h - timing a link that no call uses yet. Both ends must be at it at the same time. */
#ifndef TDMI_GROUP_PROBE_H
#define TDMI_GROUP_PROBE_H

#include "transport/link.h"

#define TDMI_PROBE_BYTES ((size_t)128 << 10) /* a long message */

/* Sends block [nbytes] and waits for a byte back; the shortest of up to `times`, none begun after until_ns but the first. */
tdm_status tdmi_probe_ping(tdmi_link *link, char *block, size_t nbytes, int times, int64_t until_ns, int64_t deadline_ns, double *best_ns);
/* The other end. */
tdm_status tdmi_probe_answer(tdmi_link *link, char *block, size_t nbytes, int64_t deadline_ns);

#endif
