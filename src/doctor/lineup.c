/* lineup.c - one sort of all calls by group, number and rank; groups and members are cuts of it. */
#include "doctor/lineup.h"

#include "core/clock.h"
#include "core/memory.h"
#include "trace/recorder_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int by_place(const void *a, const void *b)
{
    const tdmi_line *x = a, *y = b;
    if (x->call->group_id != y->call->group_id)
        return x->call->group_id < y->call->group_id ? -1 : 1;
    if (x->call->number != y->call->number)
        return x->call->number < y->call->number ? -1 : 1;
    if (x->call->group_rank != y->call->group_rank)
        return x->call->group_rank < y->call->group_rank ? -1 : 1;
    return (x->witness > y->witness) - (x->witness < y->witness);
}

static int by_rank(const void *a, const void *b)
{
    const tdmi_member *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_age(const void *a, const void *b)
{
    const tdmi_lined_group *x = a, *y = b;
    const int64_t x_ns = x->line->call->created_ns, y_ns = y->line->call->created_ns;
    return (x_ns > y_ns) - (x_ns < y_ns);
}

/* The group that begins at `lines`; gives how many are its own. Members go to group->member. */
static size_t cut_group(tdmi_line *lines, size_t count, tdmi_lined_group *group)
{
    const uint64_t id = lines->call->group_id;
    group->line = lines;
    group->name = lines->call->group;
    for (group->count = 0; group->count < count && lines[group->count].call->group_id == id; group->count++) {
        const tdmi_line *line = &lines[group->count];
        size_t m = 0;
        while (m < group->members && group->member[m].witness != line->witness)
            m++;
        if (m == group->members)
            group->member[group->members++] = (tdmi_member){.witness = line->witness};
        group->member[m].rank = line->call->group_rank;
        group->member[m].last = line->call; /* they come by number */
        if (line->call->group_size > group->size) {
            group->size = line->call->group_size;
            group->name = line->call->group;
        }
    }
    qsort(group->member, group->members, sizeof *group->member, by_rank);
    return group->count;
}

tdm_status tdmi_line_up(const tdmi_witnesses *witnesses, tdmi_lineup *out)
{
    size_t count = 0, groups = 0;
    tdmi_lineup up = {.witnesses = witnesses};
    for (size_t w = 0; w < witnesses->count; w++)
        count += witnesses->of[w].recording.count;
    up.line = tdmi_calloc(count + 1, sizeof *up.line, "doctor");
    if (up.line == NULL)
        return TDM_ERR_NO_MEMORY;
    count = 0;
    for (size_t w = 0; w < witnesses->count; w++)
        for (size_t i = 0; i < witnesses->of[w].recording.count; i++)
            up.line[count++] = (tdmi_line){.call = &witnesses->of[w].recording.call[i], .witness = &witnesses->of[w]};
    qsort(up.line, count, sizeof *up.line, by_place);
    for (size_t i = 0; i < count; i++)
        groups += i == 0 || up.line[i].call->group_id != up.line[i - 1].call->group_id;
    up.group = tdmi_calloc(groups + 1, sizeof *up.group, "doctor");
    up.member = tdmi_calloc(groups * witnesses->count + 1, sizeof *up.member, "doctor");
    if (up.group == NULL || up.member == NULL) {
        tdmi_lineup_free(&up);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t at = 0; at < count; up.groups++) {
        up.group[up.groups].member = up.member + up.groups * witnesses->count;
        at += cut_group(up.line + at, count - at, &up.group[up.groups]);
    }
    qsort(up.group, up.groups, sizeof *up.group, by_age);
    *out = up;
    return TDM_OK;
}

void tdmi_lineup_free(tdmi_lineup *lineup)
{
    tdmi_free(lineup->line);
    tdmi_free(lineup->group);
    tdmi_free(lineup->member);
    *lineup = (tdmi_lineup){0};
}

size_t tdmi_lines_of_call(const tdmi_lined_group *group, size_t at)
{
    size_t count = 1;
    while (at + count < group->count && group->line[at + count].call->number == group->line[at].call->number)
        count++;
    return count;
}

bool tdmi_is_open(const tdmi_recorded_call *call)
{
    return call->state != TDMI_CALL_FINISHED;
}

bool tdmi_is_same_call(const tdmi_recorded_call *a, const tdmi_recorded_call *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->dtype, b->dtype) == 0 && strcmp(a->reduction, b->reduction) == 0 &&
           a->fused == b->fused && a->uneven == b->uneven && a->root == b->root && (a->uneven || a->count == b->count);
}

void tdmi_call_text(const tdmi_recorded_call *call, char *text, size_t nbytes)
{
    char root[24] = "", reduction[24] = "";
    if (call->root >= 0)
        snprintf(root, sizeof root, ", root %d", call->root);
    if (call->reduction[0] != '\0')
        snprintf(reduction, sizeof reduction, " (%s)", call->reduction);
    if (strcmp(call->op, "barrier") == 0 || (call->dtype[0] == '\0' && call->count == 0))
        snprintf(text, nbytes, "%s", call->op);
    else
        snprintf(text, nbytes, "%s%s of %llu %s%s%s", call->op, call->uneven ? "v" : "", (unsigned long long)call->count, call->dtype,
                 reduction, root);
}

void tdmi_time_text(int64_t ns, char text[32])
{
    const time_t seconds = (time_t)(ns / TDMI_NS_PER_S);
    struct tm parts;
    if (ns <= 0 || gmtime_r(&seconds, &parts) == NULL)
        snprintf(text, 32, "?");
    else
        snprintf(text, 32, "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec, (int)(ns % TDMI_NS_PER_S / TDMI_NS_PER_MS));
}

bool tdmi_is_dead(const tdmi_witness *witness)
{
    char boot[sizeof witness->recording.boot];
    tdmi_boot_id(boot, sizeof boot);
    return witness->is_ring && strcmp(boot, witness->recording.boot) == 0 &&
           tdmi_process_birth(witness->recording.pid) != witness->recording.birth;
}
