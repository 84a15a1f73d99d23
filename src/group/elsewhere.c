/* elsewhere.c - why a rank is missing: it waits in a call of another group or for a message, it is stopped, or it is in no call.
 *
 * Ranks that use two groups in different orders wait for each other until their time is up. Whoever has waited for long tells
 * the ranks of all its groups where it is: in its board for those of this node, over control connections for others. When a call's
 * time is up its text says where the missing ranks are. Nothing here is touched by a call that does not wait long.
 *
 * Lock order: called with a group's lock held; world.lock and other groups' locks are only tried, and it is done next time. */
#include "group/group.h"

#include "core/clock.h"
#include "core/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TELL_AFTER_S 0.5
#define EXCUSES 8 /* ranks of which the text says where they are */
#define EXCUSE_BYTES TDMI_ELSEWHERE_BYTES

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

static void tell_group(tdm_group *group, const char *text)
{
    if (group->team.board != NULL)
        write_words(group->team.board[group->rank], text);
    tdmi_control_send_elsewhere(group, text);
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
        if (group->complete)
            tell_group(group, text);
        pthread_mutex_unlock(&group->lock);
    }
    pthread_mutex_unlock(&world->lock);
    tell_group(from, text);
    return all;
}

/* It has waited for long enough to tell. */
static bool is_long(const tdm_work *work)
{
    const double most_s = work->timeout_s / 4 < TELL_AFTER_S ? work->timeout_s / 4 : TELL_AFTER_S;
    return tdmi_deadline_passed(work->deadline_ns - (int64_t)((work->timeout_s - most_s) * 1e9));
}

void tdmi_group_say_where(tdm_group *group)
{
    char what[TDMI_CALL_TEXT_BYTES], text[TDMI_ELSEWHERE_BYTES];
    const tdm_work *work = group->active;
    const tdmi_message *message;
    if (group->said)
        return;
    while (work != NULL && !is_long(work))
        work = work->next;
    if (work != NULL) {
        tdmi_group_call_text(work, what, sizeof what);
        snprintf(text, sizeof text, "waits in call %llu of group %s, %s", (unsigned long long)work->run.number, group->name, what);
    } else if ((message = tdmi_messages_find(group, is_long)) != NULL) {
        tdmi_message_text(message, what, sizeof what);
        snprintf(text, sizeof text, "%s in group %s", what, group->name);
    } else {
        return;
    }
    group->said = tell(group, text);
}

static void say_given_up(tdm_group *group, const tdm_work *work)
{
    char what[TDMI_CALL_TEXT_BYTES], text[TDMI_ELSEWHERE_BYTES];
    if (work->is_message) {
        snprintf(text, sizeof text, "has given up a message in group %s", group->name);
    } else {
        tdmi_group_call_text(work, what, sizeof what);
        snprintf(text, sizeof text, "has given up call %llu of group %s, %s", (unsigned long long)work->run.number, group->name, what);
    }
    group->gave_up = tell(group, text);
}

void tdmi_group_say_end(tdm_group *group, const tdm_work *work, bool done)
{
    if (!done && !group->gave_up)
        say_given_up(group, work);
    if (done && group->said && tell(group, ""))
        group->said = false;
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

/* The last call that a rank of this node has made, where that is not `number` or a later one. */
static void last_call_text(const tdm_group *group, int rank, uint64_t number, char *text, size_t nbytes)
{
    const uint64_t last = atomic_load_explicit(&group->team.board[rank]->started, memory_order_acquire);
    const tdmi_slot *slot = tdmi_team_slot(&group->team, rank, last);
    char call[160], label[TDMI_LABEL_BYTES + 4];
    if (last >= number)
        return;
    if (last == 0) {
        snprintf(text, nbytes, "in no call that is known here, and has made none of this group");
        return;
    }
    if (atomic_load_explicit(&slot->word, memory_order_acquire) >> TDMI_PHASE_BITS != last) /* an engine's call has no slot */
        return;
    tdmi_signature_text(slot->signature, call, sizeof call);
    tdmi_label_text(slot->label, label);
    snprintf(text, nbytes, "in no call that is known here; the last of this group was call %llu, %s%s", (unsigned long long)last, call, label);
}

/* "waits in call 3 of group B, barrier", "is stopped (SIGSTOP)" or, in *lacks, what comes behind "is": where it is in no call. */
static void excuse_of(const tdm_group *group, int rank, uint64_t number, char text[EXCUSE_BYTES], bool *lacks)
{
    const bool has_board = group->team.board != NULL && group->team.board[rank] != NULL;
    int pid;
    text[0] = '\0';
    *lacks = false;
    if (has_board)
        read_words(group->team.board[rank], text);
    else if (group->control != NULL)
        snprintf(text, EXCUSE_BYTES, "%s", group->control[rank].elsewhere);
    if (text[0] != '\0')
        return;
    const char *stop = stop_of(group, rank, &pid);
    if (stop != NULL) {
        snprintf(text, EXCUSE_BYTES, "(process %d) %s", pid, stop);
        return;
    }
    *lacks = true;
    snprintf(text, EXCUSE_BYTES, "in no call that is known here");
    if (has_board)
        last_call_text(group, rank, number, text, EXCUSE_BYTES);
}

void tdmi_group_excuses(const tdm_group *group, const bool *missing, uint64_t number, char *text, size_t nbytes)
{
    char excuse[EXCUSES][EXCUSE_BYTES];
    bool lacks[EXCUSES];
    int rank[EXCUSES], count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < group->size && count < EXCUSES; r++)
        if (missing[r]) {
            rank[count] = r;
            excuse_of(group, r, number, excuse[count], &lacks[count]);
            count++;
        }
    for (int i = 0; i < count && used + 1 < nbytes; i++) {
        char ranks[EXCUSES * 12] = "";
        size_t length = 0;
        int alike = 0;
        if (excuse[i][0] == '\0')
            continue; /* said with one before */
        for (int j = i; j < count; j++)
            if (strcmp(excuse[j], excuse[i]) == 0) {
                alike++;
                length += (size_t)snprintf(ranks + length, sizeof ranks - length, "%s%d", length > 0 ? ", " : "", rank[j]);
                if (j > i)
                    excuse[j][0] = '\0';
            }
        const char *is = !lacks[i] ? "" : alike > 1 ? "are " : "is ";
        used += (size_t)snprintf(text + used, nbytes - used, "; rank%s %s %s%s", alike > 1 ? "s" : "", ranks, is, excuse[i]);
    }
}
