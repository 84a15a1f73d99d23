/* unfinished_call.c - calls at which all ranks arrived, with the same call, and which some did not finish. */
#include "doctor/report.h"

#include <stdio.h>

static void add(const tdmi_lined_group *group, const tdmi_line *line, size_t count, size_t open, tdm_doctor_report *report)
{
    char what[128], label[TDMI_LABEL_TEXT_BYTES], ranks[TDMI_RANKS_TEXT_BYTES], text[1024];
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (tdmi_is_open(line[i].call))
            json_array_append_new(list, json_integer(line[i].call->group_rank));
    tdmi_ranks_text(list, ranks);
    tdmi_call_text(line->call, what, sizeof what);
    tdmi_recorded_label_text(line->call, label);
    snprintf(text, sizeof text, "all ranks made call %llu of group %s (%s%s), but rank%s %s did not finish it", (unsigned long long)line->call->number,
             group->name, what, label, open == 1 ? "" : "s", ranks);
    tdmi_report_add(report, "unfinished_call", TDMI_WARNING, -1,
                    json_pack("{s:s, s:o, s:o}", "group", group->name, "made", tdmi_call_json(line->call), "unfinished", list),
                    "If no rank died, it was under way when the job ended, or the network between these ranks is slow or broken", text);
}

void tdmi_find_unfinished_calls(const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        bool found = false;
        for (size_t at = 0, count; at < group->count && !found; at += count) {
            const tdmi_line *line = group->line + at;
            size_t open = 0, same = 0;
            count = tdmi_lines_of_call(group, at);
            for (size_t i = 0; i < count; i++) {
                open += tdmi_is_open(line[i].call);
                same += tdmi_is_same_call(line[i].call, line->call);
            }
            found = open > 0; /* only the first */
            if (found && same == count && count == (size_t)group->size)
                add(group, line, count, open, report);
        }
    }
}
