/* details.c - what only some kinds of events have. */
#include "kineto/number.h"
#include "kineto/reader.h"

#include <math.h>

static uint64_t *bad(tdmi_reader *r)
{
    return &r->trace->wrong[TDMI_WRONG_BAD_NUMBER];
}

static int64_t integer(tdmi_reader *r, int field, int64_t none)
{
    int64_t value;
    return tdmi_field_int(&r->args, field, &value, bad(r)) ? value : none;
}

static int32_t integer32(tdmi_reader *r, int field, int32_t none)
{
    return tdmi_field_int32(&r->args, field, none, bad(r));
}

static uint32_t unsigned32(tdmi_reader *r, int field)
{
    const int64_t value = integer(r, field, 0);
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* A string's text, or the JSON text of an array; TDMI_NONE: absent, null, empty, or something else. */
static tdm_status text_of(tdmi_reader *r, int field, uint32_t *out)
{
    *out = TDMI_NONE;
    if (!tdmi_has(&r->args, field))
        return TDM_OK;
    const tdmi_value value = r->args.value[field];
    const uint8_t *at = r->args.text + value.at;
    if (*at == '"' && value.end > value.at + 1)
        return tdmi_texts_put(r->texts, at + 1, value.end - value.at - 1, out);
    if (*at == '[')
        return tdmi_texts_put_plain(r->texts, at, value.end - value.at + 1, out);
    return TDM_OK;
}

/* The product of [x, y, z], clamped; 0: it is none. */
static uint32_t product(const tdmi_fields *f, int field)
{
    if (tdmi_first(f, field) != '[')
        return 0;
    uint64_t all = 1;
    size_t at = f->value[field].at;
    for (int i = 0; i < 3; i++) {
        int64_t value;
        at = tdmi_skip_space(f->text, at + 1);
        if (tdmi_number_int(f->text + at, &value) != TDMI_NUMBER_GOOD || value < 0 || value > UINT32_MAX)
            return 0;
        all = all * (uint64_t)value > UINT32_MAX ? UINT32_MAX : all * (uint64_t)value;
        while (at < f->value[field].end && f->text[at] != ',')
            at++;
    }
    return (uint32_t)all;
}

#define COLLECTIVE_FIELDS                                                                                                                  \
    ((uint64_t)1 << TDMI_FIELD_COLLECTIVE | (uint64_t)1 << TDMI_FIELD_GROUP_NAME | (uint64_t)1 << TDMI_FIELD_IN_COUNT)

static tdm_status put_collective(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    *out = TDMI_NONE;
    if ((r->args.has & COLLECTIVE_FIELDS) == 0)
        return TDM_OK;
    if (TDMI_READER_ROOM(t->collective, t->collective_count, r->collective_capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    tdmi_collective *c = &t->collective[t->collective_count];
    *c = (tdmi_collective){.in_count = integer(r, TDMI_FIELD_IN_COUNT, -1),
                           .out_count = integer(r, TDMI_FIELD_OUT_COUNT, -1),
                           .seq = integer(r, TDMI_FIELD_SEQ, -1),
                           .group_size = integer32(r, TDMI_FIELD_GROUP_SIZE, -1),
                           .rank = integer32(r, TDMI_FIELD_RANK, -1),
                           .src = integer32(r, TDMI_FIELD_SRC_RANK, -1),
                           .dst = integer32(r, TDMI_FIELD_DST_RANK, -1),
                           .global_start = integer32(r, TDMI_FIELD_GLOBAL_START, -1),
                           .global_stride = integer32(r, TDMI_FIELD_GLOBAL_STRIDE, -1),
                           .is_async = -1};
    if (tdmi_has(&r->args, TDMI_FIELD_IS_ASYNC)) {
        const tdmi_value v = r->args.value[TDMI_FIELD_IS_ASYNC];
        const uint8_t first = r->args.text[r->args.text[v.at] == '"' ? v.at + 1 : v.at] | 0x20;
        c->is_async = first == 't' || first == '1' ? 1 : first == 'f' || first == '0' ? 0 : -1;
    }
    if (tdmi_has(&r->args, TDMI_FIELD_COMMS_ID)) {
        const uint8_t *at = r->args.text + r->args.value[TDMI_FIELD_COMMS_ID].at;
        *bad(r) += tdmi_number_uint(at + (*at == '"'), &c->comms_id) != TDMI_NUMBER_GOOD;
    }
    const struct {
        int field;
        uint32_t *out;
    } text[] = {{TDMI_FIELD_COLLECTIVE, &c->name},       {TDMI_FIELD_DTYPE, &c->dtype},        {TDMI_FIELD_GROUP_NAME, &c->group_name},
                {TDMI_FIELD_GROUP_DESC, &c->group_desc}, {TDMI_FIELD_GROUP_RANKS, &c->group_ranks}, {TDMI_FIELD_IN_SPLIT, &c->in_split},
                {TDMI_FIELD_OUT_SPLIT, &c->out_split}};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (text_of(r, text[i].field, text[i].out) != TDM_OK)
            return TDM_ERR_NO_MEMORY;
    *out = (uint32_t)t->collective_count++;
    return TDM_OK;
}

static tdm_status put_op(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    tdmi_op_detail op = {.external_id = integer(r, TDMI_FIELD_EXTERNAL_ID, -1),
                         .sequence = integer(r, TDMI_FIELD_SEQUENCE, -1),
                         .forward_thread = integer32(r, TDMI_FIELD_FORWARD_THREAD, -1)};
    tdm_status status = put_collective(r, &op.collective);
    if (status == TDM_OK)
        status = text_of(r, TDMI_FIELD_INPUT_DIMS, &op.dims);
    if (status == TDM_OK)
        status = text_of(r, TDMI_FIELD_INPUT_TYPE, &op.types);
    if (status == TDM_OK)
        status = text_of(r, TDMI_FIELD_CALL_STACK, &op.call_stack);
    if (status == TDM_OK)
        status = TDMI_READER_ROOM(t->op, t->op_count, r->op_capacity);
    if (status != TDM_OK)
        return status;
    *out = (uint32_t)t->op_count;
    t->op[t->op_count++] = op;
    return TDM_OK;
}

static tdm_status put_kernel(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    tdmi_kernel_detail kernel = {.external_id = integer(r, TDMI_FIELD_EXTERNAL_ID, -1),
                                 .graph_id = integer(r, TDMI_FIELD_GRAPH_ID, 0),
                                 .blocks = product(&r->args, TDMI_FIELD_GRID),
                                 .threads = product(&r->args, TDMI_FIELD_BLOCK),
                                 .registers = unsigned32(r, TDMI_FIELD_REGISTERS),
                                 .shared_bytes = unsigned32(r, TDMI_FIELD_SHARED_MEMORY)};
    if (put_collective(r, &kernel.collective) != TDM_OK || TDMI_READER_ROOM(t->kernel, t->kernel_count, r->kernel_capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    *out = (uint32_t)t->kernel_count;
    t->kernel[t->kernel_count++] = kernel;
    return TDM_OK;
}

static tdm_status put_copy(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    tdmi_copy_detail copy = {.external_id = integer(r, TDMI_FIELD_EXTERNAL_ID, -1), .nbytes = integer(r, TDMI_FIELD_BYTES, -1)};
    const uint8_t first = tdmi_first(&r->args, TDMI_FIELD_BANDWIDTH);
    const bool number = (unsigned)(first - '0') < 10 || first == '-';
    if (!number || tdmi_number_double(r->args.text + r->args.value[TDMI_FIELD_BANDWIDTH].at, &copy.bandwidth_gbps) != TDMI_NUMBER_GOOD)
        copy.bandwidth_gbps = (double)NAN; /* "N/A" of a copy that took no time, NaN */
    if (TDMI_READER_ROOM(t->copy, t->copy_count, r->copy_capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    *out = (uint32_t)t->copy_count;
    t->copy[t->copy_count++] = copy;
    return TDM_OK;
}

static tdm_status put_memory(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    if (TDMI_READER_ROOM(t->memory, t->memory_count, r->memory_capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    tdmi_memory_point *m = &t->memory[t->memory_count];
    *m = (tdmi_memory_point){.nbytes = integer(r, TDMI_FIELD_MEMORY_BYTES, 0),
                             .allocated = integer(r, TDMI_FIELD_ALLOCATED, -1),
                             .reserved = integer(r, TDMI_FIELD_RESERVED, -1),
                             .device_type = integer32(r, TDMI_FIELD_DEVICE_TYPE, -1),
                             .device_id = integer32(r, TDMI_FIELD_DEVICE_ID, -1)};
    if (tdmi_has(&r->args, TDMI_FIELD_ADDRESS)) {
        const uint8_t *at = r->args.text + r->args.value[TDMI_FIELD_ADDRESS].at;
        *bad(r) += tdmi_number_uint(at + (*at == '"'), &m->address) != TDMI_NUMBER_GOOD;
    }
    *out = (uint32_t)t->memory_count++;
    return TDM_OK;
}

static tdm_status put_python(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    if (TDMI_READER_ROOM(t->python, t->python_count, r->python_capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    *out = (uint32_t)t->python_count;
    t->python[t->python_count++] =
        (tdmi_python_detail){.id = integer32(r, TDMI_FIELD_PYTHON_ID, -1), .parent = integer32(r, TDMI_FIELD_PYTHON_PARENT, -1)};
    return TDM_OK;
}

static tdm_status put_sync(tdmi_reader *r, uint32_t *out)
{
    tdmi_trace *t = r->trace;
    if (TDMI_READER_ROOM(t->sync, t->sync_count, r->sync_capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    *out = (uint32_t)t->sync_count;
    t->sync[t->sync_count++] = (tdmi_sync_detail){.record_correlation = integer(r, TDMI_FIELD_RECORD_CORRELATION, -1),
                                                  .event_id = integer(r, TDMI_FIELD_WAIT_EVENT, -1),
                                                  .wait_on_stream = integer32(r, TDMI_FIELD_WAIT_ON_STREAM, -1)};
    return TDM_OK;
}

tdm_status tdmi_reader_detail(tdmi_reader *r, tdmi_event_kind kind, uint32_t *out)
{
    *out = TDMI_NONE;
    if (r->args.has == 0)
        return TDM_OK;
    switch (kind) {
    case TDMI_EVENT_CPU_OP:
    case TDMI_EVENT_ANNOTATION:
        return put_op(r, out);
    case TDMI_EVENT_KERNEL:
    case TDMI_EVENT_DEVICE:
        return put_kernel(r, out);
    case TDMI_EVENT_COPY:
    case TDMI_EVENT_SET:
        return put_copy(r, out);
    case TDMI_EVENT_MEMORY:
        return put_memory(r, out);
    case TDMI_EVENT_PYTHON:
        return put_python(r, out);
    case TDMI_EVENT_SYNC:
        return put_sync(r, out);
    default:
        return TDM_OK;
    }
}
