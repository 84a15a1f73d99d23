/* collect.c - tdm_live_collect: who is there; do they train, and how long is a step; all ranks at the same steps; their files.
 *
 *   muster   until every rank of this machine asks
 *   learn    one rank traces two steps. The protocol does not carry its count of steps; the trace says how long a step takes, or that there
 *            are no optimizer's steps to count
 *   trace    all ranks begin at the next multiple of a number of steps that lasts longer than their requests are apart, or, without
 *            steps, at one time. Ranks that rounded up to different multiples are asked again */
#include "core/clock.h"
#include "core/memory.h"
#include "live/ask.h"
#include "live/crew.h"
#include "live/glance.h"
#include "live/trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define LEARN_ITERATIONS 2
#define LEARN_MS 100
#define WORK_WITHOUT_STEPS 3   /* looks that saw operators and no step: then there are none to count */
#define TRACE_MS 500           /* without steps */
#define TRACE_BYTES ((size_t)200 << 20) /* that a rank's trace should not be larger than */
#define TRACE_PATIENCE_S 30.0
#define TRIES 4                  /* the last one by time */
#define JITTER_S 0.1             /* of polls, on a machine that has other work */
#define WIDER 3                  /* each further try */
#define TOGETHER_SHARE 0.3       /* steps are shorter when they are not traced, by up to a factor of two */
#define END_NS (3 * TDMI_NS_PER_S)

typedef struct pace {
    double step_s;       /* 0: no steps to count */
    double step_bytes;   /* of a trace */
    double second_bytes; /* the same where there are no steps */
} pace;

/* Without RANK: of the processes that were asked, those that make steps, or else those that work, are the ranks. */
static void keep_workers(tdmi_crew *c, const tdmi_glance *glances, bool steps)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->seats[i].missing[0] == '\0' && (steps ? glances[i].steps > 0 : glances[i].operators > 0)) {
            c->seats[kept] = c->seats[i];
            c->seats[kept].rank = (int)kept;
            kept++;
        }
    c->count = kept;
}

/* The best of what was seen: the seat with the most steps, else with the most operators; NULL: nothing was. */
static const tdmi_glance *look_at(const tdmi_crew *c, size_t asked, tdmi_glance *glances)
{
    const tdmi_glance *best = NULL;
    for (size_t i = 0; i < asked; i++) {
        glances[i] = (tdmi_glance){0};
        if (c->seats[i].missing[0] != '\0' || tdmi_glance_at(c->seats[i].file, &glances[i]) != TDM_OK)
            continue;
        remove(c->seats[i].file);
        if (best == NULL || glances[i].steps > best->steps || (glances[i].steps == best->steps && glances[i].operators > best->operators))
            best = &glances[i];
    }
    return best;
}

static double seconds_of(const tdmi_glance *glance)
{
    return (double)(glance->end_ns - glance->begin_ns) / 1e9;
}

/* Short looks at one rank, less and less often, until it trains. */
static tdm_status learn(tdm_live *live, tdmi_crew *c, tdmi_glance *glances, pace *out)
{
    const tdmi_request request = {.iterations = LEARN_ITERATIONS, .multiple = 1, .duration_ms = LEARN_MS};
    const int64_t deadline_ns = tdmi_deadline_in(live->options.timeout_s);
    int working = 0;
    for (int look = 0;; look++) {
        tdmi_crew_seat(c, live);
        const size_t asked = c->has_ranks && c->count > 1 ? 1 : c->count;
        char name[32];
        snprintf(name, sizeof name, "look%d-%%d", look);
        tdm_status status = asked > 0 ? tdmi_ask(live, c->seats, asked, request, name, live->options.timeout_s) : TDM_OK;
        if (status != TDM_OK)
            return status;
        const tdmi_glance *best = look_at(c, asked, glances);
        if (best != NULL && best->steps > 0) {
            const double seconds = seconds_of(best);
            *out = (pace){.step_s = best->step_s > 0 ? best->step_s : seconds, .step_bytes = (double)best->nbytes / best->steps};
            if (!c->has_ranks)
                keep_workers(c, glances, true);
            return TDM_OK;
        }
        working += best != NULL && best->operators > 0;
        if (working == WORK_WITHOUT_STEPS && best->operators > 0) {
            *out = (pace){.second_bytes = seconds_of(best) > 0 ? (double)best->nbytes / seconds_of(best) : 0};
            if (!c->has_ranks)
                keep_workers(c, glances, false);
            return TDM_OK;
        }
        if (tdmi_deadline_passed(deadline_ns))
            return tdmi_fail(TDM_ERR_TIMEOUT, "rank %d does not train: %.0f s of looks saw no operator of PyTorch in it%s%s", c->count > 0 ? c->seats[0].rank : 0,
                             live->options.timeout_s, c->count > 0 && c->seats[0].missing[0] != '\0' ? "; " : "", c->count > 0 ? c->seats[0].missing : "");
        if (look == 0)
            tdmi_live_say(live, "waiting for the first step");
        status = tdmi_live_pause(live, (look < 3 ? (int64_t)1 << look : 8) * TDMI_NS_PER_S);
        if (status == TDM_OK)
            status = tdmi_live_look_around(live);
        if (status != TDM_OK)
            return status;
    }
}

/* How many steps fit into a trace of bearable size. */
static int bearable(const tdm_live *live, const pace *p)
{
    const double fit = p->step_bytes > 0 ? (double)TRACE_BYTES / p->step_bytes : 1e9;
    if (fit >= live->options.iterations)
        return live->options.iterations;
    tdmi_live_say(live, "a step makes %.0f MB of trace: %d of them are traced instead of %d", p->step_bytes / 1e6, fit >= 1 ? (int)fit : 1,
                  live->options.iterations);
    return fit >= 1 ? (int)fit : 1;
}

/* Ranks that were traced at the same steps begin together: what else they could have begun at is a multiple of steps away. apart_s: so long
 * do these last, or the trace where a time was asked for. */
static bool met(const tdmi_crew *c, tdmi_glance *glances, double apart_s)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    for (size_t i = 0; i < c->count; i++) {
        if (c->seats[i].missing[0] != '\0' || tdmi_glance_at(c->seats[i].file, &glances[i]) != TDM_OK || glances[i].operators == 0)
            continue;
        first_ns = glances[i].begin_ns < first_ns ? glances[i].begin_ns : first_ns;
        last_ns = glances[i].begin_ns > last_ns ? glances[i].begin_ns : last_ns;
    }
    return last_ns <= first_ns || (double)(last_ns - first_ns) / 1e9 < TOGETHER_SHARE * apart_s;
}

static tdm_status ask_by_steps(tdm_live *live, tdmi_crew *c, const pace *p, int iterations, int wide, double *apart_s_out)
{
    const tdmi_turn turn = tdmi_turn_of(live, c->seats, c->count);
    const double spread_s = c->count > 1 ? wide * ((double)turn.spread_ns / 1e9 + JITTER_S) : 0;
    const tdmi_request request = {
        .iterations = iterations, .multiple = tdmi_request_multiple(p->step_s, spread_s), .duration_ms = LEARN_MS,
        .shapes = live->options.shapes, .stacks = live->options.stacks,
    };
    const double expected_s = (request.multiple + 2 * iterations + 1) * p->step_s;
    *apart_s_out = request.multiple * p->step_s;
    tdmi_live_say(live, "asking %zu rank%s for %d steps of about %.0f ms, within %.0f s", c->count, c->count > 1 ? "s" : "", iterations, p->step_s * 1e3,
                  expected_s + 2 * (double)turn.period_ns / 1e9 + 1);
    return tdmi_ask(live, c->seats, c->count, request, "rank%d", TRACE_PATIENCE_S + 3 * expected_s);
}

static tdm_status ask_by_time(tdm_live *live, tdmi_crew *c, const pace *p, double *apart_s_out)
{
    const double steps_ms = p->step_s * 1e3 * (live->options.iterations + 2), wanted_ms = steps_ms > TRACE_MS ? steps_ms : TRACE_MS;
    const double rate = p->step_s > 0 ? p->step_bytes / p->step_s : p->second_bytes;
    const double fit_ms = rate > 0 ? 1e3 * (double)TRACE_BYTES / rate : wanted_ms;
    const tdmi_turn turn = tdmi_turn_of(live, c->seats, c->count);
    const double begin_s = 2 * (double)turn.period_ns / 1e9 + 2; /* all have been asked by then, and their ticks of a second have passed */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const tdmi_request request = {
        .start_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / TDMI_NS_PER_MS + (int64_t)(begin_s * 1e3),
        .duration_ms = (int)(fit_ms < wanted_ms ? fit_ms : wanted_ms) + 1, .shapes = live->options.shapes, .stacks = live->options.stacks,
    };
    *apart_s_out = request.duration_ms / 1e3;
    tdmi_live_say(live, "%sasking %zu rank%s for %d ms, in %.0f s", p->step_s > 0 ? "" : "no steps of an optimizer of torch.optim to count: ", c->count,
                  c->count > 1 ? "s" : "", request.duration_ms, begin_s);
    return tdmi_ask(live, c->seats, c->count, request, "rank%d", TRACE_PATIENCE_S + begin_s);
}

/* A job whose ranks go is near its end, and a process that ends while it is traced dies of it. */
static tdm_status check_all_are_there(const tdm_live *live, const tdmi_crew *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const tdmi_client *client = tdmi_clients_find(&live->daemon.clients, c->seats[i].pid);
        if (client == NULL || !tdmi_who_lives(c->seats[i].pid))
            return tdmi_fail(TDM_ERR_PEER_LOST, "rank %d (process %d) has ended: the job is near its end, and is not traced", c->seats[i].rank,
                             (int)c->seats[i].pid);
    }
    return TDM_OK;
}

static void remove_files(tdmi_crew *c)
{
    for (size_t i = 0; i < c->count; i++)
        remove(c->seats[i].file);
}

static tdm_status trace(tdm_live *live, tdmi_crew *c, const pace *p, tdmi_glance *glances)
{
    const int iterations = p->step_s > 0 ? bearable(live, p) : 0;
    for (int attempt = 0, wide = 1; attempt < TRIES; attempt++, wide *= WIDER) {
        const bool by_steps = p->step_s > 0 && attempt < TRIES - 1;
        double apart_s = 0;
        tdm_status status = check_all_are_there(live, c);
        if (status == TDM_OK)
            status = by_steps ? ask_by_steps(live, c, p, iterations, wide, &apart_s) : ask_by_time(live, c, p, &apart_s);
        if (status != TDM_OK)
            return status;
        if (met(c, glances, apart_s))
            return TDM_OK;
        if (attempt < TRIES - 1) {
            tdmi_live_say(live, "the ranks were traced at different steps; asking again");
            remove_files(c);
        }
    }
    return tdmi_fail(TDM_ERR_TIMEOUT, "the ranks could not be traced at the same time in %d tries", TRIES);
}

/* Gives the files their names, and says who has none. */
static tdm_status take_files(tdm_live *live, tdmi_crew *c)
{
    const char *keep = live->options.keep;
    if (keep != NULL && mkdir(keep, 0777) != 0 && errno != EEXIST)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make the folder %s for the traces", keep);
    live->paths = tdmi_calloc(c->count, sizeof *live->paths, "live job");
    if (live->paths == NULL)
        return TDM_ERR_NO_MEMORY;
    const char *why = "";
    for (size_t i = 0; i < c->count; i++) {
        char path[4096];
        if (c->seats[i].missing[0] != '\0') {
            tdmi_live_say(live, "rank %d left no trace: %s", c->seats[i].rank, c->seats[i].missing);
            why = c->seats[i].missing;
            continue;
        }
        snprintf(path, sizeof path, "%s/rank%d" TDMI_REQUEST_ENDING, keep != NULL ? keep : live->folder.traces, c->seats[i].rank);
        const tdm_status status = tdmi_trace_file_move(c->seats[i].file, path, c->has_ranks ? c->seats[i].rank : -1, tdmi_world_size(live));
        if (status != TDM_OK)
            return status;
        if ((live->paths[live->path_count] = tdmi_strdup(path, "live job")) == NULL)
            return TDM_ERR_NO_MEMORY;
        live->path_count++;
    }
    if (live->path_count > 0)
        return TDM_OK;
    const tdm_status status = tdmi_live_pause(live, END_NS); /* where ranks have ended, the job's end says more */
    return status != TDM_OK ? status : tdmi_fail(TDM_ERR_TIMEOUT, "no rank left a trace; the last one: %s", why);
}

tdm_status tdm_live_collect(tdm_live *live, const char *const **paths_out, int *count_out)
{
    tdmi_crew c = {.seats = tdmi_calloc(TDMI_SEATS_MAX, sizeof *c.seats, "live job")};
    tdmi_glance *glances = tdmi_calloc(TDMI_SEATS_MAX, sizeof *glances, "live job");
    pace p = {0};
    tdm_status status = c.seats != NULL && glances != NULL ? tdmi_crew_muster(&c, live) : TDM_ERR_NO_MEMORY;
    if (status == TDM_OK) {
        tdmi_crew_introduce(&c, live);
        status = learn(live, &c, glances, &p);
    }
    if (status == TDM_OK)
        status = trace(live, &c, &p, glances);
    if (status == TDM_OK)
        status = take_files(live, &c);
    tdmi_free(c.seats);
    tdmi_free(glances);
    if (status != TDM_OK)
        return status;
    *paths_out = (const char *const *)live->paths;
    *count_out = live->path_count;
    return TDM_OK;
}
