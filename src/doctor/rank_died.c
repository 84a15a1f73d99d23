/* rank_died.c - rings whose process is gone: it was killed, crashed, or ended without destroying its groups. One
 * whose group had failed before has said why. */
#include "doctor/report.h"

#include <stdio.h>

void tdmi_find_dead_ranks(const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    for (size_t w = 0; w < lineup->witnesses->count; w++) {
        const tdmi_witness *witness = &lineup->witnesses->of[w];
        const tdmi_recording *r = &witness->recording;
        char last[384] = "", text[1024];
        if (!tdmi_is_dead(witness) || r->failed)
            continue;
        if (r->count > 0)
            tdmi_last_call_text(&r->call[r->count - 1], last, sizeof last);
        snprintf(text, sizeof text, "rank %d (process %d on %s) is gone and did not leave its groups; %s%s%s%s", r->rank, r->pid, r->host,
                 r->count > 0 ? "its last call was in group " : "it made no call", r->count > 0 ? r->call[r->count - 1].group : "",
                 r->count > 0 ? ", " : "", last);
        tdmi_report_add(report, "rank_died", TDMI_ERROR, r->rank,
                        json_pack("{s:i, s:s, s:o}", "pid", r->pid, "host", r->host, "last",
                                  r->count > 0 ? tdmi_call_json(&r->call[r->count - 1]) : json_null()),
                        "Read its log and the kernel's (dmesg): a signal, an exception, or the end of memory. Ranks that a launcher ended because "
                        "another one failed look like this too",
                        text);
    }
}
