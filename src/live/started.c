/* started.c - the environment of a command that is to be looked into, its start and its end. */
#include "live/started.h"

#include "core/clock.h"
#include "core/memory.h"
#include "launch/environment.h"
#include "launch/process.h"
#include "launch/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG_MAX ((size_t)1 << 16)

/* PyTorch asks every second instead of every 5. What the user's own file says stays in force: libkineto reads one file alone. */
static tdm_status write_config(const char *path)
{
    const char *own = getenv("KINETO_CONFIG");
    FILE *from = fopen(own != NULL ? own : "/etc/libkineto.conf", "re"), *to = fopen(path, "we");
    char *text = from != NULL && to != NULL ? tdmi_malloc(CONFIG_MAX, "libkineto's configuration") : NULL;
    const size_t nbytes = text != NULL ? fread(text, 1, CONFIG_MAX, from) : 0;
    bool written = to != NULL && (nbytes == 0 || fwrite(text, 1, nbytes, to) == nbytes) && fputs("\nON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n", to) >= 0;
    const int error = errno;
    tdmi_free(text);
    if (from != NULL)
        fclose(from);
    if (to != NULL)
        written = fclose(to) == 0 && written;
    return written ? TDM_OK : tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot write %s", path);
}

static tdm_status make_environment(const tdmi_folder *folder, const char *mark, char ***out)
{
    char config[96], config_entry[128], traces[128];
    snprintf(config, sizeof config, "%s/kineto.conf", folder->path);
    snprintf(config_entry, sizeof config_entry, "KINETO_CONFIG=%s", config);
    snprintf(traces, sizeof traces, "KINETO_ONDEMAND_TRACE_DIR=%s", folder->traces); /* newer versions write nowhere else */
    const char *entries[] = {"KINETO_USE_DAEMON=1", mark, config_entry, traces, "KINETO_LOG_LEVEL=4"};
    const size_t count = sizeof entries / sizeof *entries - (getenv("KINETO_LOG_LEVEL") != NULL); /* its notes at import are not for the user */
    const tdm_status status = write_config(config);
    return status == TDM_OK ? tdmi_environment_with(entries, count, out) : status;
}

static tdm_status spawn(const tdmi_spawn *spawn, tdmi_started *out)
{
    int report[2], words[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make a pipe");
    tdm_status status = tdmi_process_spawn(spawn, 0, report[1], &out->pid);
    close(report[1]);
    if (status == TDM_OK && read(report[0], words, sizeof words) == (ssize_t)sizeof words) { /* ends when it has become the program */
        waitpid(out->pid, NULL, 0);
        status = tdmi_fail(TDM_ERR_INVALID, "cannot run %s: %s", spawn->path, strerror(words[1]));
    }
    close(report[0]);
    return status;
}

tdm_status tdmi_started_begin(const tdmi_start *start, tdmi_started *out)
{
    *out = (tdmi_started){0};
    snprintf(out->mark, sizeof out->mark, "KINETO_IPC_SOCKET_DIR=%s", start->folder->path);
    out->marks[0] = out->mark;
    tdmi_program program;
    char **environment = NULL;
    tdm_status status = tdmi_program_find(start->argv, &program);
    if (status != TDM_OK)
        return status;
    status = make_environment(start->folder, out->mark, &environment);
    if (status == TDM_OK)
        status = tdmi_guardian_start(out->marks, 1, &out->guardian);
    if (status == TDM_OK) {
        /* What is piped in is the command's. A terminal belongs to this process's session and cannot be read from its own. */
        const int input = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
        status = spawn(&(tdmi_spawn){.path = program.path, .argv = program.argv, .environment = environment, .input = input,
                                     .output = start->output, .errors = -1, .signals = start->mask, .ignore_hangup = start->ignore_hangup}, out);
        if (input >= 0)
            close(input);
        if (status == TDM_OK)
            tdmi_guardian_tell(&out->guardian, out->pid, true);
        else
            tdmi_guardian_dismiss(&out->guardian);
    }
    tdmi_free(environment);
    tdmi_program_free(&program);
    if (status != TDM_OK)
        out->pid = 0;
    return status;
}

void tdmi_started_signal(const tdmi_started *started, int signal)
{
    if (started->pid != 0 && !started->ended)
        kill(-started->pid, signal);
}

void tdmi_started_reap(tdmi_started *started)
{
    if (started->pid != 0 && !started->ended && waitpid(started->pid, &started->status, WNOHANG) == started->pid)
        started->ended = true;
}

typedef struct leftover {
    const tdmi_started *started;
    bool found;
} leftover;

static void look(const tdmi_process *process, void *arg)
{
    leftover *l = arg;
    l->found = l->found || (process->pid != l->started->guardian.pid && tdmi_process_has_environment(process->pid, l->started->marks, 1));
}

void tdmi_started_end(tdmi_started *started, double grace_s)
{
    if (started->pid == 0)
        return;
    leftover left = {.started = started};
    for (const int64_t deadline_ns = tdmi_deadline_in(grace_s);;) {
        tdmi_started_reap(started);
        left.found = false;
        tdmi_process_each(look, &left);
        if ((!left.found && started->ended) || tdmi_deadline_passed(deadline_ns))
            break;
        nanosleep(&(struct timespec){.tv_nsec = 20 * TDMI_NS_PER_MS}, NULL);
    }
    if (left.found || !started->ended)
        tdmi_guardian_strike(&started->guardian);
    else
        tdmi_guardian_dismiss(&started->guardian);
    if (!started->ended && waitpid(started->pid, &started->status, 0) == started->pid)
        started->ended = true;
    started->pid = 0;
}
