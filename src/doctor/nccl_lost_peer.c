/* nccl_lost_peer.c - time-outs and errors of connections: who failed first, and whom it lost. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>

typedef struct loss {
    tdmi_nccl_message_kind kind;
    const char *what, *set, *not_when, *source;
    bool timeout;
} loss;

static const loss losses[] = {
    {TDMI_NCCL_IB_TIMEOUT, "the transport's retries were used up (completion status 12): no answer came from the other adapter",
     "Look at the link first (`ibstat`, `ibqueryerrors`, `rdma link`, the switch's port counters; on RoCE the GID: NCCL_IB_GID_INDEX, and "
     "PFC); for fabrics that are slow to reroute set "
     "NCCL_IB_TIMEOUT=22 and keep NCCL_IB_RETRY_CNT at 7",
     "the peer's process had ended before (its log shows it): then this is what follows, not the cause",
     TDMI_NCCL_DOCS "#nccl-ib-timeout, #nccl-ib-retry-cnt; transport/net_ib", true},
    {TDMI_NCCL_IB_NOT_READY, "the receiver was not ready (completion status 13)",
     "Read the peer's log: it stopped posting buffers, usually because it had failed or hangs", "never", "transport/net_ib", true},
    {TDMI_NCCL_IB_ACCESS, "an adapter refused access to memory (completion status 4, 8, 9 or 10)",
     "Switch off ACS and the IOMMU's translation (`iommu=pt`), or try NCCL_NET_GDR_LEVEL=LOC: if that helps, GPUDirect's path is broken",
     "it happens once after another rank failed", "transport/net_ib; NCCL's troubleshooting page, PCI Access Control Services", false},
    {TDMI_NCCL_IB_EVENT, "an adapter reported an event", "Check the port and the cable (`ibstat`, `dmesg | grep mlx5`)",
     "the event is 'port active' or a change of the GID table", "transport/net_ib", false},
    {TDMI_NCCL_IB_ERROR, "a completion of the adapter failed", "Look at the link and the adapter's log (`dmesg | grep mlx5`)",
     "another rank failed before", "transport/net_ib", false},
    {TDMI_NCCL_CONNECT, "a connection could not be made",
     "Check that the hosts reach each other by the interface of NCCL_SOCKET_IFNAME (firewall: all ports between the hosts), and on RoCE "
     "NCCL_IB_GID_INDEX",
     "the peer had ended before", TDMI_NCCL_DOCS "#nccl-socket-ifname, #nccl-ib-gid-index; misc/socket.cc", false},
    {TDMI_NCCL_CLOSED, "the peer closed its connection",
     "Read the peer's own log and the kernel's (dmesg: out of memory): a rank that ends or is killed closes its sockets, and all others "
     "report that",
     "never: this rank is not the cause", "misc/socket.cc", false},
    {TDMI_NCCL_IB_FLUSHED, "requests were flushed (completion status 5) after another error of the queue",
     "Read the warnings before it, of this rank and of the peer", "never", "transport/net_ib", false},
    {TDMI_NCCL_WATCHDOG, "PyTorch's watchdog gave up waiting for a collective",
     "Find the rank that did not make the call: set TORCH_FR_BUFFER_SIZE (before 2.8 TORCH_NCCL_TRACE_BUFFER_SIZE) and give tandem doctor "
     "the dumps. A call that is only slow needs "
     "init_process_group(timeout=...)",
     "the first collective loads modules or data for longer than the time-out", "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp", true},
};

/* NULL: a message of something else. */
static const loss *loss_of(const tdmi_nccl_message *message)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (losses[i].kind == message->kind)
            return &losses[i];
    return NULL;
}

/* Whether a is before b: by the clock where both lines have one, else by their places where both are of one file. */
static bool is_before(const tdmi_nccl_message *a, const tdmi_nccl_message *b)
{
    if (a->time_s >= 0 && b->time_s >= 0 && a->time_s != b->time_s)
        return a->time_s < b->time_s;
    return a->order < b->order;
}

/* What follows from another error speaks last: flushes, closed sockets, the watchdog. */
static int consequence(tdmi_nccl_message_kind kind)
{
    return kind == TDMI_NCCL_WATCHDOG ? 2 : kind == TDMI_NCCL_IB_FLUSHED || kind == TDMI_NCCL_CLOSED ? 1 : 0;
}

/* Clocks and files do not say what was first, when lines have no time and are of different files. */
static bool order_is_known(const tdmi_nccl_message *a, const tdmi_nccl_message *b)
{
    return a->file == b->file || (a->time_s >= 0 && b->time_s >= 0);
}

static uint32_t process_of_rank(const tdmi_nccl_log *log, int64_t rank)
{
    for (uint32_t p = 0; p < log->processes && rank >= 0; p++)
        if (tdmi_nccl_rank_of(log, p) == rank)
            return p;
    return TDMI_NCCL_NONE;
}

/* "rank 3 (node1)" */
static int64_t name_rank(const tdmi_nccl_log *log, const tdmi_nccl_message *message, char *text, size_t nbytes)
{
    uint32_t process = message->process;
    const int64_t rank = process != TDMI_NCCL_NONE ? tdmi_nccl_rank_of(log, process) : message->rank;
    if (process == TDMI_NCCL_NONE)
        process = process_of_rank(log, rank);
    char number[32] = "a rank";
    if (rank >= 0)
        snprintf(number, sizeof number, "rank %lld", (long long)rank);
    if (process != TDMI_NCCL_NONE)
        snprintf(text, nbytes, "%s (%s, process %lld)", number, log->host[log->process[process].host].name,
                 (long long)log->process[process].pid);
    else
        snprintf(text, nbytes, "%s", number);
    return rank;
}

/* "node2 (10.0.0.2, ranks 4 to 7)", and the host as evidence; "" where the text names no peer. */
static void name_peer(const tdmi_nccl_log *log, const tdmi_nccl_message *message, char *text, size_t nbytes, const char **host_out)
{
    const uint32_t host = tdmi_nccl_host_at(log, message->peer);
    int64_t low = INT64_MAX, high = -1;
    text[0] = '\0';
    *host_out = "";
    if (message->peer[0] == '\0')
        return;
    for (uint32_t p = 0; p < log->processes && host != TDMI_NCCL_NONE; p++)
        if (log->process[p].host == host && log->process[p].rank >= 0) {
            low = log->process[p].rank < low ? log->process[p].rank : low;
            high = log->process[p].rank > high ? log->process[p].rank : high;
        }
    if (host == TDMI_NCCL_NONE)
        snprintf(text, nbytes, "%s", message->peer);
    else {
        *host_out = log->host[host].name;
        if (high >= 0 && high != low)
            snprintf(text, nbytes, "%s (%s, ranks %lld to %lld)", *host_out, message->peer, (long long)low, (long long)high);
        else if (high >= 0)
            snprintf(text, nbytes, "%s (%s, rank %lld)", *host_out, message->peer, (long long)low);
        else
            snprintf(text, nbytes, "%s (%s)", *host_out, message->peer);
    }
}

static json_t *list_all(const tdmi_nccl_log *log)
{
    json_t *list = json_array();
    for (uint32_t m = 0; m < log->messages && json_array_size(list) < 32; m++) {
        const tdmi_nccl_message *message = &log->message[m];
        char rank[320], peer[320];
        const char *host;
        if (loss_of(message) == NULL)
            continue;
        const int64_t number = name_rank(log, message, rank, sizeof rank);
        name_peer(log, message, peer, sizeof peer, &host);
        json_array_append_new(list,
                              json_pack("{s:I, s:s, s:s, s:s, s:s, s:I}", "rank", (json_int_t)number, "peer", message->peer, "peer_host",
                                        host, "text", message->text, "from", message->source, "times", (json_int_t)message->count));
    }
    return list;
}

/* A process that wrote such a message, counted once. */
static int64_t count_ranks(const tdmi_nccl_log *log)
{
    int64_t ranks = 0;
    for (uint32_t m = 0; m < log->messages; m++) {
        bool seen = loss_of(&log->message[m]) == NULL;
        for (uint32_t o = 0; o < m && !seen; o++)
            seen = loss_of(&log->message[o]) != NULL && log->message[o].process == log->message[m].process &&
                   (log->message[m].process != TDMI_NCCL_NONE || log->message[o].rank == log->message[m].rank);
        ranks += !seen;
    }
    return ranks;
}

void tdmi_find_nccl_lost_peer(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    const tdmi_nccl_message *first = NULL;
    int64_t times = 0;
    bool sure = true;
    char who[320], peer[320], text[2048];
    const char *host;
    for (uint32_t m = 0; m < log->messages; m++) {
        const tdmi_nccl_message *message = &log->message[m];
        if (loss_of(message) == NULL ||
            (message->kind == TDMI_NCCL_IB_EVENT &&
             (strstr(message->text, "port active") != NULL || strstr(message->text, "GID table change") != NULL)))
            continue;
        times += message->count;
        if (first != NULL && consequence(first->kind) == consequence(message->kind))
            sure &= order_is_known(first, message);
        if (first == NULL || consequence(message->kind) < consequence(first->kind) ||
            (consequence(message->kind) == consequence(first->kind) && is_before(message, first)))
            first = message;
    }
    if (first == NULL)
        return;
    const loss *how = loss_of(first);
    const int64_t rank = name_rank(log, first, who, sizeof who), ranks = count_ranks(log);
    name_peer(log, first, peer, sizeof peer, &host);
    snprintf(text, sizeof text, "%s %s%s%s: %s%s%s; %s%lld such line%s of %lld rank%s", who,
             first->kind == TDMI_NCCL_WATCHDOG ? "timed out" : "lost its peer", peer[0] != '\0' ? " on " : "", peer, how->what,
             first->op[0] != '\0' ? " " : "", first->op,
             sure ? "it is the first of " : "which was first is not known (files without clocks); in all ", (long long)times,
             times == 1 ? "" : "s", (long long)ranks, ranks == 1 ? "" : "s");
    tdmi_nccl_add(report, how->timeout ? "nccl_timeout" : "nccl_remote_error", TDMI_ERROR, rank,
                  json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:o}", "text", first->text, "from", first->source, "peer", first->peer,
                            "peer_host", host, "first_is_known", sure, "lines", (json_int_t)times, "ranks", (json_int_t)ranks, "all",
                            list_all(log)),
                  text, how->set, how->not_when, how->source);
}
