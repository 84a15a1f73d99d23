/* guardian.c - watches a pipe that closes when the launcher dies; then kills the job.
 *
 * Ranks themselves die with the launcher (PR_SET_PDEATHSIG), but their children would be left to init. The guardian finds
 * them by the ranks' sessions and by variables in their environment. It is a clone without an exit signal, so that the
 * launcher's "do I have children left?" does not see it. */
#include "launch/guardian.h"

#include "launch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 4096 /* sessions remembered; beyond that the environment alone tells */
#define SWEEPS_MAX 100
#define SWEEP_PAUSE_MS 20

typedef struct note { /* over the pipe, to ourselves */
    pid_t rank;       /* 0: dismissed */
    int alive;
} note;

typedef struct job {
    const char *const *entries;
    size_t count;
    pid_t sessions[RANKS_MAX];
    size_t session_count, killed;
} job;

static void remember(job *j, const note *n)
{
    for (size_t i = 0; i < j->session_count; i++)
        if (j->sessions[i] == n->rank) {
            j->sessions[i] = j->sessions[--j->session_count];
            break;
        }
    if (n->alive && j->session_count < RANKS_MAX)
        j->sessions[j->session_count++] = n->rank;
}

static void kill_if_ours(const tdmi_process *process, void *arg)
{
    job *j = arg;
    bool ours = false;
    for (size_t i = 0; i < j->session_count; i++)
        ours |= process->session == j->sessions[i];
    if (process->pid != getpid() && (ours || tdmi_process_has_environment(process->pid, j->entries, j->count)) &&
        kill(process->pid, SIGKILL) == 0)
        j->killed++;
}

static _Noreturn void guard(int pipe, job *j)
{
    note n;
    for (;;) {
        ssize_t got = read(pipe, &n, sizeof n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != sizeof n)
            break;
        if (n.rank == 0)
            _exit(0);
        remember(j, &n);
    }
    int clean = 0;
    for (int i = 0; i < SWEEPS_MAX && clean < 2; i++) { /* what forks while we look is found by the next look */
        j->killed = 0;
        tdmi_process_each(kill_if_ours, j);
        clean = j->killed == 0 ? clean + 1 : 0;
        nanosleep(&(struct timespec){.tv_nsec = SWEEP_PAUSE_MS * 1000000L}, NULL);
    }
    _exit(0);
}

/* In `ps` and for pkill -f: a kill of all that is called "tandem run" must not take the guardian too. The name goes where the
 * command line lies in memory; this process's copy of it. */
static void take_name(const char *name)
{
    prctl(PR_SET_NAME, name);
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    char *at = strrchr(text, ')'), *begin = NULL, *end = NULL;
    for (int field = 2; at != NULL && field < 49; field++) { /* proc(5): 48 arg_start, 49 arg_end */
        at = strchr(at + 1, ' ');
        if (at != NULL && field + 1 == 48)
            begin = (char *)strtoul(at, NULL, 10);
        if (at != NULL && field + 1 == 49)
            end = (char *)strtoul(at, NULL, 10);
    }
    if (begin == NULL || end <= begin)
        return;
    memset(begin, 0, (size_t)(end - begin));
    memcpy(begin, name, strnlen(name, (size_t)(end - begin) - 1));
}

tdm_status tdmi_guardian_start(const char *const *entries, size_t count, tdmi_guardian *out)
{
    static job j;
    j = (job){.entries = entries, .count = count};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a pipe");
    pid_t pid = (pid_t)syscall(SYS_clone, 0ul, NULL, NULL, NULL, 0ul); /* a fork whose end sends no SIGCHLD */
    if (pid == 0) {
        setsid();
        sigset_t all;
        sigfillset(&all); /* what is meant for the launcher is not for it */
        sigprocmask(SIG_SETMASK, &all, NULL);
        take_name("tandem-guardian");
        dup2(ends[0], 0);
        if (close_range(1, ~0u, 0) != 0) /* it must not keep a pipe of the launcher or of its caller open */
            for (int fd = 1; fd < 1024; fd++)
                close(fd);
        guard(0, &j);
    }
    int error = errno;
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot start the process that cleans up after a killed launcher");
    }
    *out = (tdmi_guardian){pid, ends[1]};
    return TDM_OK;
}

static void send_note(const tdmi_guardian *guardian, pid_t rank, bool alive)
{
    note n = {rank, alive};
    ssize_t written = write(guardian->pipe, &n, sizeof n);
    (void)written; /* a guardian that somebody killed guards no more; the job goes on */
}

void tdmi_guardian_tell(const tdmi_guardian *guardian, pid_t rank, bool alive)
{
    send_note(guardian, rank, alive);
}

static void await_end(tdmi_guardian *guardian)
{
    close(guardian->pipe);
    while (waitpid(guardian->pid, NULL, __WCLONE) < 0 && errno == EINTR)
        ;
}

void tdmi_guardian_dismiss(tdmi_guardian *guardian)
{
    send_note(guardian, 0, false);
    await_end(guardian);
}

void tdmi_guardian_strike(tdmi_guardian *guardian)
{
    await_end(guardian);
}
