/* agreement.c - whether all ranks make the same call, where an engine does it that compares nothing and connects the ranks alone.
 *
 * Beside each call goes a meeting, which adds up two numbers of each rank in a place of its own: whatever the engine makes of
 * calls that differ, the meetings of all ranks meet.
 *     sums[0]   a hash of the call's signature: n times the own one, where all are equal
 *     sums[1]   where only pairs know their parts: hash(from, to, count) for each part that this rank gives, less the same for
 *               each that it expects. What fits cancels out, so the sum is 0
 * So a call costs one small sum more, which is under way together with it, and a call that is over is one that all have made.
 * Only ranks that disagree tell each other what they do; the first that finds a difference ends the group with it. */
#include "group/group.h"

#include <string.h>

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 27) * 0x94d049bb133111ebull;
    return h ^ h >> 31;
}

void tdmi_agreement_sign(const tdm_work *work, int peer, uint8_t signature[TDMI_SIGNATURE_BYTES])
{
    tdmi_call call = work->asked.call;
    call.on_device = !tdmi_group_meets_alone(work->group);
    call.op = tdmi_op_base(call.op); /* a premultiplied sum may have another factor on each rank */
    tdmi_signature_write(&call, work->asked.epilogue != NULL, NULL, work->group->rank, peer, signature);
}

static uint64_t hash_of(const tdm_work *work)
{
    uint8_t signature[TDMI_SIGNATURE_BYTES];
    uint64_t hash = work->run.number, word;
    tdmi_agreement_sign(work, -1, signature);
    for (size_t i = 0; i < sizeof signature; i += sizeof word) {
        memcpy(&word, signature + i, sizeof word);
        hash = mix(hash + 0x9e3779b97f4a7c15ull + word);
    }
    return hash;
}

static uint64_t part(int from, int to, uint64_t count)
{
    return mix(mix((uint64_t)from << 32 | (uint32_t)to) + count);
}

static uint64_t parts_of(const tdm_work *work)
{
    const tdmi_call *call = &work->asked.call;
    const int rank = work->group->rank;
    uint64_t sum = 0;
    for (int r = 0; tdmi_call_is_pairwise(call) && r < work->group->size; r++)
        sum += part(rank, r, tdmi_call_gives(call, rank, r)) - part(r, rank, tdmi_call_expects(call, rank, r));
    return sum;
}

tdm_status tdmi_agreement_begin(tdm_work *work)
{
    tdmi_engine *engine = work->group->engine;
    return engine->ops->meet(engine, (const uint64_t[2]){hash_of(work), parts_of(work)}, &work->meeting);
}

/* The others do the same. What a rank expects of itself nobody else can compare. */
static tdm_status say(const tdm_work *work)
{
    tdm_group *group = work->group;
    const tdmi_call *call = &work->asked.call;
    const size_t gives = tdmi_call_is_pairwise(call) ? tdmi_call_gives(call, group->rank, group->rank) : 0;
    const size_t expects = tdmi_call_is_pairwise(call) ? tdmi_call_expects(call, group->rank, group->rank) : 0;
    uint8_t signature[TDMI_SIGNATURE_BYTES];
    if (gives != expects)
        return tdmi_part_mismatch(group->name, work->run.number, call, work->run.label.text, group->rank, gives, group->rank, expects);
    for (int r = 0; r < group->size; r++) {
        if (r == group->rank)
            continue;
        tdmi_agreement_sign(work, r, signature);
        tdmi_control_send_signature(group, r, work->run.number, signature, &work->run.label);
    }
    return TDM_OK;
}

tdm_status tdmi_agreement_advance(tdm_work *work)
{
    tdm_group *group = work->group;
    bool over = false;
    if (work->meeting == NULL || work->run.number != group->agreed + 1)
        return TDM_OK; /* in order, so that all ranks find the same call first */
    tdm_status status = work->meeting->ops->test(work->meeting, &over);
    if (status != TDM_OK || !over)
        return status;
    const uint64_t all = work->meeting->sums[0], parts = work->meeting->sums[1];
    work->meeting->ops->end(work->meeting);
    work->meeting = NULL;
    for (int r = 0; r < group->size; r++)
        group->team.arrived[r] = work->run.number;
    work->agreed = all == (uint64_t)group->size * hash_of(work) && parts == 0;
    if (!work->agreed)
        return say(work);
    group->agreed = work->run.number;
    return TDM_OK;
}

void tdmi_agreement_hear(tdm_group *group, const tdmi_said *said, uint64_t number)
{
    uint8_t own[TDMI_SIGNATURE_BYTES];
    const tdm_work *work = group->active;
    while (work != NULL && work->run.number != number)
        work = work->next;
    if (work == NULL)
        return;
    tdmi_agreement_sign(work, said->rank, own);
    if (!tdmi_signature_equal(own, said->signature))
        tdmi_group_fail(group, tdmi_signature_mismatch(group->name, number, (tdmi_said){group->rank, own, work->run.label.text}, *said));
}
