/* signals.c - blocked and read from a descriptor. */
#include "launch/signals.h"

#include <errno.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

tdm_status tdmi_signals_take(tdmi_signals *out)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    struct sigaction hangup;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        sigaddset(&set, handled[i]);
    sigaction(SIGHUP, NULL, &hangup);
    out->ignores_hangup = hangup.sa_handler == SIG_IGN;
    if (!out->ignores_hangup)
        sigaddset(&set, SIGHUP);
    out->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (out->fd < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot receive signals");
    sigaction(SIGPIPE, &ignore, &out->outer_pipe);
    sigaction(SIGCHLD, &normal, &out->outer_child); /* ignored, it would let waitpid see nothing */
    pthread_sigmask(SIG_BLOCK, &set, &out->outer_mask);
    return TDM_OK;
}

void tdmi_signals_give_back(tdmi_signals *signals)
{
    if (signals->fd < 0)
        return;
    struct signalfd_siginfo info;
    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info)
        ;
    close(signals->fd);
    signals->fd = -1;
    pthread_sigmask(SIG_SETMASK, &signals->outer_mask, NULL);
    sigaction(SIGPIPE, &signals->outer_pipe, NULL);
    sigaction(SIGCHLD, &signals->outer_child, NULL);
}
