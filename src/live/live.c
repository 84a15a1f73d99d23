/* live.c - from the start of a command, or the joining of a job, to its end. collect.c does what is in between.
 *
 * One thread. Signals come on a descriptor, polls on the daemon's; both are waited for in tdmi_live_turn. */
#include "live/live.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/printable.h"
#include "launch/process.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STARTED_PERIOD_NS TDMI_NS_PER_S        /* what started.c asks for */
#define DEFAULT_PERIOD_NS (5 * TDMI_NS_PER_S)  /* of libkineto */
#define STOP_GRACE_S 10.0                      /* from SIGTERM to SIGKILL, for a job that is to be stopped */
#define LEFT_GRACE_S 10.0                      /* for what an ended command left running: Python's trackers of semaphores take 5 s */
#define UNDER_WAY_S 10.0                       /* for traces that were asked for when the end was asked for */

void tdm_live_options_init(tdm_live_options *options)
{
    *options = (tdm_live_options){.iterations = 4, .timeout_s = 300};
}

void tdmi_live_say(const tdm_live *live, const char *format, ...)
{
    char text[TDMI_ERROR_TEXT_MAX];
    if (live->options.say == NULL)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tdmi_printable(text, false);
    live->options.say(text, live->options.arg);
}

static void on_signal(tdm_live *live, const struct signalfd_siginfo *info)
{
    const int number = (int)info->ssi_signo;
    if (number == SIGCHLD)
        return; /* every turn reaps */
    tdmi_started_signal(&live->job, number);
    if (number != SIGUSR1 && number != SIGUSR2)
        live->interrupted = number;
}

void tdmi_live_turn(tdm_live *live, int timeout_ms)
{
    struct pollfd items[] = {{.fd = live->daemon.fd, .events = POLLIN}, {.fd = live->signals.fd, .events = POLLIN}};
    if (poll(items, 2, timeout_ms) > 0 && items[1].revents != 0) {
        struct signalfd_siginfo info;
        while (read(live->signals.fd, &info, sizeof info) == (ssize_t)sizeof info)
            on_signal(live, &info);
    }
    tdmi_daemon_serve(&live->daemon);
    tdmi_started_reap(&live->job);
}

tdm_status tdmi_live_goes_on(const tdm_live *live)
{
    if (live->interrupted != 0)
        return tdmi_fail(TDM_ERR_INTERRUPTED, "SIG%s ended the looking before there were traces", sigabbrev_np(live->interrupted));
    if (live->job.pid != 0 && live->job.ended && live->under_way)
        return tdmi_fail(TDM_ERR_PEER_LOST, "the job ended (exit code %d) while it was asked for a trace%s", tdmi_process_exit_code(live->job.status),
                         live->job.status == 0 ? "" : ": a process that ends while it is traced may die of SIGSEGV, which is PyTorch's doing, not the job's");
    if (live->job.pid != 0 && live->job.ended)
        return tdmi_fail(TDM_ERR_PEER_LOST, "the job ended (exit code %d) before it could be asked for a trace: it must train for ten seconds or so",
                         tdmi_process_exit_code(live->job.status));
    for (size_t i = 0; i < live->roll.count && live->job.pid == 0; i++)
        if (tdmi_who_lives(live->roll.of[i].pid))
            return TDM_OK;
    return live->job.pid != 0 ? TDM_OK : tdmi_fail(TDM_ERR_PEER_LOST, "the job has ended%s", live->under_way ? " while it was asked for a trace" : "");
}

tdm_status tdmi_live_pause(tdm_live *live, int64_t pause_ns)
{
    const int64_t deadline_ns = tdmi_now_ns() + pause_ns;
    tdm_status status;
    for (int64_t left_ns; (status = tdmi_live_goes_on(live)) == TDM_OK && (left_ns = deadline_ns - tdmi_now_ns()) > 0;)
        tdmi_live_turn(live, left_ns < 200 * TDMI_NS_PER_MS ? (int)(left_ns / TDMI_NS_PER_MS) + 1 : 200);
    return status;
}

tdm_status tdmi_live_look_around(tdm_live *live)
{
    tdmi_roll roll;
    const tdm_status status = tdmi_roll_call(&live->target, &roll);
    if (status != TDM_OK)
        return status;
    tdmi_roll_free(&live->roll);
    live->roll = roll;
    tdmi_clients_forget(&live->daemon.clients, tdmi_who_lives);
    return TDM_OK;
}

/* In the private folder nobody asks but the job. */
static bool belongs(const tdmi_poll *poll, int *rank_out, void *arg)
{
    const tdm_live *live = arg;
    tdmi_who who;
    if (live->job.pid == 0)
        return tdmi_target_has(&live->target, poll->pids, poll->count, rank_out);
    *rank_out = tdmi_who_read(poll->pids[0], &who) == TDM_OK ? who.rank : -1;
    return true;
}

static tdm_status join(tdm_live *live)
{
    tdm_status status = tdmi_target_find(live->options.attach, &live->target, &live->roll);
    const tdmi_who *one = NULL;
    for (size_t i = 0; i < live->roll.count && status == TDM_OK; i++)
        if (live->roll.of[i].listens && (one == NULL || live->roll.of[i].rank >= 0))
            one = &live->roll.of[i];
    live->period_ns = DEFAULT_PERIOD_NS;
    if (status == TDM_OK && geteuid() == 0 && one->owner != 0)
        status = tdmi_folder_give(&live->folder, one->owner);
    if (status == TDM_OK)
        status = tdmi_daemon_open(one->socket_folder, &live->daemon);
    return status;
}

static tdm_status start(tdm_live *live)
{
    tdm_status status = tdmi_daemon_open(live->folder.path, &live->daemon);
    live->period_ns = STARTED_PERIOD_NS;
    if (status == TDM_OK)
        status = tdmi_started_begin(&(tdmi_start){.argv = live->options.argv, .folder = &live->folder, .mask = &live->signals.outer_mask,
                                                  .output = live->options.output_to_errors ? STDERR_FILENO : -1,
                                                  .ignore_hangup = live->signals.ignores_hangup}, &live->job);
    live->target.root = live->job.pid;
    return status;
}

tdm_status tdm_live_begin(const tdm_live_options *options, tdm_live **out)
{
    if ((options->argv == NULL) == (options->attach == NULL) || options->iterations < 1 || options->iterations > 1000 || !(options->timeout_s > 0))
        return tdmi_fail(TDM_ERR_INVALID, "a live job needs either a command or a job to attach to, 1 to 1000 iterations and a time to wait");
    tdm_live *live = tdmi_calloc(1, sizeof *live, "live job");
    if (live == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_process_occupy_standard();
    *live = (tdm_live){.options = *options, .daemon.fd = -1, .folder.lock = -1, .signals.fd = -1};
    tdm_status status = tdmi_signals_take(&live->signals);
    if (status == TDM_OK)
        status = tdmi_folder_make(&live->folder);
    if (status == TDM_OK)
        status = options->argv != NULL ? start(live) : join(live);
    if (status != TDM_OK) {
        char text[TDMI_ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s", tdm_error_text());
        int exit_code;
        tdm_live_end(live, &exit_code);
        tdmi_error_set_text(text);
        return status;
    }
    live->daemon.belongs = belongs;
    live->daemon.arg = live;
    *out = live;
    return TDM_OK;
}

/* Ranks of a joined job that were asked would write into a folder that is no more. */
static void await_traces_under_way(tdm_live *live)
{
    const int64_t deadline_ns = tdmi_deadline_in(UNDER_WAY_S);
    const int first = live->interrupted;
    live->interrupted = 0;
    if (first != 0 && live->under_way)
        tdmi_live_say(live, "waiting for the traces that were asked for; once more ends at once");
    for (bool busy = live->under_way; busy && live->interrupted == 0 && !tdmi_deadline_passed(deadline_ns);) {
        tdmi_live_turn(live, 100);
        busy = false;
        for (size_t i = 0; i < live->daemon.clients.count; i++) {
            const tdmi_client *client = &live->daemon.clients.of[i];
            busy |= client->taken_ns != 0 && tdmi_who_lives(client->last.pids[0]) && (!client->last.idle || client->last_ns == client->taken_ns);
        }
    }
    live->interrupted = live->interrupted != 0 ? live->interrupted : first;
}

/* Until the command has ended, by itself or, with `stop`, by us. */
static int await_end(tdm_live *live)
{
    const bool stop = live->options.stop && !live->job.ended && live->interrupted == 0;
    if (stop) {
        tdmi_live_say(live, "ending the job");
        tdmi_started_signal(&live->job, SIGTERM);
    }
    const int64_t deadline_ns = tdmi_deadline_in(stop ? STOP_GRACE_S : 1e9);
    while (!live->job.ended && !tdmi_deadline_passed(deadline_ns))
        tdmi_live_turn(live, 200);
    tdmi_started_end(&live->job, live->job.ended ? LEFT_GRACE_S : 0);
    return stop ? 0 : tdmi_process_exit_code(live->job.status);
}

void tdm_live_end(tdm_live *live, int *exit_code)
{
    *exit_code = 0;
    if (live == NULL)
        return;
    if (live->job.pid != 0)
        *exit_code = await_end(live);
    else if (live->daemon.fd >= 0)
        await_traces_under_way(live);
    if (*exit_code == 0 && live->interrupted != 0)
        *exit_code = 128 + live->interrupted;
    tdmi_daemon_close(&live->daemon);
    tdmi_folder_remove(&live->folder);
    tdmi_roll_free(&live->roll);
    for (int i = 0; i < live->path_count; i++)
        tdmi_free(live->paths[i]);
    tdmi_free(live->paths);
    tdmi_signals_give_back(&live->signals);
    tdmi_free(live);
}
