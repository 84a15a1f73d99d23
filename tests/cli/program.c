/* program.c - child processes of tests. */
#include "program.h"

#include "core/clock.h"
#include "launch/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

const char *tandem_path, *rank_path;

void program_paths(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s TANDEM RANK\n", argv[0]);
        exit(2);
    }
    tandem_path = argv[1];
    rank_path = argv[2];
    unsetenv("OMP_NUM_THREADS");
    unsetenv("TANDEM_JOB_SECRET");
}

void program_start(program *p, const char *const *words)
{
    static int count;
    *p = (program){.start_ns = tdmi_now_ns()};
    snprintf(p->job_id, sizeof p->job_id, "test%d-%d", (int)getpid(), count++);
    const char *argv[64];
    size_t n = 0;
    for (; words[n] != NULL && n < 63; n++)
        argv[n] = strcmp(words[n], "TANDEM") == 0 ? tandem_path : strcmp(words[n], "RANK") == 0 ? rank_path : words[n];
    argv[n] = NULL;
    int out[2], err[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        setenv("TANDEM_JOB_ID", p->job_id, 1);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    p->out_fd = out[0];
    p->err_fd = err[0];
}

static void read_some(int *fd, char **text, size_t *nbytes)
{
    char bytes[65536];
    ssize_t got = read(*fd, bytes, sizeof bytes);
    if (got <= 0) {
        close(*fd);
        *fd = -1;
        return;
    }
    *text = realloc(*text, *nbytes + (size_t)got + 1);
    assert_non_null(*text);
    memcpy(*text + *nbytes, bytes, (size_t)got);
    *nbytes += (size_t)got;
    (*text)[*nbytes] = '\0';
}

/* False: both streams have ended. */
static bool pump(program *p, int timeout_ms)
{
    struct pollfd items[2] = {{.fd = p->out_fd, .events = POLLIN}, {.fd = p->err_fd, .events = POLLIN}};
    if (p->out_fd < 0 && p->err_fd < 0)
        return false;
    if (poll(items, 2, timeout_ms) <= 0)
        return true;
    if (items[0].revents != 0)
        read_some(&p->out_fd, &p->out, &p->out_nbytes);
    if (items[1].revents != 0)
        read_some(&p->err_fd, &p->err, &p->err_nbytes);
    return true;
}

void program_await(program *p, const char *text, int times)
{
    int64_t deadline_ns = tdmi_deadline_in(60);
    while (p->out == NULL || count_of(p->out, text) < times) {
        if (tdmi_deadline_passed(deadline_ns) || !pump(p, 100))
            fail_msg("waited in vain for %d times \"%s\"; stdout: %.500s; stderr: %.500s", times, text, p->out != NULL ? p->out : "",
                     p->err != NULL ? p->err : "");
    }
}

void program_wait(program *p, double limit_s)
{
    int64_t deadline_ns = tdmi_deadline_in(limit_s);
    int status;
    pid_t ended;
    while ((ended = waitpid(p->pid, &status, WNOHANG)) == 0) {
        if (tdmi_deadline_passed(deadline_ns)) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, NULL, 0);
            fail_msg("no end after %g s; stdout: %.500s; stderr: %.500s", limit_s, p->out != NULL ? p->out : "", p->err != NULL ? p->err : "");
        }
        if (!pump(p, 1))
            usleep(500);
    }
    p->seconds = (double)(tdmi_now_ns() - p->start_ns) * 1e-9;
    p->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (int i = 0; i < 2; i++) { /* what is in the pipes; whoever else holds them is not waited for */
        int *fd = i == 0 ? &p->out_fd : &p->err_fd;
        for (struct pollfd item; *fd >= 0;) {
            item = (struct pollfd){.fd = *fd, .events = POLLIN};
            if (poll(&item, 1, 0) <= 0)
                break;
            read_some(fd, i == 0 ? &p->out : &p->err, i == 0 ? &p->out_nbytes : &p->err_nbytes);
        }
    }
    if (p->out == NULL)
        p->out = calloc(1, 1);
    if (p->err == NULL)
        p->err = calloc(1, 1);
}

typedef struct search {
    const char *entry;
    int found;
} search;

static void look(const tdmi_process *process, void *arg)
{
    search *s = arg;
    s->found += tdmi_process_has_environment(process->pid, &s->entry, 1);
}

int program_left(const program *p)
{
    char entry[64];
    snprintf(entry, sizeof entry, "TANDEM_JOB_ID=%s", p->job_id);
    search s = {.entry = entry};
    tdmi_process_each(look, &s);
    return s.found;
}

void program_done(program *p, double limit_s)
{
    int64_t deadline_ns = tdmi_deadline_in(limit_s);
    int left;
    while ((left = program_left(p)) > 0 && !tdmi_deadline_passed(deadline_ns))
        usleep(5000);
    if (left > 0)
        fail_msg("%d processes are left behind", left);
    for (int i = 0; i < 2; i++) {
        int fd = i == 0 ? p->out_fd : p->err_fd;
        if (fd >= 0)
            close(fd);
    }
    free(p->out);
    free(p->err);
}

int count_of(const char *haystack, const char *needle)
{
    int count = 0;
    for (const char *at = haystack; (at = strstr(at, needle)) != NULL; at += strlen(needle))
        count++;
    return count;
}

bool private_shm(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) == 0;
}

int shm_files(void)
{
    int count = 0;
    DIR *dir = opendir("/dev/shm");
    if (dir == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}
