/* crew.c - who of a job's processes is looked at, and how long the others are waited for. */
#include "live/crew.h"

#include "core/clock.h"

#define STARTED_PATIENCE_S 60.0 /* for further ranks, once one has asked: imports from a slow disk */
#define JOINED_PATIENCE_S 15.0  /* they run already: three polls */
#define SETTLE_NS (5 * TDMI_NS_PER_S) /* without RANK anywhere: no new process for so long, and all are there */
#define LATE_NS (3 * TDMI_NS_PER_S)   /* after the first rank */
#define LATE_NAMED 8
#define NEW_NS (TDMI_NS_PER_S / 2)    /* with it: those that begin at once have begun by then */
#define LOOK_AROUND_NS TDMI_NS_PER_S

static double patience_of(const tdm_live *live)
{
    const double most = live->job.pid != 0 ? STARTED_PATIENCE_S : JOINED_PATIENCE_S;
    return most < live->options.timeout_s ? most : live->options.timeout_s;
}

void tdmi_crew_seat(tdmi_crew *c, const tdm_live *live)
{
    tdmi_client *clients[TDMI_SEATS_MAX];
    const tdmi_clients *all = &live->daemon.clients;
    const int64_t now_ns = tdmi_now_ns();
    const size_t ranks = tdmi_clients_ranks(all, clients, TDMI_SEATS_MAX);
    c->has_ranks = ranks > 0;
    c->count = 0;
    for (size_t i = 0; i < (c->has_ranks ? ranks : all->count) && c->count < TDMI_SEATS_MAX; i++) {
        const tdmi_client *client = c->has_ranks ? clients[i] : &all->of[i];
        if (tdmi_client_is_prompt(client, live->period_ns, now_ns)) {
            c->seats[c->count] = (tdmi_seat){.rank = c->has_ranks ? client->rank : (int)c->count, .pid = client->last.pids[0]};
            c->count++;
        }
    }
}

static bool is_seated(const tdmi_crew *c, int rank)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->seats[i].rank == rank)
            return true;
    return false;
}

/* A stopped rank is an end: the others wait for it. */
static tdm_status check_none_is_stopped(const tdm_live *live, const tdmi_crew *c)
{
    for (size_t i = 0; i < live->roll.count; i++) {
        const tdmi_who *who = &live->roll.of[i];
        if (who->rank >= 0 && !is_seated(c, who->rank) && (who->state == 'T' || who->state == 't'))
            return tdmi_fail(TDM_ERR_PEER_LOST, "rank %d (process %d) is stopped: it answers nobody, and the others come to no next step; kill -CONT %d lets it go on",
                             who->rank, (int)who->pid, (int)who->pid);
    }
    return TDM_OK;
}

static void name_missing(const tdm_live *live, const tdmi_crew *c)
{
    for (size_t i = 0; i < live->roll.count; i++) {
        const tdmi_who *who = &live->roll.of[i];
        if (who->rank < 0 || is_seated(c, who->rank))
            continue;
        const tdmi_client *client = tdmi_clients_find(&live->daemon.clients, who->pid);
        if (client != NULL)
            tdmi_live_say(live, "rank %d (process %d) does not answer: it last asked %.0f s ago; going on without it", who->rank, (int)who->pid,
                          (double)(tdmi_now_ns() - client->last_ns) / 1e9);
        else
            tdmi_live_say(live, "rank %d (process %d) never answered%s; going on without it", who->rank, (int)who->pid,
                          who->listens ? ": it has not imported torch yet" : ": KINETO_USE_DAEMON is not in its environment");
    }
    const int expected = tdmi_roll_expected(&live->roll);
    if (c->has_ranks && (int)c->count < expected)
        tdmi_live_say(live, "%zu of %d ranks of this machine are looked at", c->count, expected);
}

/* Says once whom it is waiting for. */
static void name_late(const tdm_live *live, const tdmi_crew *c)
{
    int said = 0;
    for (size_t i = 0; i < live->roll.count && said < LATE_NAMED; i++)
        if (live->roll.of[i].rank >= 0 && !is_seated(c, live->roll.of[i].rank)) {
            tdmi_live_say(live, "rank %d (process %d) is late: it has not asked yet", live->roll.of[i].rank, (int)live->roll.of[i].pid);
            said++;
        }
}

/* The time is over. */
static tdm_status make_do(const tdm_live *live, const tdmi_crew *c, double waited_s)
{
    const tdm_status status = check_none_is_stopped(live, c);
    if (status != TDM_OK)
        return status;
    if (c->has_ranks) {
        name_missing(live, c);
        return TDM_OK;
    }
    const bool polled = live->daemon.clients.count > 0;
    return tdmi_fail(TDM_ERR_TIMEOUT, "no rank has asked for anything in %.0f s%s: the job has to import torch, with KINETO_USE_DAEMON in its "
                     "environment", waited_s, polled ? ", only processes that are no ranks" : "");
}

tdm_status tdmi_crew_muster(tdmi_crew *c, tdm_live *live)
{
    const int64_t begin_ns = tdmi_now_ns();
    int64_t first_ns = live->job.pid != 0 ? 0 : begin_ns, looked_ns = 0;
    for (bool told = false, named = false;;) {
        tdm_status status = tdmi_live_goes_on(live);
        const int64_t now_ns = tdmi_now_ns();
        if (status == TDM_OK && now_ns - looked_ns > LOOK_AROUND_NS) {
            status = tdmi_live_look_around(live);
            looked_ns = now_ns;
        }
        if (status != TDM_OK)
            return status;
        tdmi_crew_seat(c, live);
        const int expected = tdmi_roll_expected(&live->roll);
        const tdmi_clients *all = &live->daemon.clients;
        const int64_t quiet_ns = all->count > 0 ? now_ns - all->of[all->count - 1].first_ns : 0;
        if (c->has_ranks && expected > 0 && (int)c->count >= expected && quiet_ns > NEW_NS && looked_ns > now_ns - quiet_ns)
            return TDM_OK;
        if (expected == 0 && c->count > 0 && quiet_ns > SETTLE_NS)
            return TDM_OK;
        if (c->has_ranks && first_ns == 0)
            first_ns = now_ns;
        if (expected > 0 && !told) {
            tdmi_live_say(live, "waiting for all %d ranks of this machine", expected);
            told = true;
        }
        if (c->has_ranks && !named && now_ns - first_ns > LATE_NS) {
            name_late(live, c);
            named = true;
        }
        const bool over = now_ns - begin_ns > (int64_t)(live->options.timeout_s * 1e9);
        if (over || (first_ns != 0 && now_ns - first_ns > (int64_t)(patience_of(live) * 1e9)))
            return make_do(live, c, (double)(now_ns - begin_ns) / 1e9);
        tdmi_live_turn(live, 200);
    }
}

int tdmi_world_size(const tdm_live *live)
{
    int size = -1;
    for (size_t i = 0; i < live->roll.count; i++)
        size = live->roll.of[i].rank >= 0 && live->roll.of[i].size > size ? live->roll.of[i].size : size;
    return size;
}

void tdmi_crew_introduce(const tdmi_crew *c, const tdm_live *live)
{
    if (tdmi_world_size(live) > tdmi_roll_expected(&live->roll))
        tdmi_live_say(live, "looking at the %zu ranks of this machine; the job has %d", c->count, tdmi_world_size(live));
}
