/* read_dump.c - a dump as recording_json.c writes it. What is missing is an error with its name; what is unknown is skipped. */
#include "doctor/gather.h"

#include "core/memory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX ((size_t)1 << 20)

/* Text of a member, "" where it is absent or null; false where it is something else or does not fit. */
static bool get_text(const json_t *object, const char *name, char *out, size_t nbytes)
{
    const json_t *member = json_object_get(object, name);
    out[0] = '\0';
    if (member == NULL || json_is_null(member))
        return true;
    if (!json_is_string(member) || json_string_length(member) >= nbytes || strlen(json_string_value(member)) != json_string_length(member))
        return false;
    memcpy(out, json_string_value(member), json_string_length(member) + 1);
    return true;
}

/* A whole number in [min, max]; 0 where it is null. */
static bool get_number(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const json_t *member = json_object_get(object, name);
    *out = json_integer_value(member);
    return json_is_null(member) || (json_is_integer(member) && *out >= min && *out <= max);
}

static bool get_int(const json_t *object, const char *name, int min, int *out)
{
    int64_t value;
    const bool good = get_number(object, name, min, INT32_MAX, &value) && !json_is_null(json_object_get(object, name));
    *out = good ? (int)value : 0;
    return good;
}

static bool get_state(const json_t *object, tdmi_call_state *out)
{
    static const char *const names[] = {"created", "started", "finished", "failed"};
    const char *text = json_string_value(json_object_get(object, "state"));
    for (int i = 0; text != NULL && i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (tdmi_call_state)(i + 1);
            return true;
        }
    return false;
}

static bool get_arrivals(const json_t *object, tdmi_recorded_call *out)
{
    const json_t *arrived = json_object_get(object, "arrived");
    if (arrived == NULL)
        return true;
    for (size_t i = 0; i < json_array_size(arrived); i++) {
        const json_int_t rank = json_integer_value(json_array_get(arrived, i));
        if (rank < 0 || rank > 63)
            return false;
        out->arrived |= (uint64_t)1 << rank;
    }
    return get_int(object, "missing", 0, &out->missing) && get_int(object, "first_missing", -1, &out->first_missing) &&
           get_number(object, "missed_ns", 0, INT64_MAX, &out->missed_ns);
}

/* The name of the first member that is wrong, or NULL. */
static const char *get_call(const json_t *object, tdmi_recorded_call *out)
{
    char id[24], *end;
    int64_t index, number, count;
    *out = (tdmi_recorded_call){0};
    if (!json_is_object(object))
        return "calls";
    if (!get_number(object, "index", 0, INT64_MAX, &index))
        return "index";
    if (!get_number(object, "call", 1, INT64_MAX, &number))
        return "call";
    if (!get_number(object, "count", INT64_MIN, INT64_MAX, &count))
        return "count";
    if (!get_text(object, "group_id", id, sizeof id) || strspn(id, "0123456789abcdef") != 16 || id[16] != '\0')
        return "group_id";
    out->group_id = strtoull(id, &end, 16);
    out->index = (uint64_t)index;
    out->number = (uint64_t)number;
    out->count = (uint64_t)count;
    out->fused = json_is_true(json_object_get(object, "fused"));
    out->uneven = json_is_true(json_object_get(object, "uneven"));
    return !get_text(object, "group", out->group, sizeof out->group)                           ? "group"
           : !get_text(object, "op", out->op, sizeof out->op)                                  ? "op"
           : !get_text(object, "dtype", out->dtype, sizeof out->dtype)                         ? "dtype"
           : !get_text(object, "reduction", out->reduction, sizeof out->reduction)             ? "reduction"
           : !get_text(object, "label", out->label, sizeof out->label)                         ? "label"
           : !get_int(object, "group_rank", -1, &out->group_rank)                              ? "group_rank"
           : !get_int(object, "group_size", 0, &out->group_size)                               ? "group_size"
           : !get_int(object, "root", -1, &out->root)                                          ? "root"
           : !get_state(object, &out->state)                                                   ? "state"
           : !get_number(object, "created_ns", INT64_MIN, INT64_MAX, &out->created_ns)         ? "created_ns"
           : !get_number(object, "started_ns", INT64_MIN, INT64_MAX, &out->started_ns)         ? "started_ns"
           : !get_number(object, "finished_ns", INT64_MIN, INT64_MAX, &out->finished_ns)       ? "finished_ns"
           : !get_arrivals(object, out)                                                        ? "arrived"
                                                                                               : NULL;
}

static tdm_status read_head(const json_t *root, tdmi_recording *out)
{
    char status[64];
    int64_t birth;
    if (!json_is_object(root) || json_integer_value(json_object_get(root, "tandem_recorder")) != 1)
        return tdmi_fail(TDM_ERR_BAD_FILE, "it is no dump of a flight recorder, or of another version");
    if (!get_int(root, "size", 1, &out->size) || !get_int(root, "rank", 0, &out->rank) || out->rank >= out->size)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: \"rank\" or \"size\"");
    if (!get_int(root, "pid", 0, &out->pid) || !get_number(root, "birth", 0, INT64_MAX, &birth) ||
        !get_text(root, "host", out->host, sizeof out->host) || !get_text(root, "boot", out->boot, sizeof out->boot) ||
        !get_text(root, "job", out->job, sizeof out->job) || !get_text(root, "error", out->error, sizeof out->error) ||
        !get_text(root, "status", status, sizeof status) || !json_is_array(json_object_get(root, "calls")))
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: its head lacks a member, or has one of another type");
    out->birth = (uint64_t)birth;
    out->failed = status[0] != '\0';
#define CASE(name, number, text)                                                                                       \
    if (strcmp(status, "TDM_" #name) == 0)                                                                             \
        out->status = TDM_##name;
    TDM_STATUS_MAP(CASE)
#undef CASE
    return TDM_OK;
}

static tdm_status read_calls(const json_t *calls, tdmi_recording *out)
{
    const size_t count = json_array_size(calls);
    if (count > CALLS_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: %zu calls", count);
    out->call = tdmi_calloc(count > 0 ? count : 1, sizeof *out->call, "recording");
    if (out->call == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const char *wrong = get_call(json_array_get(calls, i), &out->call[i]);
        if (wrong != NULL) {
            tdmi_free(out->call);
            return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: \"%s\" of call %zu", wrong, i);
        }
    }
    out->count = count;
    return TDM_OK;
}

tdm_status tdmi_dump_parse(const char *bytes, size_t nbytes, tdmi_recording *out)
{
    json_error_t error;
    tdmi_recording recording = {0};
    json_t *root = json_loadb(bytes, nbytes, 0, &error);
    if (root == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "it is neither a ring nor a dump: line %d: %s", error.line, error.text);
    tdm_status status = read_head(root, &recording);
    if (status == TDM_OK)
        status = read_calls(json_object_get(root, "calls"), &recording);
    json_decref(root);
    if (status == TDM_OK)
        *out = recording;
    return status;
}
