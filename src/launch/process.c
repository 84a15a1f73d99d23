/* process.c - fork and exec of ranks; reading /proc. */
#include "launch/process.h"

#include "core/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_child(const tdmi_spawn *spawn, int rank, int report, pid_t launcher)
{
    static const int to_default[] = {SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGCHLD};
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* it died before that took effect */
        _exit(127);
    for (size_t i = 0; i < sizeof to_default / sizeof *to_default; i++)
        signal(to_default[i], SIG_DFL);
    signal(SIGHUP, spawn->ignore_hangup ? SIG_IGN : SIG_DFL);
    if (spawn->cpus != NULL)
        sched_setaffinity(0, sizeof *spawn->cpus, spawn->cpus); /* a refused binding costs speed only */
    const int from[3] = {spawn->input, spawn->output, spawn->errors};
    for (int i = 0; i < 3; i++)
        if (from[i] >= 0 && dup2(from[i], i) < 0)
            goto fail;
    sigprocmask(SIG_SETMASK, spawn->signals, NULL);
    execve(spawn->path, (char *const *)(uintptr_t)spawn->argv, spawn->environment);
    if (errno == ENOEXEC) { /* a script without #!, as a shell would run it */
        const char *shell[64] = {"sh", spawn->path};
        for (int i = 1; i < 61 && spawn->argv[i] != NULL; i++)
            shell[i + 1] = spawn->argv[i];
        execve("/bin/sh", (char *const *)(uintptr_t)shell, spawn->environment);
    }
fail:;
    int words[2] = {rank, errno};
    ssize_t written = write(report, words, sizeof words);
    (void)written;
    _exit(127);
}

tdm_status tdmi_process_spawn(const tdmi_spawn *spawn, int rank, int report, pid_t *out)
{
    pid_t launcher = getpid(), pid = fork();
    if (pid == 0)
        run_child(spawn, rank, report, launcher);
    if (pid < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot start rank %d", rank);
    *out = pid;
    return TDM_OK;
}

int tdmi_process_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void tdmi_process_occupy_standard(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd >= 0)
        close(fd);
}

/* Reads a small file of /proc, with a NUL behind. Gives its bytes, or -1. No stdio: the guardian has no heap to trust. */
static ssize_t read_proc(pid_t pid, const char *name, char *text, size_t nbytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    for (ssize_t got; used < nbytes - 1 && (got = read(fd, text + used, nbytes - 1 - used)) > 0;)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return (ssize_t)used;
}

bool tdmi_process_read(pid_t pid, tdmi_process *out)
{
    char text[1024];
    if (read_proc(pid, "stat", text, sizeof text) <= 0)
        return false;
    *out = (tdmi_process){.pid = pid};
    const char *after_name = strrchr(text, ')'); /* a name may hold anything */
    return after_name != NULL && sscanf(after_name + 1, " %c %d %d %d", &out->state, &out->parent, &out->group, &out->session) == 4;
}

void tdmi_process_each(void (*visit)(const tdmi_process *process, void *arg), void *arg)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        tdmi_process process;
        if (pid > 0 && tdmi_process_read(pid, &process) && process.state != 'Z' && process.state != 'X')
            visit(&process, arg);
    }
    closedir(proc);
}

typedef struct collection {
    tdmi_process *list;
    size_t count, capacity;
    tdm_status status;
} collection;

static void collect(const tdmi_process *process, void *arg)
{
    collection *c = arg;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity == 0 ? 256 : c->capacity * 2;
        tdmi_process *list = tdmi_realloc(c->list, capacity * sizeof *list, "process list");
        if (list == NULL) {
            c->status = TDM_ERR_NO_MEMORY;
            return;
        }
        c->list = list;
        c->capacity = capacity;
    }
    c->list[c->count++] = *process;
}

tdm_status tdmi_process_descendants(pid_t root, pid_t except, tdmi_process **out, size_t *count)
{
    collection all = {.status = TDM_OK};
    tdmi_process_each(collect, &all);
    if (all.status != TDM_OK) {
        tdmi_free(all.list);
        return all.status;
    }
    /* Moves descendants to the front, generation by generation. */
    size_t found = 0;
    for (size_t parent = 0; parent <= found; parent++) {
        pid_t pid = parent == 0 ? root : all.list[parent - 1].pid;
        for (size_t i = found; i < all.count; i++)
            if (all.list[i].parent == pid && all.list[i].pid != except) {
                tdmi_process process = all.list[i];
                all.list[i] = all.list[found];
                all.list[found++] = process;
            }
    }
    *out = all.list;
    *count = found;
    return TDM_OK;
}

bool tdmi_process_catches(pid_t pid, int signal)
{
    char text[4096];
    if (read_proc(pid, "status", text, sizeof text) <= 0)
        return false;
    const char *line = strstr(text, "\nSigCgt:");
    return line != NULL && (strtoull(line + 8, NULL, 16) >> (signal - 1) & 1) != 0;
}

bool tdmi_process_has_environment(pid_t pid, const char *const *entries, size_t count)
{
    static char text[1 << 17]; /* one thread a process calls this: the guardian, or a test */
    ssize_t nbytes = read_proc(pid, "environ", text, sizeof text);
    size_t found = 0;
    for (size_t i = 0; nbytes > 0 && i < count; i++)
        for (const char *at = text; at < text + nbytes; at += strlen(at) + 1)
            if (strcmp(at, entries[i]) == 0) {
                found++;
                break;
            }
    return nbytes > 0 && found == count;
}
