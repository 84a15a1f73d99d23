/* on_ranks.c - threads or forks under a deadline.
 *
 * Ranks that are processes meet over a TCP store whose server is in the parent, as with a launcher; threads meet in an
 * in-process store. The server starts after the forks, since a fork copies no threads but the locks they hold. A child
 * reports through a pipe and leaves with _exit. */
#include "on_ranks.h"

#include "core/clock.h"
#include "core/log.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MAX 64

static _Thread_local char said[2048];
static _Thread_local tdm_group_options own_options;

const char *ranks_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return said;
}

tdm_group_options ranks_options(void)
{
    return own_options;
}

static bool uses_nodes(const ranks_spec *spec)
{
    return strstr(spec->transport, "nodes") != NULL;
}

static tdm_group_options options_of(const ranks_spec *spec, tdm_store *store, int rank)
{
    tdm_group_options options;
    tdm_group_options_init(&options);
    options.store = store;
    options.rank = rank;
    options.size = spec->n;
    options.transport = strncmp(spec->transport, "nodes", 5) == 0   ? "auto"
                        : strcmp(spec->transport, "ucx nodes") == 0 ? "shm+ucx"
                                                                    : spec->transport;
    options.timeout_s = spec->timeout_s > 0 ? spec->timeout_s : 10;
    options.rendezvous_timeout_s = spec->rendezvous_timeout_s > 0 ? spec->rendezvous_timeout_s : 10;
    return options;
}

static const char *run_rank(const ranks_spec *spec, tdm_store *store, int rank, ranks_body body, void *arg)
{
    own_options = options_of(spec, store, rank);
    if (spec->no_group)
        return body(NULL, arg);
    tdm_group *group;
    if (tdm_group_create(&own_options, &group) != TDM_OK)
        return ranks_say("no group: %s", tdm_error_text());
    const char *text = body(group, arg);
    tdm_group_destroy(group);
    return text;
}

/* ---- threads ---- */

typedef struct thread_rank {
    const ranks_spec *spec;
    tdm_store *store;
    int rank;
    ranks_body body;
    void *arg;
    pthread_t thread;
    char text[2048];
} thread_rank;

static void *thread_main(void *arg)
{
    thread_rank *self = arg;
    const char *text = run_rank(self->spec, self->store, self->rank, self->body, self->arg);
    if (text != NULL)
        snprintf(self->text, sizeof self->text, "%s", text);
    return NULL;
}

static void run_threads(const ranks_spec *spec, ranks_body body, void *arg, double deadline_s, char *report, size_t nbytes)
{
    static thread_rank ranks[RANKS_MAX];
    tdm_store *store;
    if (tdm_store_open_local(&store) != TDM_OK) {
        snprintf(report, nbytes, "no store: %s", tdm_error_text());
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)deadline_s;
    for (int r = 0; r < spec->n; r++) {
        ranks[r] = (thread_rank){.spec = spec, .store = store, .rank = r, .body = body, .arg = arg};
        pthread_create(&ranks[r].thread, NULL, thread_main, &ranks[r]);
    }
    for (int r = 0; r < spec->n; r++) {
        if (pthread_timedjoin_np(ranks[r].thread, NULL, &until) != 0) {
            fprintf(stderr, "rank %d of %d did not end within %g s\n", r, spec->n, deadline_s);
            abort(); /* its stack holds what others use: there is no way on */
        }
        size_t used = strlen(report);
        if (ranks[r].text[0] != '\0')
            snprintf(report + used, nbytes - used, "rank %d: %s\n", r, ranks[r].text);
    }
    tdm_store_close(store);
}

/* ---- processes ---- */

static void child(const ranks_spec *spec, int port_fd, int rank, ranks_body body, void *arg, int pipe_fd)
{
    tdm_store *store;
    const char *text = NULL;
    int port;
    if (read(port_fd, &port, sizeof port) != sizeof port)
        _exit(3);
    if (uses_nodes(spec)) {
        char node[16];
        snprintf(node, sizeof node, "%d", strstr(spec->transport, "turn") != NULL ? rank % 2 : rank / 2);
        setenv("TANDEM_NODE_ID", node, 1);
    }
    if (tdm_store_open_tcp("127.0.0.1", port, false, NULL, 10, &store) != TDM_OK) {
        text = ranks_say("no store: %s", tdm_error_text());
    } else {
        text = run_rank(spec, store, rank, body, arg);
        tdm_store_close(store);
    }
    if (text == NULL)
        text = "ok";
    if (write(pipe_fd, text, strlen(text)) < 0)
        _exit(2);
    _exit(0);
}

/* What the process says until it ends: children of its own may outlive it and hold the pipe. */
static void hear(pid_t pid, int fd, char *text, size_t nbytes, int64_t deadline_ns)
{
    const int process = (int)syscall(SYS_pidfd_open, pid, 0);
    size_t used = 0;
    for (;;) {
        struct pollfd items[2] = {{.fd = fd, .events = POLLIN}, {.fd = process, .events = POLLIN}};
        int64_t left = deadline_ns - tdmi_now_ns();
        if (left <= 0 || poll(items, 2, (int)(left / TDMI_NS_PER_MS) + 1) <= 0 || items[0].revents == 0)
            break;
        ssize_t got = read(fd, text + used, nbytes - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    if (process >= 0)
        close(process);
}

static void run_processes(const ranks_spec *spec, ranks_body body, void *arg, double deadline_s, char *report, size_t nbytes)
{
    pid_t pids[RANKS_MAX];
    int pipes[RANKS_MAX], port_ends[2];
    const int64_t deadline_ns = tdmi_deadline_in(deadline_s);
    if (pipe(port_ends) != 0)
        abort();
    fflush(NULL);
    for (int r = 0; r < spec->n; r++) {
        int ends[2];
        if (pipe(ends) != 0)
            abort();
        pids[r] = fork();
        if (pids[r] == 0) {
            close(ends[0]);
            close(port_ends[1]);
            child(spec, port_ends[0], r, body, arg, ends[1]);
        }
        close(ends[1]);
        pipes[r] = ends[0];
    }
    close(port_ends[0]);
    tdm_store *store = NULL;
    if (tdm_store_open_tcp("127.0.0.1", 0, true, NULL, 10, &store) != TDM_OK)
        snprintf(report, nbytes, "no store: %s", tdm_error_text());
    for (int r = 0; r < spec->n && store != NULL; r++) {
        const int port = tdm_store_port(store);
        if (write(port_ends[1], &port, sizeof port) != sizeof port)
            abort();
    }
    close(port_ends[1]);
    for (int r = 0; r < spec->n; r++) {
        char text[2048];
        int status = 0;
        hear(pids[r], pipes[r], text, sizeof text, deadline_ns);
        close(pipes[r]);
        const bool late = text[0] == '\0' && tdmi_deadline_passed(deadline_ns);
        if (late)
            kill(pids[r], SIGKILL);
        waitpid(pids[r], &status, 0);
        const size_t used = strlen(report);
        const bool dies = (spec->dies >> r & 1) != 0, killed = WIFSIGNALED(status) && !late;
        if (late)
            snprintf(report + used, nbytes - used, "rank %d did not end within %g s\n", r, deadline_s);
        else if (dies != killed || (!dies && strcmp(text, "ok") != 0))
            snprintf(report + used, nbytes - used, "rank %d: %s (wait status %d)\n", r, text, status);
    }
    tdm_store_close(store);
}

void ranks_run(const ranks_spec *spec, ranks_body body, void *arg)
{
    static char report[16384];
    const double deadline_s = spec->deadline_s > 0 ? spec->deadline_s : 30;
    report[0] = '\0';
    if (spec->n > RANKS_MAX)
        fail_msg("at most %d ranks", RANKS_MAX);
    if (spec->mode == RANKS_PROCESSES || uses_nodes(spec))
        run_processes(spec, body, arg, deadline_s, report, sizeof report);
    else
        run_threads(spec, body, arg, deadline_s, report, sizeof report);
    if (report[0] != '\0')
        fail_msg("%d ranks, %s, %s: %s", spec->n, spec->transport, spec->mode == RANKS_PROCESSES ? "processes" : "threads", report);
}
