/* missing_call.c - ranks that never made a call in which others wait: the first such call of each group. */
#include "doctor/report.h"

#include <stdio.h>

#define RANKS_ALONE 8 /* findings of their own a group */

/* The last call that the rank waits in, of any group; NULL: none. */
static const tdmi_recorded_call *waits_in(const tdmi_witness *witness)
{
    const tdmi_recording *r = &witness->recording;
    for (size_t i = r->count; i-- > 0;)
        if (tdmi_is_open(&r->call[i]))
            return &r->call[i];
    return NULL;
}

/* What the missing rank did instead. */
static void explain(const tdmi_member *member, const tdmi_lined_group *group, char *text, size_t nbytes)
{
    char last[384], elsewhere[512] = "";
    const tdmi_recorded_call *open = waits_in(member->witness);
    tdmi_last_call_text(member->last, last, sizeof last);
    if (open != NULL && open->group_id != group->line->call->group_id) {
        char call[384];
        tdmi_last_call_text(open, call, sizeof call);
        snprintf(elsewhere, sizeof elsewhere, "; it waits in group %.40s, %s", open->group, call);
    }
    snprintf(text, nbytes, "its last call was %s%s%s", last, elsewhere,
             tdmi_is_dead(member->witness)         ? "; its process is gone"
             : member->witness->recording.failed && open == NULL ? "; it had failed before"
                                                   : "");
}

static void add(const tdmi_lined_group *group, const tdmi_line *line, size_t count, const tdmi_member *missing, tdm_doctor_report *report)
{
    char what[128], label[TDMI_LABEL_TEXT_BYTES], since[32], ranks[TDMI_RANKS_TEXT_BYTES], why[1024], text[2048];
    size_t waiting = 0;
    int64_t first_ns = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (!tdmi_is_open(line[i].call))
            continue;
        json_array_append_new(list, json_integer(line[i].call->group_rank));
        if (first_ns == 0 || line[i].call->created_ns < first_ns)
            first_ns = line[i].call->created_ns;
        waiting++;
    }
    tdmi_ranks_text(list, ranks);
    tdmi_call_text(line->call, what, sizeof what);
    tdmi_recorded_label_text(line->call, label);
    tdmi_time_text(first_ns, since);
    explain(missing, group, why, sizeof why);
    snprintf(text, sizeof text, "rank %d never made call %llu of group %s (%s%s), in which rank%s %s wait%s since %s; %s", missing->rank,
             (unsigned long long)line->call->number, group->name, what, label, waiting == 1 ? "" : "s", ranks, waiting == 1 ? "s" : "", since, why);
    json_t *evidence = json_pack("{s:s, s:i, s:o, s:o, s:I, s:o}", "group", group->name, "group_rank", missing->rank, "missed",
                                 tdmi_call_json(line->call), "waiting", list, "since_ns", (json_int_t)first_ns, "last",
                                 tdmi_call_json(missing->last));
    tdmi_report_add(report, "missing_call", TDMI_ERROR, missing->witness->recording.rank, evidence,
                    "Look at what this rank does behind its last call: a branch the others do not take, an error it swallowed, data it waits for",
                    text);
}

/* Ranks that left no recording, as those who waited for them saw it. */
static void add_unrecorded(const tdmi_lined_group *group, const tdmi_line *line, size_t count, tdm_doctor_report *report)
{
    uint64_t arrived = 0;
    bool looked = false;
    for (size_t i = 0; i < count; i++) {
        looked |= line[i].call->missing > 0;
        arrived |= line[i].call->arrived;
    }
    for (int r = 0; looked && r < group->size && r < 64; r++) {
        char what[128], text[512];
        size_t m = 0;
        while (m < group->members && group->member[m].rank != r)
            m++;
        if (m < group->members || (arrived >> r & 1) != 0)
            continue;
        tdmi_call_text(line->call, what, sizeof what);
        snprintf(text, sizeof text, "rank %d did not arrive at call %llu of group %s (%s); there is no recording of it", r,
                 (unsigned long long)line->call->number, group->name, what);
        tdmi_report_add(report, "missing_call", TDMI_ERROR, -1,
                        json_pack("{s:s, s:i, s:o}", "group", group->name, "group_rank", r, "missed", tdmi_call_json(line->call)),
                        "Add the recording from its host; a rank that ended well leaves none, and has then left too early", text);
    }
}

/* Where many ranks are missing, those behind the first few in one finding. */
static void add_others(const tdmi_lined_group *group, const tdmi_line *line, json_t *ranks, tdm_doctor_report *report)
{
    char what[128], list[TDMI_RANKS_TEXT_BYTES], text[1024];
    tdmi_call_text(line->call, what, sizeof what);
    tdmi_ranks_text(ranks, list);
    snprintf(text, sizeof text, "%zu more ranks never made call %llu of group %s (%s): %s", json_array_size(ranks), (unsigned long long)line->call->number,
             group->name, what, list);
    tdmi_report_add(report, "missing_call", TDMI_ERROR, -1,
                    json_pack("{s:s, s:o, s:o}", "group", group->name, "group_ranks", ranks, "missed", tdmi_call_json(line->call)),
                    "Look at the one whose last call is the oldest first", text);
}

static void add_all(const tdmi_lined_group *group, const tdmi_line *line, size_t count, tdm_doctor_report *report)
{
    json_t *others = json_array();
    size_t missing = 0;
    for (size_t m = 0; m < group->members; m++) {
        if (group->member[m].last->number >= line->call->number)
            continue;
        if (missing++ < RANKS_ALONE)
            add(group, line, count, &group->member[m], report);
        else
            json_array_append_new(others, json_integer(group->member[m].rank));
    }
    if (json_array_size(others) > 0)
        add_others(group, line, others, report);
    else
        json_decref(others);
}

void tdmi_find_missing_calls(const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        for (size_t at = 0, count; at < group->count; at += count) {
            const tdmi_line *line = group->line + at;
            bool open = false;
            count = tdmi_lines_of_call(group, at);
            for (size_t i = 0; i < count; i++)
                open |= tdmi_is_open(line[i].call);
            if (!open)
                continue;
            add_all(group, line, count, report);
            add_unrecorded(group, line, count, report);
            break; /* what comes behind it follows from it */
        }
    }
}
