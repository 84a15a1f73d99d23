/* frame.c - type 1, zero 3, payload bytes 4, number 8. */
#include "transport/frame.h"

#include "core/label.h"
#include "transport/bytes.h"

/* Largest payload of each type, and smallest. */
static const struct {
    uint32_t least, most;
} sizes[] = {
    [TDMI_FRAME_DATA] = {1, TDMI_FRAME_DATA_MAX},
    [TDMI_FRAME_SIGNATURE] = {24, 24 + TDMI_LABEL_BYTES - 1},
    [TDMI_FRAME_ARRIVED] = {0, 0},
    [TDMI_FRAME_FAILURE] = {0, TDMI_FRAME_TEXT_MAX},
    [TDMI_FRAME_GOODBYE] = {0, 0},
    [TDMI_FRAME_MESSAGE] = {TDMI_FRAME_MESSAGE_HEAD, TDMI_FRAME_MESSAGE_HEAD + 4096},
    [TDMI_FRAME_PULL] = {0, 0},
    [TDMI_FRAME_TAKEN] = {0, 0},
    [TDMI_FRAME_CREDIT] = {0, 0},
    [TDMI_FRAME_ELSEWHERE] = {0, TDMI_FRAME_TEXT_MAX},
};

void tdmi_frame_write(const tdmi_frame *frame, uint8_t out[TDMI_FRAME_HEAD])
{
    out[0] = (uint8_t)frame->type;
    out[1] = out[2] = out[3] = 0;
    tdmi_put_u32(out + 4, frame->nbytes);
    tdmi_put_u64(out + 8, frame->number);
}

bool tdmi_frame_read(const uint8_t in[TDMI_FRAME_HEAD], tdmi_frame *out)
{
    const unsigned type = in[0];
    if (type < TDMI_FRAME_DATA || type > TDMI_FRAME_ELSEWHERE || in[1] != 0 || in[2] != 0 || in[3] != 0)
        return false;
    *out = (tdmi_frame){.type = (tdmi_frame_type)type, .nbytes = tdmi_get_u32(in + 4), .number = tdmi_get_u64(in + 8)};
    return out->nbytes >= sizes[type].least && out->nbytes <= sizes[type].most;
}

tdm_status tdmi_frame_refuse(const uint8_t in[TDMI_FRAME_HEAD])
{
    return tdmi_fail(TDM_ERR_PEER_LOST, "bytes came that are no frame for this connection: type %u, %u bytes of payload; both ends must "
                     "run one version of Tandem, and nothing between them may change what they send", in[0], tdmi_get_u32(in + 4));
}
