/* supervise.c - a started job, until nothing of it is left.
 *
 * One thread, one poll loop: signals arrive on a descriptor, as do the ranks' output and the news from other nodes (nodes.c has
 * threads of its own). The job goes through
 *
 *   RUNNING --a rank failed, a signal, another node--> ENDING --grace over, second signal--> KILLING
 *      \-----all ranks ended well: TERM to what they left behind-->-^
 *
 * and is over when this process has no children left. It is a subreaper: whatever the ranks started, also in sessions of their
 * own, becomes its child when its parent ends, so "no children" means that nothing is left. */
#include "launch/job.h"

#include "core/clock.h"
#include "core/memory.h"
#include "launch/process.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_PEER_LOST 4          /* what a rank of ours ends with when it has lost another one */
#define SETTLE_MS 100             /* after such an end, how long a failure that caused it may take to show */
#define NODES_SETTLE_MS 500       /* the same where the news may have to come from another node */
#define LEFTOVER_GRACE_S 1.0      /* for what well-ended ranks left running */
#define KILL_AGAIN_MS 20
#define KILL_GIVE_UP_S 10.0       /* the kernel can hold a process in a broken file system for ever */
#define FLUSH_AFTER_SIGNAL_MS 500 /* a reader that does not read must not keep an ended job */

static bool is_live_rank(const tdmi_job *j, pid_t pid)
{
    for (int i = 0; i < j->shape.local_size; i++)
        if (pid != 0 && j->ranks[i].pid == pid)
            return true;
    return false;
}

/* To every process of the job, each once: to the ranks' groups as a whole, to all others one by one. */
static void signal_all(tdmi_job *j, int sig)
{
    for (int i = 0; i < j->shape.local_size; i++)
        if (j->ranks[i].pid != 0) {
            kill(-j->ranks[i].pid, sig);
            if (sig != SIGKILL)
                kill(-j->ranks[i].pid, SIGCONT); /* a stopped process would not see it */
        }
    tdmi_process *list;
    size_t count;
    if (tdmi_process_descendants(getpid(), j->guardian.pid, &list, &count) != TDM_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (!is_live_rank(j, list[i].group)) {
            kill(list[i].pid, sig);
            if (sig != SIGKILL)
                kill(list[i].pid, SIGCONT);
        }
    tdmi_free(list);
}

static void start_killing(tdmi_job *j)
{
    if (j->phase != TDMI_JOB_KILLING)
        j->kill_ends_ns = tdmi_deadline_in(KILL_GIVE_UP_S);
    j->phase = TDMI_JOB_KILLING;
    signal_all(j, SIGKILL);
    j->phase_ends_ns = tdmi_now_ns() + KILL_AGAIN_MS * TDMI_NS_PER_MS;
}

static void start_ending(tdmi_job *j, int sig, double grace_s)
{
    j->phase = TDMI_JOB_ENDING;
    j->grace_s = grace_s;
    j->phase_ends_ns = tdmi_deadline_in(grace_s);
    signal_all(j, sig);
}

static void announce(tdmi_job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void announce(tdmi_job *j, const char *format, ...)
{
    char text[TDMI_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tdmi_output_say(j->output, "%s", text);
    if (j->nodes != NULL)
        tdmi_nodes_announce(j->nodes, j->exit_code, text);
}

static void name_signal(int sig, char *text, size_t nbytes)
{
    const char *name = sigabbrev_np(sig);
    snprintf(text, nbytes, "SIG%s (%s)", name != NULL ? name : "?", strsignal(sig));
}

/* The rank's end decides the job's. */
static void pass_verdict(tdmi_job *j, tdmi_local_rank *r)
{
    char how[128], line[512] = "";
    if (WIFSIGNALED(r->status)) {
        char name[96];
        name_signal(WTERMSIG(r->status), name, sizeof name);
        snprintf(how, sizeof how, "was ended by %s%s%s", name, WCOREDUMP(r->status) ? ", core dumped" : "",
                 WTERMSIG(r->status) == SIGKILL ? ", by the kernel if memory ran out" : "");
    } else {
        snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(r->status));
    }
    if (r->streams[1] >= 0 && *tdmi_output_last_line(j->output, r->streams[1]) != '\0')
        snprintf(line, sizeof line, "; its last line on stderr: %s", tdmi_output_last_line(j->output, r->streams[1]));
    j->exit_code = tdmi_process_exit_code(r->status);
    j->culprit = NULL;
    start_ending(j, SIGTERM, j->options->grace_s);
    if (j->nodes != NULL)
        announce(j, "rank %d (node %d) %s%s", r->rank, j->shape.node_rank, how, line);
    else if (!j->options->ranks_explain || WIFSIGNALED(r->status))
        announce(j, "rank %d %s%s", r->rank, how, line);
}

/* A rank's end. One that was killed, or failed in its own way, is a better culprit than one that lost a peer. */
static void on_rank_end(tdmi_job *j, tdmi_local_rank *r, int status)
{
    r->pid = 0;
    r->status = status;
    j->alive--;
    if (status == 0 || j->phase != TDMI_JOB_RUNNING || j->exit_code >= 0)
        return;
    for (int i = 0; i < 2; i++)
        if (r->streams[i] >= 0)
            tdmi_output_drain(j->output, r->streams[i]); /* its last words, before the message about it */
    bool lost_peer = !WIFSIGNALED(status) && WEXITSTATUS(status) == EXIT_PEER_LOST;
    if (j->culprit == NULL) {
        j->culprit = r;
        j->verdict_ns = tdmi_now_ns() + (lost_peer ? (j->nodes != NULL ? NODES_SETTLE_MS : SETTLE_MS) * TDMI_NS_PER_MS : 0);
    } else if (!lost_peer && tdmi_process_exit_code(j->culprit->status) == EXIT_PEER_LOST) {
        j->culprit = r;
        j->verdict_ns = tdmi_now_ns();
    } else if (WIFSIGNALED(status) && !WIFSIGNALED(j->culprit->status)) {
        j->culprit = r;
    }
}

/* False: no children are left. */
static bool reap(tdmi_job *j)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) != 0;) {
        if (pid < 0)
            return errno != ECHILD;
        for (int i = 0; i < j->shape.local_size; i++)
            if (j->ranks[i].pid == pid) {
                tdmi_guardian_tell(&j->guardian, pid, false);
                on_rank_end(j, &j->ranks[i], status);
                break;
            }
    }
    return true;
}

/* To the processes of each rank that handle it: a shell in front of the program must not die of it. */
static void forward_user_signal(tdmi_job *j, int sig)
{
    tdmi_process *list;
    size_t count;
    if (tdmi_process_descendants(getpid(), j->guardian.pid, &list, &count) != TDM_OK)
        return;
    for (int r = 0; r < j->shape.local_size; r++) {
        int sent = 0;
        for (size_t i = 0; i < count && j->ranks[r].pid != 0; i++)
            if (list[i].session == j->ranks[r].pid && tdmi_process_catches(list[i].pid, sig))
                sent += kill(list[i].pid, sig) == 0;
        if (j->ranks[r].pid != 0 && sent == 0)
            tdmi_output_say(j->output, "rank %d has no handler for SIG%s: not sent", j->ranks[r].rank, sigabbrev_np(sig));
    }
    tdmi_free(list);
}

static void on_signal(tdmi_job *j, int sig)
{
    if (sig == SIGCHLD)
        return; /* every turn reaps */
    if (sig == SIGUSR1 || sig == SIGUSR2) {
        forward_user_signal(j, sig);
        return;
    }
    if (++j->signal_count > 1) {
        start_killing(j);
        return;
    }
    if (j->exit_code >= 0)
        return; /* it ends already; a second signal kills */
    j->exit_code = 128 + sig;
    j->culprit = NULL;
    double own = sig == SIGINT ? j->options->interrupt_grace_s : sig == SIGTERM ? j->options->terminate_grace_s : -1;
    start_ending(j, sig, own >= 0 ? own : j->options->grace_s);
    if (j->nodes != NULL) {
        char text[128];
        snprintf(text, sizeof text, "node %d was told to end by SIG%s", j->shape.node_rank, sigabbrev_np(sig));
        tdmi_nodes_announce(j->nodes, j->exit_code, text);
    }
}

static void on_node_end(tdmi_job *j)
{
    int code;
    bool ours;
    const char *text = tdmi_nodes_end(j->nodes, &code, &ours);
    j->node_end_seen = true;
    if (code == 0 || ours)
        return;
    j->culprit = NULL; /* one that was still waiting for its verdict lost a peer there */
    if (j->exit_code <= 0) {
        j->exit_code = code;
        tdmi_output_say(j->output, "%s", text);
    }
    if (j->phase == TDMI_JOB_RUNNING)
        start_ending(j, SIGTERM, j->options->grace_s);
}

/* Names the ranks that are still there. */
static void list_living(const tdmi_job *j, char *list, size_t nbytes)
{
    size_t used = 0;
    *list = '\0';
    for (int i = 0; i < j->shape.local_size && used + 16 < nbytes; i++)
        if (j->ranks[i].pid != 0)
            used += (size_t)snprintf(list + used, nbytes - used, " %d", j->ranks[i].rank);
}

/* What is due by now: a verdict, the end of a phase. False: processes are left that even SIGKILL does not end. */
static bool on_time(tdmi_job *j)
{
    int64_t now_ns = tdmi_now_ns();
    char list[256];
    if (j->culprit != NULL && now_ns >= j->verdict_ns)
        pass_verdict(j, j->culprit);
    if (j->phase == TDMI_JOB_RUNNING && j->alive == 0 && j->culprit == NULL)
        start_ending(j, SIGTERM, j->options->grace_s < LEFTOVER_GRACE_S ? j->options->grace_s : LEFTOVER_GRACE_S);
    if (j->phase == TDMI_JOB_ENDING && now_ns >= j->phase_ends_ns) {
        list_living(j, list, sizeof list);
        if (*list != '\0')
            tdmi_output_say(j->output, "killed after %g s of grace: rank%s", j->grace_s, list);
        start_killing(j);
    } else if (j->phase == TDMI_JOB_KILLING && now_ns >= j->kill_ends_ns) {
        list_living(j, list, sizeof list);
        tdmi_output_say(j->output, "some processes do not end even by SIGKILL and are left behind; of ranks:%s", *list != '\0' ? list : " none");
        return false;
    } else if (j->phase == TDMI_JOB_KILLING && now_ns >= j->phase_ends_ns) {
        start_killing(j); /* whatever was born since */
    }
    return true;
}

static int poll_timeout_ms(const tdmi_job *j)
{
    int64_t next_ns = j->phase == TDMI_JOB_RUNNING ? INT64_MAX : j->phase_ends_ns;
    if (j->culprit != NULL && j->verdict_ns < next_ns)
        next_ns = j->verdict_ns;
    if (next_ns == INT64_MAX)
        return -1;
    int64_t left_ms = (next_ns - tdmi_now_ns()) / TDMI_NS_PER_MS + 1;
    return left_ms < 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* One turn of the loop: waits for something to happen and deals with it. */
static void turn(tdmi_job *j, int timeout_ms)
{
    j->items[0] = (struct pollfd){.fd = j->signals.fd, .events = POLLIN};
    j->items[1] = (struct pollfd){.fd = j->nodes != NULL && !j->node_end_seen ? tdmi_nodes_event(j->nodes) : -1, .events = POLLIN};
    size_t count = tdmi_output_prepare(j->output, j->items + 2);
    if (poll(j->items, count + 2, timeout_ms) < 0)
        return;
    tdmi_output_pump(j->output, j->items + 2, count);
    struct signalfd_siginfo info;
    if (j->items[0].revents != 0)
        while (read(j->signals.fd, &info, sizeof info) == (ssize_t)sizeof info)
            on_signal(j, (int)info.ssi_signo);
    if (j->items[1].revents != 0)
        on_node_end(j);
}

/* Until this process has no children. */
static void outlive_children(tdmi_job *j)
{
    while (reap(j)) {
        if (!on_time(j))
            return;
        turn(j, poll_timeout_ms(j));
    }
    while (j->culprit != NULL && j->nodes != NULL && !tdmi_deadline_passed(j->verdict_ns))
        turn(j, poll_timeout_ms(j)); /* the cause may be on another node */
    if (j->culprit != NULL)
        pass_verdict(j, j->culprit);
}

/* When all went well here: until the other nodes have ended too. */
static void await_nodes(tdmi_job *j)
{
    if (j->nodes == NULL || j->exit_code >= 0)
        return;
    tdmi_nodes_done(j->nodes);
    while (!j->node_end_seen && j->exit_code < 0)
        turn(j, -1);
}

void tdmi_job_supervise(tdmi_job *j)
{
    outlive_children(j);
    await_nodes(j);
    tdmi_output_finish(j->output);
    int64_t deadline_ns = tdmi_now_ns() + FLUSH_AFTER_SIGNAL_MS * TDMI_NS_PER_MS;
    while (!tdmi_output_is_flushed(j->output) && j->signal_count < 2 && (j->signal_count == 0 || !tdmi_deadline_passed(deadline_ns)))
        turn(j, j->signal_count == 0 ? -1 : 50);
    if (j->exit_code < 0)
        j->exit_code = 0;
}

void tdmi_job_kill(tdmi_job *j)
{
    j->exit_code = 1;
    start_killing(j);
    outlive_children(j);
}
