/* event.c - one object of traceEvents as an event, a name of a lane, or something that is only counted. */
#include "kineto/reader.h"

#include "kineto/number.h"

#include <string.h>

static bool starts_with(const tdmi_text *text, const char *with)
{
    const size_t n = strlen(with);
    return text->nbytes >= n && memcmp(text->text, with, n) == 0;
}

/* 2021's Operator is also what is a user_annotation today. */
static bool is_annotation(const tdmi_text *name)
{
    static const char *const with[] = {"ProfilerStep#", "enumerate(DataLoader", "Optimizer.", "DistributedDataParallel."};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        if (starts_with(name, with[i]))
            return true;
    return false;
}

static bool on_device(tdmi_event_kind kind)
{
    return kind == TDMI_EVENT_KERNEL || kind == TDMI_EVENT_COPY || kind == TDMI_EVENT_SET || kind == TDMI_EVENT_GPU_ANNOTATION ||
           kind == TDMI_EVENT_SYNC || kind == TDMI_EVENT_DEVICE;
}

/* A pid or tid: a number, a string that is one ("25738"), a stream's name of 2021 ("stream 7"), or a text. */
static tdm_status lane_id(tdmi_reader *r, int field, tdmi_lane_id *out)
{
    *out = (tdmi_lane_id){-1, TDMI_NONE};
    if (!tdmi_has(&r->top, field))
        return TDM_OK;
    const tdmi_value value = r->top.value[field];
    const uint8_t *at = r->top.text + value.at;
    if (*at != '"') {
        if (tdmi_number_int(at, &out->number) != TDMI_NUMBER_GOOD)
            out->number = -1;
        return TDM_OK;
    }
    size_t nbytes = value.end - value.at - 1;
    at++;
    if (nbytes > 7 && memcmp(at, "stream ", 7) == 0) {
        at += 7;
        nbytes -= 7;
    }
    size_t digits = nbytes > 0 && at[0] == '-' ? 1 : 0;
    while (digits < nbytes && (unsigned)(at[digits] - '0') < 10)
        digits++;
    if (digits == nbytes && tdmi_number_int(at, &out->number) == TDMI_NUMBER_GOOD)
        return TDM_OK;
    out->number = -1;
    return tdmi_reader_text(r, &r->top, field, &out->text);
}

static tdm_status find_lane(tdmi_reader *r, tdmi_event *e)
{
    tdmi_lane_id pid, tid;
    uint64_t ignored = 0;
    const bool device = on_device((tdmi_event_kind)e->kind);
    tdm_status status = lane_id(r, TDMI_FIELD_PID, &pid);
    if (status == TDM_OK)
        status = lane_id(r, TDMI_FIELD_TID, &tid);
    if (status != TDM_OK)
        return status;
    if (device) {
        int64_t number;
        if (tdmi_field_int(&r->args, TDMI_FIELD_DEVICE, &number, &ignored))
            pid = (tdmi_lane_id){number, TDMI_NONE};
        if (tdmi_field_int(&r->args, TDMI_FIELD_STREAM, &number, &ignored))
            tid = (tdmi_lane_id){number == UINT32_MAX ? -1 : number, TDMI_NONE}; /* some writers lost the sign of -1 */
        e->flags |= TDMI_EVENT_ON_DEVICE;
    }
    status = tdmi_lanes_put(&r->lanes, device, pid, tid, &e->lane);
    if (e->lane == TDMI_NONE)
        r->trace->wrong[TDMI_WRONG_TOO_MANY_LANES]++;
    else
        r->lanes.lane[e->lane].events++;
    return status;
}

/* int(args.stream) as HTA has it: -1 for what Python's int() refuses. */
static int32_t stream_of(tdmi_reader *r, uint8_t *flags)
{
    if (!tdmi_has(&r->args, TDMI_FIELD_STREAM))
        return -1;
    const tdmi_value value = r->args.value[TDMI_FIELD_STREAM];
    const uint8_t *at = r->args.text + value.at;
    if (*at == '"') {
        at++;
        for (const uint8_t *p = at + (*at == '-'); p < r->args.text + value.end; p++)
            if ((unsigned)(*p - '0') >= 10)
                return -1;
    }
    int64_t number;
    if (tdmi_number_int(at, &number) != TDMI_NUMBER_GOOD)
        return -1;
    if (number == UINT32_MAX) {
        *flags |= TDMI_EVENT_UNSIGNED_STREAM;
        return -1;
    }
    if (number > INT32_MAX || number < INT32_MIN) {
        r->trace->wrong[TDMI_WRONG_BAD_NUMBER]++;
        return -1;
    }
    return (int32_t)number;
}

/* Process and thread names. */
static tdm_status read_metadata(tdmi_reader *r)
{
    static const struct {
        const char *name;
        int field;
        size_t offset;
        bool process;
    } known[] = {{"thread_name", TDMI_FIELD_NAME, offsetof(tdmi_lane, thread_name), false},
                 {"process_name", TDMI_FIELD_NAME, offsetof(tdmi_lane, process_name), true},
                 {"process_labels", TDMI_FIELD_LABELS, offsetof(tdmi_lane, label), true}};
    r->trace->metadata++;
    const tdmi_value name = r->top.value[TDMI_FIELD_NAME];
    if (tdmi_first(&r->top, TDMI_FIELD_NAME) != '"')
        return TDM_OK;
    const size_t nbytes = name.end - name.at - 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i].name) != nbytes || memcmp(r->top.text + name.at + 1, known[i].name, nbytes) != 0)
            continue;
        if (tdmi_first(&r->args, known[i].field) != '"')
            return TDM_OK;
        tdmi_lane_id pid, tid = {INT64_MIN, TDMI_NONE};
        uint32_t lane, text = TDMI_NONE;
        if (lane_id(r, TDMI_FIELD_PID, &pid) != TDM_OK || (!known[i].process && lane_id(r, TDMI_FIELD_TID, &tid) != TDM_OK) ||
            tdmi_lanes_put(&r->named, false, pid, tid, &lane) != TDM_OK ||
            tdmi_reader_text(r, &r->args, known[i].field, &text) != TDM_OK)
            return TDM_ERR_NO_MEMORY;
        if (lane != TDMI_NONE)
            memcpy((char *)&r->named.lane[lane] + known[i].offset, &text, sizeof text);
    }
    return TDM_OK;
}

/* dur; false: there is none, and the event is nothing. */
static bool read_duration(tdmi_reader *r, tdmi_event *e)
{
    bool whole;
    const uint8_t *at = r->top.text + r->top.value[TDMI_FIELD_DUR].at;
    const uint8_t first = tdmi_first(&r->top, TDMI_FIELD_DUR);
    if (first == 0 || tdmi_number_ns(at + (first == '"'), &e->dur_ns, &whole) != TDMI_NUMBER_GOOD) {
        r->trace->wrong[TDMI_WRONG_NO_DUR]++;
        return false;
    }
    if (e->dur_ns < 0) {
        r->trace->wrong[TDMI_WRONG_NEGATIVE_DUR]++;
        e->dur_ns = 0;
        e->flags |= TDMI_EVENT_NEGATIVE;
    }
    return true;
}

bool tdmi_reader_is_step(const tdmi_reader *r, const tdmi_event *e)
{
    return e->kind == TDMI_EVENT_ANNOTATION && e->name != TDMI_NONE && starts_with(&r->texts->text[e->name], "ProfilerStep");
}

static tdm_status keep(tdmi_reader *r, tdmi_event *e)
{
    tdmi_trace *t = r->trace;
    r->events++;
    if (r->rows_only && !TDMI_EVENT_IS_ROW(e->kind))
        return TDM_OK;
    const bool step = tdmi_reader_is_step(r, e);
    t->iterations_seen += step;
    if (r->survey != NULL)
        return tdmi_survey_add(r->survey, e, step);
    if (e->start_ns < r->keep_from_ns) {
        t->wrong[TDMI_WRONG_OUTSIDE]++;
        return TDM_OK;
    }
    t->iterations_kept += step;
    tdm_status status = find_lane(r, e);
    if (status == TDM_OK)
        status = r->rows_only && e->kind != TDMI_EVENT_COPY && e->kind != TDMI_EVENT_SET
                     ? TDM_OK
                     : tdmi_reader_detail(r, (tdmi_event_kind)e->kind, &e->detail);
    if (status == TDM_OK)
        status = TDMI_READER_ROOM(t->event, t->event_count, r->event_capacity);
    if (status != TDM_OK)
        return status;
    r->zero_starts += e->start_ns == 0;
    t->kind_count[e->kind]++;
    t->event[t->event_count++] = *e;
    return TDM_OK;
}

static tdm_status read_complete(tdmi_reader *r, tdmi_event *e)
{
    if (!read_duration(r, e))
        return TDM_OK;
    if (tdmi_first(&r->top, TDMI_FIELD_CAT) != '"') {
        r->trace->wrong[TDMI_WRONG_NO_CATEGORY]++;
        return TDM_OK;
    }
    if (e->dur_ns > INT64_MAX - (e->start_ns > 0 ? e->start_ns : 0)) {
        r->trace->wrong[TDMI_WRONG_TIME_RANGE]++;
        return TDM_OK;
    }
    tdm_status status = tdmi_reader_category(r, &e->category);
    if (status == TDM_OK)
        status = tdmi_reader_text(r, &r->top, TDMI_FIELD_NAME, &e->name);
    if (status != TDM_OK)
        return status;
    e->kind = r->trace->category[e->category].kind;
    if (e->kind == TDMI_EVENT_CPU_OP && e->name != TDMI_NONE && r->top.text[r->top.value[TDMI_FIELD_CAT].at + 1] == 'O' &&
        is_annotation(&r->texts->text[e->name]))
        e->kind = TDMI_EVENT_ANNOTATION;
    uint64_t *bad = &r->trace->wrong[TDMI_WRONG_BAD_NUMBER];
    if (!tdmi_field_int(&r->args, TDMI_FIELD_CORRELATION, &e->correlation, bad))
        e->correlation = TDMI_NO_CORRELATION;
    e->stream = stream_of(r, &e->flags);
    return keep(r, e);
}

static tdm_status read_instant(tdmi_reader *r, tdmi_event *e)
{
    const tdm_status status = tdmi_reader_text(r, &r->top, TDMI_FIELD_NAME, &e->name);
    if (status != TDM_OK || e->name == TDMI_NONE)
        return status;
    e->kind = strcmp(r->texts->text[e->name].text, "[memory]") == 0 ? TDMI_EVENT_MEMORY : TDMI_EVENT_INSTANT;
    if (tdmi_first(&r->top, TDMI_FIELD_CAT) == '"') {
        const tdm_status known = tdmi_reader_category(r, &e->category);
        if (known != TDM_OK)
            return known;
    }
    return keep(r, e);
}

/* ph, as a letter; what has a time and a duration is complete without it. 0: it is no event. */
static uint8_t phase_of(const tdmi_fields *f)
{
    const tdmi_value ph = f->value[TDMI_FIELD_PH];
    if (tdmi_first(f, TDMI_FIELD_PH) == '"' && ph.end == ph.at + 2)
        return f->text[ph.at + 1];
    return tdmi_has(f, TDMI_FIELD_DUR) && tdmi_has(f, TDMI_FIELD_TS) ? 'X' : 0;
}

tdm_status tdmi_reader_event(tdmi_reader *r, uint32_t place)
{
    tdmi_trace *t = r->trace;
    const uint8_t ts = tdmi_first(&r->top, TDMI_FIELD_TS), phase = phase_of(&r->top);
    const bool kept = phase == 'X' || phase == 'i' || phase == 'I';
    tdmi_event e = {.correlation = TDMI_NO_CORRELATION, .name = TDMI_NONE, .lane = TDMI_NONE, .place = place, .detail = TDMI_NONE, .stream = -1,
                    .category = UINT16_MAX};
    if (kept || !t->ns_times) {
        bool whole = false;
        tdmi_number time = TDMI_NUMBER_BAD;
        if (ts != 0)
            time = tdmi_number_ns(r->top.text + r->top.value[TDMI_FIELD_TS].at + (ts == '"'), &e.start_ns, &whole);
        t->ns_times |= !whole || ts == '"';
        if (kept && time != TDMI_NUMBER_GOOD) {
            t->wrong[time == TDMI_NUMBER_BAD ? TDMI_WRONG_NO_TIME : TDMI_WRONG_TIME_RANGE]++;
            return TDM_OK;
        }
    }
    switch (phase) {
    case 'X':
        return read_complete(r, &e);
    case 'i':
    case 'I':
        return read_instant(r, &e);
    case 'M':
        return read_metadata(r);
    case 's':
    case 't':
    case 'f':
        t->flows++;
        return TDM_OK;
    case 'C':
        t->counters++;
        return TDM_OK;
    default:
        t->wrong[phase == 0 ? TDMI_WRONG_NOT_OBJECT : TDMI_WRONG_BEGIN_END]++;
        return TDM_OK;
    }
}
