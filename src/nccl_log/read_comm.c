/* read_comm.c - communicators: who is which rank, rings, trees, numbers of channels.
 * Formats: init.cc ("Init COMPLETE", "Init START", "Trees", channels), graph/rings.cc ("Channel 00/02 :"). */
#include "nccl_log/tables.h"

/* What stands behind the word that begins with this; false: it is not there. */
static bool find_behind(tdmi_span text, const char *word, tdmi_span *rest)
{
    *rest = tdmi_span_from(text, tdmi_span_find(text, word));
    const bool found = rest->nbytes > 0;
    while (rest->nbytes > 0 && *rest->at != ' ')
        *rest = tdmi_span_from(*rest, 1);
    return found;
}

/* Hexadecimal or decimal value behind a word, as "commId 0x1f". */
static bool find_hex(tdmi_span text, const char *word, uint64_t *out)
{
    tdmi_span rest;
    return find_behind(text, word, &rest) && tdmi_match(rest, " %x", out);
}

static bool find_number(tdmi_span text, const char *word, int64_t *out)
{
    tdmi_span rest;
    return find_behind(text, word, &rest) && tdmi_match(rest, " %d", out);
}

/* What came before the communicator had a name: pairs, the ring, the trees. */
static void claim_pending(tdmi_nccl_log *log, tdmi_nccl_process *process, tdmi_nccl_member *member)
{
    uint32_t *link = &process->pending;
    tdmi_nccl_comm *comm = &log->comm[member->comm];
    for (int steps = 0; *link != TDMI_NCCL_NONE && steps < 16 * TDMI_NCCL_CHAIN_MAX; steps++) {
        tdmi_nccl_pair *pair = &log->pair[*link];
        if ((pair->is_receive ? pair->to : pair->from) != member->rank) {
            link = &pair->next;
            continue;
        }
        pair->comm = member->comm;
        *link = pair->next;
    }
    *link = TDMI_NCCL_NONE; /* whose it is will not be known */
    if (process->rings > 0) {
        comm->ring = process->ring;
        comm->rings = process->rings;
    }
    if (process->trees > 0)
        member->trees = process->trees;
    process->rings = process->trees = 0;
}

/* A communicator without an id: ranks of a job make them in the same order, so the number of those of this size that the process
 * had before tells which one it is. START lines came with ids, so each COMPLETE line is a new one. */
static uint64_t ordinal_id(const tdmi_nccl_log *log, uint32_t process, int64_t ranks)
{
    uint64_t before = 0;
    int steps = 0;
    for (uint32_t m = log->process[process].last_member; m != TDMI_NCCL_NONE && steps++ < TDMI_NCCL_CHAIN_MAX;
         m = log->member[m].next_in_process)
        before += log->comm[log->member[m].comm].ranks == ranks && !log->comm[log->member[m].comm].numbered;
    return before;
}

/* A communicator split from another has no id on its line before 2.29, but a parent, a colour and a count. The parent is a pointer
 * of this process, so only the colour and the size are equal on its ranks. */
static uint64_t split_id(const tdmi_nccl_log *log, uint32_t process, tdmi_span text, int64_t ranks)
{
    int64_t color = 0, count = -1;
    (void)find_number(text, "color", &color);
    if (!find_number(text, "splitCount", &count))
        (void)find_number(text, "childCount", &count);
    if (count < 0)
        count = (int64_t)ordinal_id(log, process, ranks);
    return ((uint64_t)color << 32 ^ (uint64_t)count) | (uint64_t)1 << 63;
}

/* Of one process and rank: the communicator of that size whose COMPLETE line has not come, or NULL. */
static tdmi_nccl_member *started(tdmi_nccl_log *log, uint32_t process, int64_t rank, int64_t ranks)
{
    int steps = 0;
    for (uint32_t m = log->process[process].last_member; m != TDMI_NCCL_NONE && steps++ < TDMI_NCCL_CHAIN_MAX;
         m = log->member[m].next_in_process)
        if (log->member[m].rank == rank && log->comm[log->member[m].comm].ranks == ranks && !log->member[m].complete)
            return &log->member[m];
    return NULL;
}

static bool read_init(const tdmi_nccl_place *place, tdmi_span text)
{
    tdmi_nccl_log *log = place->log;
    int64_t rank, ranks, device;
    uint64_t id, parent;
    const bool complete = tdmi_span_has(text, "Init COMPLETE");
    if (!complete && !tdmi_span_has(text, "Init START"))
        return false;
    const tdmi_span from = tdmi_span_from(text, tdmi_span_find(text, "comm 0x"));
    if (!tdmi_match(from, "comm %x rank %d nranks %d cudaDev %d", &id, &rank, &ranks, &device) || ranks < 1 || rank < 0 || rank >= ranks)
        return false;
    const bool numbered = find_hex(from, "commId", &id), split = !numbered && find_hex(from, "parent 0x", &parent);
    tdmi_nccl_member *member = complete ? started(log, place->process, rank, ranks) : NULL;
    if (member == NULL) {
        if (!numbered)
            id = split ? split_id(log, place->process, from, ranks) : ordinal_id(log, place->process, ranks);
        const uint32_t comm = tdmi_nccl_comm_of(log, id, ranks, numbered || split);
        member = comm != TDMI_NCCL_NONE ? tdmi_nccl_member_of(log, comm, place->process, rank) : NULL;
    }
    if (member == NULL)
        return true;
    tdmi_nccl_process *process = &log->process[place->process];
    member->complete |= complete;
    process->device = device;
    claim_pending(log, process, member);
    return true;
}

/* The communicator whose START came last and whose COMPLETE has not come, or NULL: before 2.18 only the latter is written, at the end. */
static tdmi_nccl_member *being_made(tdmi_nccl_log *log, const tdmi_nccl_process *process)
{
    tdmi_nccl_member *last = process->last_member != TDMI_NCCL_NONE ? &log->member[process->last_member] : NULL;
    return last != NULL && !last->complete ? last : NULL;
}

/* "Channel 00/02 :    0   1   2   3" by rank 0; "Channel 00 :" before 2.5. Lines of pairs have an arrow. */
static bool read_ring(const tdmi_nccl_place *place, tdmi_span text)
{
    tdmi_nccl_log *log = place->log;
    int64_t channel, channels = 0;
    tdmi_span order;
    if (!tdmi_match(text, "Channel %d/%d :%r", &channel, &channels, &order) && !tdmi_match(text, "Channel %d :%r", &channel, &order))
        return false;
    if (tdmi_span_has(order, "->"))
        return false;
    while (order.nbytes > 0 && *order.at == ' ')
        order = tdmi_span_from(order, 1);
    tdmi_nccl_process *process = &log->process[place->process];
    tdmi_nccl_member *member = being_made(log, process);
    int64_t *rings = member != NULL ? &log->comm[member->comm].rings : &process->rings;
    if (channels <= 0 && channel < INT64_MAX)
        channels = channel + 1;
    if (channels > *rings)
        *rings = channels;
    if (channel == 0)
        *(member != NULL ? &log->comm[member->comm].ring : &process->ring) = tdmi_nccl_name(log, order);
    return true;
}

/* "Trees [0] 1/-1/-1->0->-1 [1] ..." since 2.8, "[0] 1/-1/-1->0->-1|..." in 2.6 and 2.7, "[0] -1->0->1/-1/-1" before. */
static bool read_trees(const tdmi_nccl_place *place, tdmi_span text)
{
    tdmi_nccl_log *log = place->log;
    tdmi_span rest, entry;
    int64_t number, trees = 0;
    if (!tdmi_match(text, "Trees%r", &rest) || !tdmi_span_has(rest, "->"))
        return false;
    while (tdmi_match(rest, " [%d] %w%@", &number, &entry, &rest))
        trees++;
    tdmi_nccl_process *process = &log->process[place->process];
    tdmi_nccl_member *member = being_made(log, process);
    *(member != NULL ? &member->trees : &process->trees) = trees;
    return true;
}

static bool read_channels(tdmi_nccl_process *process, tdmi_span text)
{
    tdmi_span rest;
    int64_t number;
    if (!tdmi_match(text, "%d coll channels%@", &number, &rest))
        return false;
    process->channels = number;
    (void)tdmi_match(rest, ", %d collnet channels%@", &number, &rest);
    if (tdmi_match(rest, ", %d nvls channels", &number))
        process->nvls_channels = number;
    return true;
}

bool tdmi_nccl_read_comm(const tdmi_nccl_place *place)
{
    tdmi_nccl_log *log = place->log;
    const tdmi_span text = place->record->text;
    int64_t rank, ranks, nodes;
    uint64_t pointer;
    tdmi_span rest;
    if (read_init(place, text) || read_ring(place, text) || read_trees(place, text) || read_channels(&log->process[place->process], text))
        return true;
    if (tdmi_match(text, "rank %d Connected CollNet", &rank) || tdmi_span_starts(text, "Connected collnet + chain") ||
        tdmi_span_starts(text, "Connected Collnet Chains")) {
        log->process[place->process].collnet = true;
        return true;
    }
    if (tdmi_match(text, "comm %x rank %d nRanks %d nNodes %d%@", &pointer, &rank, &ranks, &nodes, &rest)) {
        const uint32_t member = log->process[place->process].last_member;
        if (member != TDMI_NCCL_NONE && log->comm[log->member[member].comm].ranks == ranks)
            log->comm[log->member[member].comm].nodes = nodes;
        return true;
    }
    return false;
}
