/* line.h - one line of a log cut into what NCCL wrote: none, one record, or several that were written over each other. */
#ifndef TDMI_NCCL_LOG_LINE_H
#define TDMI_NCCL_LOG_LINE_H

#include "nccl_log/match.h"

/* "host:pid:tid [dev] NCCL INFO text", "host:pid:tid [dev] file:line NCCL WARN text". */
typedef struct tdmi_nccl_record {
    tdmi_span host;   /* empty: a version line without a head */
    int64_t pid, tid, device;
    int64_t rank;     /* of a launcher's prefix, "[rank3]:" or "3: "; -1 none */
    int64_t time_s;   /* of the day and date as written, no zone; -1 none */
    bool warning;
    tdmi_span source; /* "transport/net_ib.cc:1234" of a warning, or empty */
    tdmi_span text;
} tdmi_nccl_record;

/* Whether a name is a host's that is known already. */
typedef struct tdmi_nccl_known_hosts {
    bool (*has)(const void *arg, tdmi_span name);
    const void *arg;
} tdmi_nccl_known_hosts;

/* The record that begins at or behind *at, which moves behind it; false where there is none. A second record of a line may follow the
 * first without a space, "...GDRDMAnode2:1:2 [0] NCCL INFO": there the end of the name that is a known host's counts. */
bool tdmi_nccl_next_record(tdmi_span line, size_t *at, const tdmi_nccl_known_hosts *known, tdmi_nccl_record *out);
/* What a launcher and a clock wrote before everything else on the line. */
int64_t tdmi_nccl_prefix_rank(tdmi_span line);
int64_t tdmi_nccl_prefix_time(tdmi_span line);

#endif
