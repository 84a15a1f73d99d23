/* mismatched_call.c - ranks that made different calls under one number: the first such call of each group. The side with fewer
 * ranks, or at a tie the one without the lowest rank, is said to differ. */
#include "doctor/report.h"

#include <stdio.h>

/* Those of `line` that make the same call as line[which]. */
static size_t count_same(const tdmi_line *line, size_t count, size_t which)
{
    size_t same = 0;
    for (size_t i = 0; i < count; i++)
        same += tdmi_is_same_call(line[i].call, line[which].call);
    return same;
}

static json_t *list_ranks(const tdmi_line *line, size_t count, const tdmi_recorded_call *like, char text[TDMI_RANKS_TEXT_BYTES])
{
    json_t *ranks = json_array();
    for (size_t i = 0; i < count; i++)
        if (tdmi_is_same_call(line[i].call, like))
            json_array_append_new(ranks, json_integer(line[i].call->group_rank));
    tdmi_ranks_text(ranks, text);
    return ranks;
}

static void add(const tdmi_lined_group *group, const tdmi_line *line, size_t count, size_t usual, size_t other, tdm_doctor_report *report)
{
    char a[128], b[128], ranks_a[TDMI_RANKS_TEXT_BYTES], ranks_b[TDMI_RANKS_TEXT_BYTES], label_a[TDMI_LABEL_TEXT_BYTES], label_b[TDMI_LABEL_TEXT_BYTES], text[1536];
    tdmi_call_text(line[usual].call, a, sizeof a);
    tdmi_call_text(line[other].call, b, sizeof b);
    tdmi_recorded_label_text(line[usual].call, label_a);
    tdmi_recorded_label_text(line[other].call, label_b);
    json_t *list_a = list_ranks(line, count, line[usual].call, ranks_a), *list_b = list_ranks(line, count, line[other].call, ranks_b);
    const bool one_a = json_array_size(list_a) == 1, one_b = json_array_size(list_b) == 1;
    snprintf(text, sizeof text, "call %llu of group %s: rank%s %s made %s%s, but rank%s %s made %s%s", (unsigned long long)line->call->number,
             group->name, one_a ? "" : "s", ranks_a, a, label_a, one_b ? "" : "s", ranks_b, b, label_b);
    json_t *evidence = json_pack("{s:s, s:I, s:[{s:o, s:o}, {s:o, s:o}]}", "group", group->name, "call", (json_int_t)line->call->number,
                                 "sides", "ranks", list_a, "made", tdmi_call_json(line[usual].call), "ranks", list_b, "made",
                                 tdmi_call_json(line[other].call));
    tdmi_report_add(report, "mismatched_call", TDMI_ERROR, line[other].witness->recording.rank, evidence,
                    "All ranks must make the same calls in the same order: look for a branch that depends on the rank or on its data", text);
}

void tdmi_find_mismatched_calls(const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        bool found = false;
        for (size_t at = 0, count; at < group->count && !found; at += count) {
            const tdmi_line *line = group->line + at;
            count = tdmi_lines_of_call(group, at);
            size_t usual = 0, other = 0;
            if (count_same(line, count, 0) == count) /* nearly always: comparing each with each takes the square of the ranks */
                continue;
            for (size_t i = 1; i < count; i++)
                if (count_same(line, count, i) > count_same(line, count, usual))
                    usual = i;
            while (other < count && tdmi_is_same_call(line[other].call, line[usual].call))
                other++;
            found = other < count;
            if (found)
                add(group, line, count, usual, other, report);
        }
    }
}
