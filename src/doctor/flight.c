/* flight.c - dumps of PyTorch's flight recorder: gathered, lined up, a table of where each rank is, and the findings. */
#include "doctor/flight.h"

enum { TABLE_GROUPS = 8, TABLE_RANKS = 32 };

/* The lists of a group's ranks in the dump of its first member; NULL: it is not there. */
static const tdmi_flight_group *ranks_of(const tdmi_flight_job *job, const tdmi_lined_group *group)
{
    const size_t w = (size_t)(group->member->witness - job->witnesses.of);
    for (size_t g = 0; g < job->dump[w].groups; g++)
        if (job->dump[w].group[g].ranks > 0 &&
            tdmi_flight_group_id(job->dump[w].group[g].name, &job->dump[w].group[g]) == group->line->call->group_id)
            return &job->dump[w].group[g];
    return NULL;
}

bool tdmi_flight_has_rank(const tdmi_flight_job *job, const tdmi_lined_group *group, int rank)
{
    if (group->size == job->world)
        return true;
    const tdmi_flight_group *known = group->members > 0 ? ranks_of(job, group) : NULL;
    for (size_t r = 0; known != NULL && r < known->ranks; r++)
        if (known->rank[r] == rank)
            return true;
    return false;
}

static const char *state_of(const tdmi_recorded_call *call)
{
    return call->state == TDMI_CALL_FINISHED  ? (call->finished_ns != 0 ? "completed" : "over")
           : call->state == TDMI_CALL_FAILED  ? "timed out"
           : call->state == TDMI_CALL_STARTED ? "started"
                                              : "scheduled";
}

/* A backend without events cannot tell a call that ended from one that was given up. If a rank of the group never made it, nobody can have
 * finished it. */
static void settle_ended_calls(const tdmi_flight_job *job, const tdmi_lineup *lineup)
{
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        uint64_t least = UINT64_MAX;
        for (size_t m = 0; m < group->members; m++)
            least = group->member[m].last->number < least ? group->member[m].last->number : least;
        if (group->size > 0 && group->members < (size_t)group->size && group->size == job->world &&
            job->witnesses.count == (size_t)job->world)
            least = 0; /* a rank with a dump never entered it */
        for (size_t i = 0; i < group->count; i++) {
            const tdmi_recorded_call *call = group->line[i].call;
            if (call->number > least && call->state == TDMI_CALL_FINISHED && call->finished_ns == 0) {
                tdmi_recording *r = &job->witnesses.of[group->line[i].witness - job->witnesses.of].recording;
                r->call[call - r->call].state = TDMI_CALL_FAILED;
            }
        }
    }
}

/* Ranks stand at different calls, or wait. */
static bool is_of_interest(const tdmi_lined_group *group)
{
    for (size_t m = 0; m < group->members; m++)
        if (tdmi_is_open(group->member[m].last) || group->member[m].last->number != group->member->last->number)
            return true;
    return false;
}

/* Those that are behind come first, and all of a group that is not large. */
static void say_ranks(const tdmi_lined_group *group, tdm_doctor_report *report)
{
    uint64_t most = 0;
    size_t said = 0;
    for (size_t m = 0; m < group->members; m++)
        most = group->member[m].last->number > most ? group->member[m].last->number : most;
    for (int pass = group->members > TABLE_RANKS ? 0 : 1; pass < 2; pass++)
        for (size_t m = 0; m < group->members && said < (pass == 0 ? TABLE_RANKS / 2 : TABLE_RANKS); m++) {
            const tdmi_recorded_call *last = group->member[m].last;
            char what[160], when[32], place[TDMI_LABEL_TEXT_BYTES];
            if (group->members > TABLE_RANKS && (last->number < most) != (pass == 0))
                continue;
            tdmi_call_text(last, what, sizeof what);
            tdmi_time_text(last->created_ns, when);
            tdmi_recorded_label_text(last, place);
            tdmi_report_wrap(report, 4, "  rank %-5d call %-6llu %-9s made %s  %s%s", group->member[m].rank, (unsigned long long)last->number,
                            state_of(last), when, what, place);
            said++;
        }
}

static void say_table(const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    size_t shown = 0;
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        if (!is_of_interest(group))
            continue;
        if (shown++ == TABLE_GROUPS) {
            tdmi_report_say(report, "and more groups in which ranks wait (--json has them)");
            return;
        }
        tdmi_report_wrap(report, 2, "group %s, %zu of %d ranks: where each is", group->name, group->members,
                        group->size > 0 ? group->size : (int)group->members);
        say_ranks(group, report);
        if (group->members > TABLE_RANKS)
            tdmi_report_say(report, "  and %zu more ranks", group->members - TABLE_RANKS);
    }
}

static json_t *summary(const tdmi_flight_job *job, const tdmi_lineup *lineup)
{
    json_t *groups = json_array();
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        json_t *ranks = json_array();
        for (size_t m = 0; m < group->members; m++) {
            const tdmi_recorded_call *last = group->member[m].last;
            json_array_append_new(ranks, json_pack("{s:i, s:I, s:s, s:s, s:s, s:I, s:s}", "rank", group->member[m].rank, "call",
                                                   (json_int_t)last->number, "op", last->op, "dtype", last->dtype, "state", state_of(last),
                                                   "created_ns", (json_int_t)last->created_ns, "at", last->label));
        }
        json_array_append_new(groups, json_pack("{s:s, s:i, s:o}", "name", group->name, "size", group->size, "ranks", ranks));
    }
    return json_pack("{s:I, s:s, s:s, s:O, s:I, s:o}", "dumps", (json_int_t)job->witnesses.count, "version", job->dump[0].version,
                     "library", job->dump[0].library, "unread", job->unread, "sends_left_out", (json_int_t)job->sends_left_out, "groups",
                     groups);
}

static void introduce(const tdmi_flight_job *job, tdm_doctor_report *report)
{
    const tdmi_flight_dump *first = &job->dump[0];
    tdmi_report_wrap(report, 2, "PyTorch's flight recorder (format %s%s%s): dumps of %zu of %d ranks%s%s",
                    first->version[0] != '\0' ? first->version : "1", first->library[0] != '\0' ? ", NCCL " : "", first->library,
                    job->witnesses.count, job->world, job->witnesses.note[0] != '\0' ? "; " : "", job->witnesses.note);
    for (size_t i = 0; i < json_array_size(job->unread); i++)
        tdmi_report_wrap(report, 2, "left out: %s", json_string_value(json_array_get(job->unread, i)));
    if (job->sends_left_out > 0)
        tdmi_report_wrap(report, 2, "%lld sends and receives are not compared: a ring had gone round (TORCH_FR_BUFFER_SIZE)",
                        (long long)job->sends_left_out);
}

tdm_status tdmi_flight_examine(const char *const *paths, int count, tdm_doctor_report *report, json_t **summary_out)
{
    tdmi_flight_job job;
    tdmi_lineup lineup;
    const int before = tdm_doctor_findings(report);
    tdm_status status = tdmi_flight_gather(paths, count, &job);
    if (status != TDM_OK)
        return status;
    status = tdmi_line_up(&job.witnesses, &lineup);
    if (status == TDM_OK) {
        settle_ended_calls(&job, &lineup);
        introduce(&job, report);
        say_table(&lineup, report);
        tdmi_find_mismatched_calls(&lineup, report);
        tdmi_find_missing_calls(&lineup, report);
        tdmi_find_absent_ranks(&job, &lineup, report);
        tdmi_find_unstarted_calls(&lineup, report);
        if (tdm_doctor_findings(report) == before)
            tdmi_find_unfinished_calls(&lineup, report);
        if (tdm_doctor_findings(report) == before)
            tdmi_report_say(report, "nothing is wrong with the calls of these ranks");
        report->ranks = job.world > report->ranks ? job.world : report->ranks;
        *summary_out = summary(&job, &lineup);
        status = *summary_out != NULL ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "the summary of the dumps needs more memory than there is");
        tdmi_lineup_free(&lineup);
    }
    tdmi_flight_job_free(&job);
    return status;
}
