/* absent_rank.c - a group in which ranks wait, and a rank of it that never made a call there, or of which there is no dump. */
#include "doctor/flight.h"

#include <stdio.h>

#define GROUPS_LOOKED_AT 4096

static bool is_member(const tdmi_lined_group *group, int rank)
{
    for (size_t m = 0; m < group->members; m++)
        if (group->member[m].rank == rank)
            return true;
    return false;
}

static const tdmi_witness *witness_of(const tdmi_flight_job *job, int rank)
{
    for (size_t w = 0; w < job->witnesses.count; w++)
        if (job->witnesses.of[w].recording.rank == rank)
            return &job->witnesses.of[w];
    return NULL;
}

/* The first call of the group in which somebody waits; NULL: none. */
static const tdmi_line *first_open(const tdmi_lined_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (tdmi_is_open(group->line[i].call))
            return &group->line[i];
    return NULL;
}

static void add_never_entered(const tdmi_lined_group *group, const tdmi_line *open, const tdmi_witness *witness, tdm_doctor_report *report)
{
    char what[160], since[32], last[384] = "it made no call at all", place[TDMI_LABEL_TEXT_BYTES], text[1536];
    const tdmi_recording *r = &witness->recording;
    tdmi_call_text(open->call, what, sizeof what);
    tdmi_time_text(open->call->created_ns, since);
    tdmi_recorded_label_text(open->call, place);
    if (r->count > 0) {
        char call[320];
        tdmi_last_call_text(&r->call[r->count - 1], call, sizeof call);
        snprintf(last, sizeof last, "its last call was in group %.60s, %s", r->call[r->count - 1].group, call);
    }
    snprintf(text, sizeof text, "rank %d never entered group %s, in which rank %d waits in call %llu (%s%s) since %s; %s", r->rank,
             group->name, open->call->group_rank, (unsigned long long)open->call->number, what, place, since, last);
    tdmi_report_add(report, "missing_call", TDMI_ERROR, r->rank,
                    json_pack("{s:s, s:i, s:o, s:o}", "group", group->name, "group_rank", r->rank, "missed", tdmi_call_json(open->call),
                              "last", r->count > 0 ? tdmi_call_json(&r->call[r->count - 1]) : json_null()),
                    "Look at what this rank does instead: a branch that the others do not take, an error it swallowed, data it waits for",
                    text);
}

/* Ranks without a dump, all in one finding of the group. */
static void add_without_dump(const tdmi_lined_group *group, const tdmi_line *open, const int *ranks, size_t count, size_t all,
                             tdm_doctor_report *report)
{
    char what[160], since[32], list[TDMI_RANKS_TEXT_BYTES], text[1024];
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(ranks[i]));
    tdmi_ranks_text(array, list);
    tdmi_call_text(open->call, what, sizeof what);
    tdmi_time_text(open->call->created_ns, since);
    snprintf(text, sizeof text, "there is no dump of rank%s %s%s of group %s, in which rank %d waits in call %llu (%s) since %s",
             all == 1 ? "" : "s", list, all > count ? " and others" : "", group->name, open->call->group_rank,
             (unsigned long long)open->call->number, what, since);
    tdmi_report_add(report, "missing_dump", TDMI_WARNING, all == 1 ? ranks[0] : -1,
                    json_pack("{s:s, s:o, s:I, s:o}", "group", group->name, "ranks", array, "count", (json_int_t)all, "waiting",
                              tdmi_call_json(open->call)),
                    "Add its dump; a rank that was killed, or whose watchdog could not write, leaves none: then it is the first to look at "
                    "(its log, dmesg)",
                    text);
}

void tdmi_find_absent_ranks(const tdmi_flight_job *job, const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    for (size_t g = 0; g < lineup->groups && g < GROUPS_LOOKED_AT; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        const tdmi_line *open = first_open(group);
        int without[16];
        size_t shown = 0, all = 0;
        for (int rank = 0; open != NULL && rank < job->world; rank++) {
            if (!tdmi_flight_has_rank(job, group, rank) || is_member(group, rank))
                continue;
            const tdmi_witness *witness = witness_of(job, rank);
            if (witness != NULL)
                add_never_entered(group, open, witness, report);
            else {
                if (shown < sizeof without / sizeof *without)
                    without[shown++] = rank;
                all++;
            }
        }
        if (all > 0)
            add_without_dump(group, open, without, shown, all, report);
    }
}
