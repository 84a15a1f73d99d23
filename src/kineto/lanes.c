/* lanes.c - a hash table of pairs of pid and tid. */
#include "kineto/lanes.h"

#include "core/memory.h"

static bool is_lane(const tdmi_lane *lane, bool device, tdmi_lane_id pid, tdmi_lane_id tid)
{
    return lane->device == device && lane->pid == pid.number && lane->tid == tid.number && lane->pid_text == pid.text && lane->tid_text == tid.text;
}

static size_t hash(bool device, tdmi_lane_id pid, tdmi_lane_id tid)
{
    uint64_t h = (uint64_t)pid.number * 0x9e3779b97f4a7c15u ^ pid.text;
    h = (h ^ h >> 29) * 0xd6e8feb86659fd93u ^ (uint64_t)tid.number ^ (uint64_t)tid.text << 32;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u + device;
    return (size_t)(h ^ h >> 32);
}

uint32_t tdmi_lanes_find(const tdmi_lanes *lanes, bool device, tdmi_lane_id pid, tdmi_lane_id tid)
{
    if (lanes->slots == 0)
        return TDMI_NONE;
    for (size_t at = hash(device, pid, tid) & (lanes->slots - 1); lanes->slot[at] != 0; at = (at + 1) & (lanes->slots - 1))
        if (is_lane(&lanes->lane[lanes->slot[at] - 1], device, pid, tid))
            return lanes->slot[at] - 1;
    return TDMI_NONE;
}

static void place(tdmi_lanes *lanes, uint32_t number)
{
    const tdmi_lane *lane = &lanes->lane[number];
    const tdmi_lane_id pid = {lane->pid, lane->pid_text}, tid = {lane->tid, lane->tid_text};
    size_t at = hash(lane->device, pid, tid) & (lanes->slots - 1);
    while (lanes->slot[at] != 0)
        at = (at + 1) & (lanes->slots - 1);
    lanes->slot[at] = number + 1;
}

static tdm_status grow(tdmi_lanes *lanes)
{
    const size_t capacity = lanes->capacity == 0 ? 32 : lanes->capacity * 2, slots = capacity * 2;
    tdmi_lane *lane = tdmi_realloc(lanes->lane, capacity * sizeof *lane, "trace lanes");
    if (lane == NULL)
        return TDM_ERR_NO_MEMORY;
    lanes->lane = lane;
    lanes->capacity = capacity;
    uint32_t *slot = tdmi_calloc(slots, sizeof *slot, "trace lanes");
    if (slot == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_free(lanes->slot);
    lanes->slot = slot;
    lanes->slots = slots;
    for (size_t i = 0; i < lanes->count; i++)
        place(lanes, (uint32_t)i);
    return TDM_OK;
}

tdm_status tdmi_lanes_put(tdmi_lanes *lanes, bool device, tdmi_lane_id pid, tdmi_lane_id tid, uint32_t *out)
{
    if (lanes->count > 0 && is_lane(&lanes->lane[lanes->last], device, pid, tid)) {
        *out = lanes->last;
        return TDM_OK;
    }
    *out = tdmi_lanes_find(lanes, device, pid, tid);
    if (*out == TDMI_NONE) {
        if (lanes->count == TDMI_LANES_MAX)
            return TDM_OK;
        if (lanes->count == lanes->capacity || lanes->slots < 2 * lanes->capacity) {
            const tdm_status status = grow(lanes);
            if (status != TDM_OK)
                return status;
        }
        *out = (uint32_t)lanes->count++;
        lanes->lane[*out] = (tdmi_lane){.device = device,
                                        .pid = pid.number,
                                        .tid = tid.number,
                                        .pid_text = pid.text,
                                        .tid_text = tid.text,
                                        .thread_name = TDMI_NONE,
                                        .process_name = TDMI_NONE,
                                        .label = TDMI_NONE};
        place(lanes, *out);
    }
    lanes->last = *out;
    return TDM_OK;
}

void tdmi_lanes_drop(tdmi_lanes *lanes)
{
    tdmi_free(lanes->lane);
    tdmi_free(lanes->slot);
    *lanes = (tdmi_lanes){0};
}

size_t tdmi_lanes_nbytes(const tdmi_lanes *lanes)
{
    return lanes->count * sizeof *lanes->lane + lanes->slots * sizeof *lanes->slot;
}
