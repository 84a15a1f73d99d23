/* network.c - namespaces held by processes that only wait. */
#include "network.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

static char pids[2][16]; /* of the processes that hold the namespaces; they die with this one */

static bool shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool shell(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0;
}

static bool start_anchor(int node)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return false;
    pid_t anchor = fork();
    if (anchor == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "y", 1) == 1)
            for (close(ready[0]);;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    bool good = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    snprintf(pids[node], sizeof pids[node], "%d", (int)anchor);
    return good;
}

bool network_make(void)
{
    bool good = geteuid() == 0 && start_anchor(0) && start_anchor(1) &&
                shell("ip link add tdm0 netns %s type veth peer name tdm1 netns %s 2>/dev/null", pids[0], pids[1]);
    for (int node = 0; node < 2 && good; node++)
        good = shell("nsenter -t %s -n sh -c 'ip addr add 10.77.0.%d/24 dev tdm%d && ip link set tdm%d up && ip link set lo up'",
                     pids[node], node + 1, node, node);
    return good;
}

void network_start(program *p, int node, const char *variable, const char *const *words)
{
    const char *all[64] = {"nsenter", "-t", pids[node], "-n", "env", variable};
    for (size_t n = 6; *words != NULL && n < 63; words++)
        all[n++] = *words;
    program_start(p, all);
}

long long network_sent(int node)
{
    char command[128];
    long long sent = -1;
    snprintf(command, sizeof command, "nsenter -t %s -n sed -n 's/^ *tdm[01]: *//p' /proc/net/dev", pids[node]);
    FILE *counters = popen(command, "r");
    assert_non_null(counters);
    assert_int_equal(fscanf(counters, "%*d %*d %*d %*d %*d %*d %*d %*d %lld", &sent), 1); /* what was received comes first */
    pclose(counters);
    return sent;
}

void network_cable(bool in)
{
    assert_true(shell("nsenter -t %s -n ip link set tdm0 %s", pids[0], in ? "up" : "down"));
}
