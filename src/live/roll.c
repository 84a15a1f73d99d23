/* roll.c - the job's processes, by the tree of processes or by what their environments say. */
#include "live/roll.h"

#include "core/memory.h"
#include "launch/process.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4096 /* on this machine */

static bool matches(const tdmi_target *target, const tdmi_who *who)
{
    return strcmp(who->job, target->job) == 0 && (target->master[0] == '\0' || strcmp(who->master, target->master) == 0);
}

bool tdmi_target_has(const tdmi_target *target, const pid_t *pids, int count, int *rank_out)
{
    tdmi_who who;
    bool has = false;
    for (int i = 0; i < count && target->root != 0; i++)
        has |= pids[i] == target->root;
    if ((target->root != 0 && !has) || tdmi_who_read(pids[0], &who) != TDM_OK || (target->root == 0 && !matches(target, &who)))
        return false;
    *rank_out = who.rank;
    return true;
}

typedef struct search {
    const tdmi_target *target; /* NULL: all that have a RANK */
    tdmi_roll *roll;
    size_t capacity;
    tdm_status status;
} search;

static void add(search *s, pid_t pid)
{
    tdmi_roll *roll = s->roll;
    if (s->status != TDM_OK)
        return;
    tdmi_who *of = tdmi_with_room(roll->of, roll->count, &s->capacity, sizeof *of, "processes of a live job");
    if (of == NULL) {
        s->status = TDM_ERR_NO_MEMORY;
        return;
    }
    roll->of = of;
    tdmi_who *who = &roll->of[roll->count];
    const tdm_status status = tdmi_who_read(pid, who);
    if (status == TDM_ERR_NO_MEMORY)
        s->status = status;
    else if (status == TDM_OK && (s->target == NULL ? who->rank >= 0 : s->target->root != 0 || matches(s->target, who)))
        roll->count++;
}

static void visit(const tdmi_process *process, void *arg)
{
    add(arg, process->pid);
}

tdm_status tdmi_roll_call(const tdmi_target *target, tdmi_roll *out)
{
    search s = {.target = target, .roll = out, .status = TDM_OK};
    *out = (tdmi_roll){0};
    if (target == NULL || target->root == 0) {
        tdmi_process_each(visit, &s);
    } else {
        tdmi_process *below;
        size_t count;
        s.status = tdmi_process_descendants(target->root, 0, &below, &count);
        if (s.status == TDM_OK) {
            add(&s, target->root);
            for (size_t i = 0; i < count; i++)
                add(&s, below[i].pid);
            tdmi_free(below);
        }
    }
    if (s.status != TDM_OK)
        tdmi_roll_free(out);
    return s.status;
}

void tdmi_roll_free(tdmi_roll *roll)
{
    tdmi_free(roll->of);
    *roll = (tdmi_roll){0};
}

int tdmi_roll_expected(const tdmi_roll *roll)
{
    int ranks[RANKS_MAX], count = 0, expected = 0;
    for (size_t i = 0; i < roll->count; i++) {
        const tdmi_who *who = &roll->of[i];
        int at = 0;
        while (at < count && ranks[at] != who->rank)
            at++;
        if (who->rank >= 0 && at == count && count < RANKS_MAX)
            ranks[count++] = who->rank;
        if (who->rank >= 0 && who->local_size > expected && who->local_size <= RANKS_MAX)
            expected = who->local_size;
    }
    return count > expected ? count : expected;
}

/* The jobs that are there, for people: "a, b". */
static void list_jobs(char *text, size_t nbytes)
{
    tdmi_roll all;
    snprintf(text, nbytes, "none");
    if (tdmi_roll_call(NULL, &all) != TDM_OK)
        return;
    size_t used = 0;
    for (size_t i = 0; i < all.count; i++) {
        bool seen = all.of[i].job[0] == '\0';
        for (size_t k = 0; k < i; k++)
            seen |= strcmp(all.of[k].job, all.of[i].job) == 0;
        if (!seen && used + strlen(all.of[i].job) + 3 < nbytes)
            used += (size_t)snprintf(text + used, nbytes - used, "%s%s", used > 0 ? ", " : "", all.of[i].job);
    }
    tdmi_roll_free(&all);
}

/* Two jobs in one roll would be traced as one. */
static tdm_status check_one_job(const char *name, const tdmi_roll *roll)
{
    const tdmi_who *first = NULL;
    for (size_t i = 0; i < roll->count; i++) {
        const tdmi_who *who = &roll->of[i];
        if (who->rank >= 0 && first == NULL)
            first = who;
        if (who->rank >= 0 && strcmp(who->master, first->master) != 0)
            return tdmi_fail(TDM_ERR_INVALID, "--attach %s: that is several jobs; process %d is of one and process %d of another: attach to one of these",
                             name, (int)first->pid, (int)who->pid);
    }
    return TDM_OK;
}

static tdm_status find_job(const char *name, tdmi_target *out, tdmi_roll *roll)
{
    if (strlen(name) >= sizeof out->job)
        return tdmi_fail(TDM_ERR_INVALID, "--attach: a job's name has at most %zu bytes", sizeof out->job - 1);
    snprintf(out->job, sizeof out->job, "%s", name);
    const tdm_status status = tdmi_roll_call(out, roll);
    if (status != TDM_OK || roll->count > 0)
        return status;
    char jobs[400];
    list_jobs(jobs, sizeof jobs);
    return tdmi_fail(TDM_ERR_INVALID, "--attach %s: no process here has this number, and none is of a job with this name (jobs with a name here: %s)",
                     name, jobs);
}

static tdm_status find_process(pid_t pid, tdmi_target *out, tdmi_roll *roll)
{
    tdmi_who who;
    const tdm_status status = tdmi_who_read(pid, &who);
    if (status != TDM_OK)
        return status;
    if (who.rank >= 0 && strcmp(who.master, ":") != 0) { /* its job */
        memcpy(out->job, who.job, sizeof out->job);
        memcpy(out->master, who.master, sizeof out->master);
    } else {
        out->root = pid;
    }
    return tdmi_roll_call(out, roll);
}

static tdm_status check_listens(const char *name, const tdmi_roll *roll)
{
    const tdmi_who *deaf = NULL;
    for (size_t i = 0; i < roll->count; i++) {
        const tdmi_who *who = &roll->of[i];
        if (!who->listens) {
            deaf = deaf == NULL || who->rank >= 0 ? who : deaf;
            continue;
        }
        static const char *const spaces[] = {"mnt", "pid", "net"};
        for (int s = 0; s < 3; s++)
            if (!tdmi_who_shares(who->pid, spaces[s]))
                return tdmi_fail(TDM_ERR_INVALID, "process %d lives in another container (its %s namespace is not this one): run tandem doctor in there",
                                 (int)who->pid, spaces[s]);
        return TDM_OK;
    }
    char what[64] = "";
    if (deaf != NULL && deaf->rank >= 0)
        snprintf(what, sizeof what, "rank %d, ", deaf->rank);
    return tdmi_fail(TDM_ERR_INVALID, "--attach %s: the job was started without KINETO_USE_DAEMON=1 (%sprocess %d does not have it), so its PyTorch "
                     "listens to nobody, and that cannot be changed now; start it as `KINETO_USE_DAEMON=1 torchrun ...`, or as `tandem doctor -- torchrun ...`",
                     name, what, deaf != NULL ? (int)deaf->pid : 0);
}

tdm_status tdmi_target_find(const char *text, tdmi_target *out, tdmi_roll *roll_out)
{
    *out = (tdmi_target){0};
    char *end;
    const long pid = strtol(text, &end, 10);
    const bool is_process = isdigit((unsigned char)*text) && *end == '\0' && pid > 0 && pid <= INT32_MAX && tdmi_who_state((pid_t)pid) != 'X';
    tdm_status status = is_process ? find_process((pid_t)pid, out, roll_out) : find_job(text, out, roll_out);
    if (status == TDM_OK)
        status = check_one_job(text, roll_out);
    if (status == TDM_OK)
        status = check_listens(text, roll_out);
    if (status != TDM_OK)
        tdmi_roll_free(roll_out);
    return status;
}
