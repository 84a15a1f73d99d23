/* reader.c - reading memory that a peer process has for itself (malloc), by process_vm_readv: one copy instead of two.
 *
 * Whether the kernel lets ranks do so (ptrace scope, seccomp, user namespaces) nobody can tell without trying, so each rank
 * reads a random word of each peer when they have met, and leaves what came of it in its control page. When all have met again
 * everyone looks at all pages: the answer is yes only where everyone can read everyone, so it is the same on all ranks.
 *
 * A peer is known by the process that opened its door and proved that it knows the job's secret. If that process dies and its
 * number goes to another one, what is read is thrown away: a call ends with a meeting, to which the dead rank does not come. */
#include "transport/shm/node_parts.h"

#include "core/config.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

enum { UNKNOWN, READS, DOES_NOT };

/* 0, or errno. */
static int read_memory(int pid, void *to, uint64_t from, size_t nbytes)
{
    while (nbytes > 0) {
        const struct iovec local = {.iov_base = to, .iov_len = nbytes};
        const struct iovec remote = {.iov_base = (void *)(uintptr_t)from, .iov_len = nbytes};
        ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EFAULT;
        to = (char *)to + got;
        from += (uint64_t)got;
        nbytes -= (size_t)got;
    }
    return 0;
}

/* 0, or why this rank does not read that peer. */
static int probe(const tdmi_node *node, int rank)
{
    const tdmi_node_peer *peer = &node->peers[rank];
    uint64_t word = 0;
    if (peer->same_process)
        return 0;
    if (peer->pid <= 0)
        return ESRCH; /* its process has no number here: another pid namespace */
    int error = read_memory(peer->pid, &word, peer->control->probe_address, sizeof word);
    return error != 0 ? error : word == peer->control->probe_word ? 0 : EIO;
}

tdm_status tdmi_reader_open(tdmi_node *node)
{
    tdmi_control *own = node->peers[node->rank].control;
    const char *text = tdmi_config_text(TDMI_CONFIG_CMA);
    if (strcmp(text, "auto") != 0 && strcmp(text, "off") != 0)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_CMA=%s is neither auto nor off", text);
    if (getrandom(&node->probe_word, sizeof node->probe_word, 0) != (ssize_t)sizeof node->probe_word)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot draw a random number");
    own->probe_word = node->probe_word;
    own->probe_address = (uint64_t)(uintptr_t)&node->probe_word;
    return TDM_OK;
}

void tdmi_node_probe_reading(tdmi_node *node)
{
    tdmi_control *own = node->peers[node->rank].control;
    uint32_t verdict = READS;
    if (strcmp(tdmi_config_text(TDMI_CONFIG_CMA), "off") == 0) {
        verdict = DOES_NOT;
        own->unread_rank = -1;
    }
    for (int r = 0; r < node->world_size && verdict == READS; r++) {
        const int error = r == node->rank || node->peers[r].fd < 0 ? 0 : probe(node, r);
        if (error == 0)
            continue;
        own->unread_rank = r;
        own->unread_error = error;
        verdict = DOES_NOT;
    }
    atomic_store_explicit(&own->reads, verdict, memory_order_release); /* pairs with tdmi_node_reads */
}

/* The first rank that does not read all others, or -1. */
static int find_refusal(const tdmi_node *node)
{
    for (int r = 0; r < node->world_size; r++)
        if (node->peers[r].control != NULL &&
            atomic_load_explicit(&node->peers[r].control->reads, memory_order_acquire) != READS)
            return r;
    return -1;
}

bool tdmi_node_reads(const tdmi_node *node, char why[TDMI_READING_TEXT_MAX])
{
    const int r = find_refusal(node);
    if (r < 0) {
        snprintf(why, TDMI_READING_TEXT_MAX, "process_vm_readv works between all ranks of this node");
        return true;
    }
    const tdmi_control *control = node->peers[r].control;
    if (control->unread_rank < 0)
        snprintf(why, TDMI_READING_TEXT_MAX, "rank %d has TANDEM_CMA=off", r);
    else
        snprintf(why, TDMI_READING_TEXT_MAX, "rank %d cannot read the memory of rank %d: process_vm_readv: %s%s", r,
                 control->unread_rank, strerror(control->unread_error),
                 control->unread_error == EPERM ? " (ptrace scope, seccomp or a user namespace forbids it)" : "");
    return false;
}

tdm_status tdmi_node_read(const tdmi_node *node, int rank, void *to, const void *from, size_t nbytes)
{
    const tdmi_node_peer *peer = &node->peers[rank];
    if (peer->same_process) {
        memcpy(to, from, nbytes);
        return TDM_OK;
    }
    const int error = read_memory(peer->pid, to, (uint64_t)(uintptr_t)from, nbytes);
    if (error == 0)
        return TDM_OK;
    if (error == ESRCH)
        return tdmi_fail(TDM_ERR_PEER_LOST, "rank %d was gone when its memory was to be read", rank);
    return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot read %zu bytes at %p of rank %d; TANDEM_CMA=off goes without", nbytes,
                           from, rank);
}
