/* bench_process.c - runs another program to its end and keeps what it prints. One thread; a child dies with this process. */
#include "bench_compare.h"

#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void bench_say(bench_words *w, const char *format, ...)
{
    char *word = NULL;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&word, format, args);
    va_end(args);
    char **grown = length < 0 ? NULL : realloc(w->words, (w->count + 2) * sizeof *grown);
    if (grown == NULL) {
        free(length < 0 ? NULL : word);
        w->failed = true;
        return;
    }
    w->words = grown;
    w->words[w->count++] = word;
    w->words[w->count] = NULL;
}

void bench_words_free(bench_words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->words[i]);
    free(w->words);
    *w = (bench_words){0};
}

static void become(const bench_words *w, const char *errors, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int err = errors != NULL ? open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    if (err >= 0)
        dup2(err, STDERR_FILENO);
    execvp(w->words[0], w->words);
    _exit(127);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Everything from `in` until it is closed; false: the time is over, a signal came or there is no memory. */
static bool read_all(int in, int64_t end_ms, char **text)
{
    size_t used = 0, capacity = 4096;
    char *all = malloc(capacity);
    while (all != NULL) {
        struct pollfd wait = {.fd = in, .events = POLLIN};
        const int64_t left = end_ms - now_ms();
        if (left <= 0 || poll(&wait, 1, (int)(left < 60000 ? left : 60000)) < 0)
            break;
        if (wait.revents == 0)
            continue;
        const ssize_t n = read(in, all + used, capacity - used - 1);
        if (n <= 0) {
            all[used] = '\0';
            *text = all;
            return n == 0;
        }
        used += (size_t)n;
        if (used + 1 == capacity) {
            char *grown = realloc(all, capacity *= 2);
            if (grown == NULL)
                break;
            all = grown;
        }
    }
    free(all);
    return false;
}

/* Gives a child time to end its own children. */
static int end(pid_t pid, int *state)
{
    kill(pid, SIGTERM);
    for (int i = 0; i < 50; i++) {
        if (waitpid(pid, state, WNOHANG) == pid)
            return CLI_PEER_LOST;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, state, 0);
    return CLI_PEER_LOST;
}

int bench_capture(const bench_words *w, const char *errors, int limit_s, char **text)
{
    int ends[2], state = 0;
    *text = NULL;
    if (w->failed || pipe2(ends, O_CLOEXEC) != 0)
        return CLI_NO_SPACE;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        become(w, errors, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return CLI_NO_SPACE;
    }
    const bool whole = read_all(ends[0], now_ms() + (int64_t)limit_s * 1000, text);
    close(ends[0]);
    if (!whole)
        return end(pid, &state);
    while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(state) ? CLI_SIGNAL + WTERMSIG(state) : WEXITSTATUS(state);
}
