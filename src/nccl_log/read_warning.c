/* read_warning.c - warnings, sorted by what is behind them, and the few information lines that explain others.
 * Formats: transport/net_ib.cc (net_ib/p2p.cc since 2.29), include/socket.h, misc/socket.cc and os/linux.cc, misc/shmutils.cc,
 * include/shm.h, proxy.cc, graph/paths.cc, transport/p2p.cc, transport.cc, init.cc, bootstrap.cc. */
#include "nccl_log/tables.h"

/* A piece of a text, and what it means. The first that fits counts. */
static const struct {
    const char *piece;
    tdmi_nccl_message_kind kind;
} meanings[] = {
    {"Got async event", TDMI_NCCL_IB_EVENT},
    {"Got async error event", TDMI_NCCL_IB_EVENT},
    {"Got non-fatal async event", TDMI_NCCL_IB_EVENT},
    {"Mismatched NCCL version detected", TDMI_NCCL_VERSIONS},
    {"Duplicate GPU detected", TDMI_NCCL_SAME_GPU},
    {"Multiple ranks detected using the same GPU", TDMI_NCCL_SAME_GPU},
    {"Multiple Ranks are using the same GPU", TDMI_NCCL_SAME_GPU},
    {"no socket interface found", TDMI_NCCL_NO_INTERFACE},
    {"NET/Socket : no interface found", TDMI_NCCL_NO_INTERFACE},
    {"No usable listening interface found", TDMI_NCCL_NO_INTERFACE},
    {"No IP interface found", TDMI_NCCL_NO_INTERFACE},
    {"No interface found in the same subnet", TDMI_NCCL_NO_INTERFACE},
    {"no device found matching", TDMI_NCCL_NO_INTERFACE},
    {"no device found after excluding", TDMI_NCCL_NO_INTERFACE},
    {"/dev/shm", TDMI_NCCL_SHM_SPACE},
    {"posix_fallocate failed", TDMI_NCCL_SHM_SPACE},
    {"shared memory segment", TDMI_NCCL_SHM_SPACE},
    {"create shared memory file", TDMI_NCCL_SHM_SPACE},
    {"Unable to allocate shared memory", TDMI_NCCL_SHM_SPACE},
    {"ibv_reg_mr", TDMI_NCCL_MEMLOCK},
    {"ibv_create_qp failed with error Cannot allocate memory", TDMI_NCCL_MEMLOCK},
    {"ibv_create_cq failed with error Cannot allocate memory", TDMI_NCCL_MEMLOCK},
    {"P2P is disabled between NVLINK connected GPUs", TDMI_NCCL_P2P_BROKEN},
    {"Cannot initialize CollNet", TDMI_NCCL_COLLNET_LOST},
    {"CollNet is not supported", TDMI_NCCL_COLLNET_LOST},
    {"CollNet currently only supports", TDMI_NCCL_COLLNET_LOST},
    {"bind NVLink SHARP", TDMI_NCCL_COLLNET_LOST},
    {"Connection closed by remote peer", TDMI_NCCL_CLOSED},
    {"Connection reset by peer", TDMI_NCCL_CLOSED},
    {"Broken pipe", TDMI_NCCL_CLOSED},
    {"Connect to ", TDMI_NCCL_CONNECT},
    {"connect to ", TDMI_NCCL_CONNECT},
    {"Call to connect", TDMI_NCCL_CONNECT},
    {"exceeded retries", TDMI_NCCL_CONNECT},
    {"exceeded timeouts", TDMI_NCCL_CONNECT},
    {"exceeded error retry count", TDMI_NCCL_CONNECT},
    {"Connection timed out", TDMI_NCCL_CONNECT},
    {"Connection refused", TDMI_NCCL_CONNECT},
    {"No route to host", TDMI_NCCL_CONNECT},
    {"ibv_modify_qp failed", TDMI_NCCL_CONNECT},
    {"Call to recv from", TDMI_NCCL_CLOSED},
    {"Cuda failure", TDMI_NCCL_CUDA},
};

/* Information lines that are kept because they say why something is as it is. */
static const struct {
    const char *piece;
    tdmi_nccl_message_kind kind;
} notes[] = {
    {"Could not enable P2P between", TDMI_NCCL_NOTE}, {"P2P is disabled between connected GPUs", TDMI_NCCL_NOTE},
    {"Legacy IPC not supported", TDMI_NCCL_NOTE},     {"peer query failed between", TDMI_NCCL_NOTE},
    {"disabling CollNet", TDMI_NCCL_COLLNET_LOST},    {"Failed to bind NVLink SHARP", TDMI_NCCL_COLLNET_LOST},
    {"Failed to open libibverbs", TDMI_NCCL_NOTE},    {"Duplicate GPU detected", TDMI_NCCL_SAME_GPU},
};

/* "status=12", "status=IBV_WC_RETRY_EXC_ERR(12)" or, before 2.20, "error 12": numbers of libibverbs' ibv_wc_status. */
static tdmi_nccl_message_kind completion(tdmi_span text)
{
    int64_t status = -1;
    tdmi_span name;
    const size_t at = tdmi_span_find(text, "status="), old = tdmi_span_find(text, "with error ");
    if (at < text.nbytes) {
        if (!tdmi_match(tdmi_span_from(text, at), "status=%d", &status))
            (void)tdmi_match(tdmi_span_from(text, at), "status=%w(%d)", &name, &status);
    } else
        (void)tdmi_match(tdmi_span_from(text, old), "with error %d", &status);
    return status == 12                                                ? TDMI_NCCL_IB_TIMEOUT
           : status == 13                                              ? TDMI_NCCL_IB_NOT_READY
           : status == 5                                               ? TDMI_NCCL_IB_FLUSHED
           : status == 4 || status == 8 || status == 9 || status == 10 ? TDMI_NCCL_IB_ACCESS
                                                                       : TDMI_NCCL_IB_ERROR;
}

static tdmi_nccl_message_kind kind_of(tdmi_span text, bool warning)
{
    if (tdmi_span_has(text, "Got completion "))
        return completion(text);
    for (size_t i = 0; warning && i < sizeof meanings / sizeof *meanings; i++)
        if (tdmi_span_has(text, meanings[i].piece))
            return meanings[i].kind;
    for (size_t i = 0; !warning && i < sizeof notes / sizeof *notes; i++)
        if (tdmi_span_has(text, notes[i].piece))
            return notes[i].kind;
    return TDMI_NCCL_WARNING;
}

/* An address like "10.0.0.2<54321>" or "fe80::1%eth0<1>": the text before "<" of a number. */
static const char *peer_of(tdmi_nccl_log *log, tdmi_span text)
{
    int64_t port;
    for (size_t i = 1; i < text.nbytes; i++) {
        if (text.at[i] != '<' || !tdmi_match(tdmi_span_from(text, i), "<%d>", &port))
            continue;
        size_t first = i;
        while (first > 0 && text.at[first - 1] != ' ' && text.at[first - 1] != '[')
            first--;
        return tdmi_nccl_name(log, (tdmi_span){text.at + first, i - first});
    }
    return "";
}

/* A rank that the text names: "from rank 3, retcode 2", "Proxy Call to rank 3 failed". */
static int64_t rank_of(tdmi_span text)
{
    int64_t rank;
    size_t at = tdmi_span_find(text, "from rank ");
    if (tdmi_match(tdmi_span_from(text, at), "from rank %d", &rank))
        return rank;
    at = tdmi_span_find(text, "to rank ");
    return tdmi_match(tdmi_span_from(text, at), "to rank %d", &rank) ? rank : -1;
}

bool tdmi_nccl_read_warning(const tdmi_nccl_place *place)
{
    tdmi_nccl_log *log = place->log;
    const tdmi_nccl_record *record = place->record;
    const tdmi_nccl_message_kind kind = kind_of(record->text, record->warning);
    if (!record->warning && kind == TDMI_NCCL_WARNING)
        return false;
    log->warnings += record->warning;
    const tdmi_nccl_message key = {.kind = kind,
                                   .process = place->process,
                                   .file = place->file,
                                   .order = log->lines,
                                   .time_s = record->time_s,
                                   .rank = rank_of(record->text),
                                   .peer = peer_of(log, record->text),
                                   .op = "",
                                   .text = tdmi_nccl_name(log, record->text),
                                   .source = tdmi_nccl_name(log, record->source)};
    tdmi_nccl_message *message = tdmi_nccl_message_add(log, &key);
    if (message != NULL)
        message->count++;
    return true;
}
