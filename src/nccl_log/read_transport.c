/* read_transport.c - the way of each pair of ranks. Formats: transport/p2p.cc, shm.cc, net.cc, coll_net.cc:
 *   Ring 00 : 0[0] -> 1[1] via P2P/IPC                                           2.4 to 2.6 ("Channel" since)
 *   Channel 00 : 0[1a000] -> 1[1b000] via direct shared memory                   to 2.12
 *   Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA                    since 2.12
 *   Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0(0)/GDRDMA(PCI)/Shared        PXN through rank 0
 *   CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA */
#include "nccl_log/tables.h"

#include <string.h>

const char *const tdmi_nccl_kind_name[] = {"P2P", "SHM", "NET", "COLLNET"};

/* "8[0]" or, of networks in 2.4, "8". */
static bool take_rank(tdmi_span *text, int64_t *rank)
{
    uint64_t device;
    tdmi_span rest;
    if (!tdmi_match(*text, " %d%@", rank, &rest) || *rank < 0)
        return false;
    (void)tdmi_match(rest, "[%x]%@", &device, &rest);
    *text = rest;
    return true;
}

/* "IB/0/GDRDMA", "AWS Libfabric/3(0)/GDRDMA/Shared": the name ends before the last slash with a number behind it. */
static void read_net(tdmi_nccl_log *log, tdmi_span way, tdmi_nccl_pair *pair, int64_t *device)
{
    size_t end = way.nbytes;
    for (size_t i = 0; i + 1 < way.nbytes; i++)
        if (way.at[i] == '/' && tdmi_match(tdmi_span_from(way, i), "/%d", device)) {
            end = i;
            break;
        }
    pair->way = tdmi_nccl_name(log, (tdmi_span){way.at, end});
    pair->gdr = tdmi_span_has(tdmi_span_from(way, end), "/GDRDMA");
}

/* The newest communicator in which this process is that rank. */
static uint32_t comm_of(const tdmi_nccl_log *log, uint32_t process, int64_t own, int64_t other)
{
    int steps = 0;
    for (uint32_t m = log->process[process].last_member; m != TDMI_NCCL_NONE && steps++ < TDMI_NCCL_CHAIN_MAX;
         m = log->member[m].next_in_process)
        if (log->member[m].rank == own && log->comm[log->member[m].comm].ranks > other)
            return log->member[m].comm;
    return TDMI_NCCL_NONE;
}

static void add(const tdmi_nccl_place *place, tdmi_nccl_pair *pair, int64_t device)
{
    const int64_t own = pair->is_receive ? pair->to : pair->from, other = pair->is_receive ? pair->from : pair->to;
    pair->process = place->process;
    pair->comm = comm_of(place->log, place->process, own, other);
    pair->next = TDMI_NCCL_NONE;
    tdmi_nccl_pair *kept = tdmi_nccl_pair_of(place->log, pair);
    if (kept == NULL)
        return;
    kept->channels++;
    if (device >= 0 && device < 64)
        kept->devices |= (uint64_t)1 << device;
}

static bool read_collnet(const tdmi_nccl_place *place, tdmi_span text)
{
    tdmi_nccl_pair pair = {.kind = TDMI_NCCL_COLLNET, .to = -1};
    int64_t channel, connection, device = -1;
    tdmi_span rest;
    if (!tdmi_match(text, "Coll%*%@", &rest)) /* "Coll 00", "CollNet 00/0" */
        return false;
    if (!tdmi_match(rest, " %d/%d : %d%@", &channel, &connection, &pair.from, &rest) &&
        !tdmi_match(rest, " %d : %d%@", &channel, &pair.from, &rest))
        return false;
    pair.is_receive = tdmi_span_starts(rest, " [receive]");
    const size_t via = tdmi_span_find(rest, "via COLLNET/");
    if (via == rest.nbytes || pair.from < 0)
        return false;
    if (pair.is_receive) {
        pair.to = pair.from;
        pair.from = -1;
    }
    read_net(place->log, tdmi_span_from(rest, via + strlen("via COLLNET/")), &pair, &device);
    add(place, &pair, device);
    return true;
}

bool tdmi_nccl_read_transport(const tdmi_nccl_place *place)
{
    tdmi_nccl_pair pair = {0};
    int64_t channel, connection, device = -1;
    tdmi_span rest;
    const tdmi_span text = place->record->text;
    if (tdmi_span_starts(text, "Coll"))
        return read_collnet(place, text);
    if (!tdmi_match(text, "Channel %d%@", &channel, &rest) && !tdmi_match(text, "Ring %d%@", &channel, &rest))
        return false;
    (void)tdmi_match(rest, "/%d%@", &connection, &rest);
    if (!tdmi_match(rest, " :%@", &rest) || !take_rank(&rest, &pair.from) || !tdmi_match(rest, " ->%@", &rest) ||
        !take_rank(&rest, &pair.to))
        return false;
    pair.is_receive = tdmi_match(rest, " [receive]%@", &rest);
    if (!pair.is_receive)
        (void)tdmi_match(rest, " [send]%@", &rest);
    if (!tdmi_match(rest, " via %@", &rest)) /* "Ring 00 : 3 -> 0 -> 1" of NCCL_DEBUG_SUBSYS=GRAPH */
        return tdmi_span_starts(text, "Ring");
    if (tdmi_match(rest, "P2P/%@", &rest)) {
        pair.kind = TDMI_NCCL_P2P;
        if (tdmi_span_starts(rest, "indirect/"))
            rest = tdmi_span_of("indirect");
        pair.way = tdmi_nccl_name(place->log, rest);
    } else if (tdmi_match(rest, "NET/%@", &rest)) {
        pair.kind = TDMI_NCCL_NET;
        read_net(place->log, rest, &pair, &device);
    } else if (tdmi_match(rest, "SHM/%@", &rest) || tdmi_span_starts(rest, "direct shared memory")) {
        pair.kind = TDMI_NCCL_SHM;
        pair.way = tdmi_nccl_name(place->log, tdmi_span_starts(rest, "direct shared") ? tdmi_span_of("direct") : rest);
    } else
        return false;
    add(place, &pair, device);
    return true;
}
