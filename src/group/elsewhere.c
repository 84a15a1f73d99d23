/* elsewhere.c - why a rank is missing: it waits in a call of another group, or it is stopped.
 *
 * Ranks that use two groups in different orders wait for each other until their time is up. Whoever has waited for long tells
 * the ranks of all its other groups where it is: in its board for those of this node, over control connections for others. When
 * a call's time is up its text says where the missing ranks are. Nothing here is touched by a call that does not wait long.
 *
 * Lock order: called with a group's lock held; world.lock and other groups' locks are only tried, and it is done next time. */
#include "group/group.h"

#include "core/clock.h"
#include "core/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void write_words(tdmi_board *board, const char *text)
{
    char bytes[TDMI_ELSEWHERE_BYTES] = "";
    uint64_t word;
    snprintf(bytes, sizeof bytes, "%s", text);
    for (size_t i = 0; i < TDMI_ELSEWHERE_BYTES / 8; i++) {
        memcpy(&word, bytes + 8 * i, 8);
        atomic_store_explicit(&board->elsewhere[i], word, memory_order_relaxed); /* for people: a mixed text is no harm */
    }
}

static void read_words(const tdmi_board *board, char text[TDMI_ELSEWHERE_BYTES])
{
    for (size_t i = 0; i < TDMI_ELSEWHERE_BYTES / 8; i++) {
        const uint64_t word = atomic_load_explicit(&board->elsewhere[i], memory_order_relaxed);
        memcpy(text + 8 * i, &word, 8);
    }
    text[TDMI_ELSEWHERE_BYTES - 1] = '\0';
}

/* False: a lock was taken; try again. */
static bool tell(tdm_group *from, const char *text)
{
    tdmi_world *world = from->world;
    bool all = true;
    if (pthread_mutex_trylock(&world->lock) != 0)
        return false;
    for (tdm_group *group = world->groups; group != NULL; group = group->next) {
        if (group == from)
            continue;
        if (pthread_mutex_trylock(&group->lock) != 0) {
            all = false;
            continue;
        }
        if (group->complete && group->team.board != NULL)
            write_words(group->team.board[group->rank], text);
        if (group->complete)
            tdmi_control_send_elsewhere(group, text);
        pthread_mutex_unlock(&group->lock);
    }
    pthread_mutex_unlock(&world->lock);
    return all;
}

void tdmi_group_say_where(tdm_group *group, const tdm_work *work)
{
    char call[TDMI_ELSEWHERE_BYTES / 2], text[TDMI_ELSEWHERE_BYTES];
    if (group->said_where == work->run.number)
        return;
    tdmi_group_call_text(work, call, sizeof call);
    snprintf(text, sizeof text, "call %llu of group %s, %s", (unsigned long long)work->run.number, group->name, call);
    if (tell(group, text))
        group->said_where = work->run.number;
}

void tdmi_group_unsay_where(tdm_group *group)
{
    if (group->said_where != 0 && tell(group, ""))
        group->said_where = 0;
}

/* The process at the other end of the rank's door, as this process sees it; 0: not to be seen, or a thread of this one. */
static int process_of(const tdm_group *group, int rank)
{
    struct ucred peer = {0};
    socklen_t nbytes = sizeof peer;
    const int fd = group->is_local[rank] ? tdmi_node_fd(group->world->node, group->world_rank[rank]) : -1;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &nbytes) != 0 || peer.pid == getpid())
        return 0;
    return (int)peer.pid;
}

/* "is stopped", "is held by a debugger", or NULL. A rank that computes for long is neither. */
static const char *stop_of(const tdm_group *group, int rank, int *pid)
{
    char path[64], text[512];
    *pid = process_of(group, rank);
    if (*pid == 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/stat", *pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *end = strrchr(text, ')'); /* the name may hold anything */
    const char state = end != NULL && end[1] == ' ' ? end[2] : '?';
    return state == 'T' ? "is stopped (SIGSTOP)" : state == 't' ? "is held by a debugger" : NULL;
}

void tdmi_group_warn_of_stopped(tdm_group *group, const tdm_work *work, int64_t now_ns)
{
    const int64_t made_ns = work->deadline_ns - (int64_t)(group->timeout_s * 1e9);
    bool missing[group->size];
    if (now_ns - made_ns < TDMI_NS_PER_S || now_ns - group->looked_ns < TDMI_NS_PER_S || group->warned == work->run.number)
        return;
    group->looked_ns = now_ns;
    (void)tdmi_run_missing(&work->run, missing);
    for (int r = 0; r < group->size; r++) {
        int pid;
        const char *stop = missing[r] ? stop_of(group, r, &pid) : NULL;
        if (stop == NULL)
            continue;
        group->warned = work->run.number;
        log_warn(TDM_LOG_GROUP, "rank %d of group %s (process %d) %s; call %llu waits for it, %g s at most", r, group->name, pid, stop,
                 (unsigned long long)work->run.number, group->timeout_s);
    }
}

void tdmi_group_excuses(const tdm_group *group, const bool *missing, char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < group->size && used + 1 < nbytes; r++) {
        char where[TDMI_ELSEWHERE_BYTES] = "";
        int pid;
        if (!missing[r])
            continue;
        if (group->team.board != NULL && group->team.board[r] != NULL)
            read_words(group->team.board[r], where);
        else if (group->control != NULL)
            snprintf(where, sizeof where, "%s", group->control[r].elsewhere);
        const char *stop = stop_of(group, r, &pid);
        if (where[0] != '\0')
            used += (size_t)snprintf(text + used, nbytes - used, "; rank %d waits in %s", r, where);
        else if (stop != NULL)
            used += (size_t)snprintf(text + used, nbytes - used, "; rank %d (process %d) %s", r, pid, stop);
    }
}
