/* dump.c - from plain values to calls. Names of members: torch/csrc/distributed/c10d/FlightRecorder.hpp (TraceUtils.h before 2.4).
 * Before format 2.0 a call had seq_id instead of collective_seq_id and no process_group, and the first dumps were a bare list. */
#include "flight/dump.h"

#include "core/memory.h"
#include "flight/json.h"
#include "flight/pickle.h"

#include <stdio.h>
#include <string.h>

#define CALLS_MAX ((size_t)1 << 18)
#define GROUPS_MAX ((size_t)1 << 16)
#define WORK_MAX                                                                                                                           \
    ((size_t)1 << 26) /* steps through lists that may be shared: a pickle can say that all calls have the same million tensors */
#define VALUES_BYTES_MAX ((size_t)256 << 20)

static bool has(const uint8_t *head, size_t nbytes, const char *word)
{
    return memmem(head, nbytes, word, strlen(word)) != NULL;
}

bool tdmi_flight_is_pickle(const uint8_t *head, size_t nbytes)
{
    return nbytes >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

bool tdmi_flight_is_dump(const uint8_t *head, size_t nbytes)
{
    if (nbytes > 0 && (*head == '{' || *head == '['))
        return !has(head, nbytes, "\"traceEvents\"") &&
               (has(head, nbytes, "\"profiling_name\"") || has(head, nbytes, "\"nccl_comm_state\"") || has(head, nbytes, "\"pg_status\""));
    const bool is_old_pickle = nbytes > 1 && (*head == '(' || *head == ']' || *head == '}');
    return (tdmi_flight_is_pickle(head, nbytes) || is_old_pickle) &&
           (has(head, nbytes, "profiling_name") || has(head, nbytes, "pg_config") || has(head, nbytes, "pg_status"));
}

/* Elements of all tensors of "[[10], [3, 4]]"; -1: too many steps. */
static int64_t count_elements(const tdmi_value *sizes, size_t *work)
{
    int64_t all = 0;
    for (size_t i = 0; i < tdmi_value_count(sizes); i++) {
        const tdmi_value *dims = tdmi_value_at(sizes, i);
        int64_t elements = 1;
        *work += tdmi_value_count(dims) + 1;
        if (*work > WORK_MAX)
            return -1;
        for (size_t d = 0; d < tdmi_value_count(dims); d++) {
            const int64_t extent = tdmi_value_int(tdmi_value_at(dims, d), 0);
            if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements))
                elements = 0;
        }
        if (__builtin_add_overflow(all, elements, &all))
            all = INT64_MAX;
    }
    return all;
}

static bool is_of_torch(const char *file)
{
    return strstr(file, "-packages/torch/") != NULL || strstr(file, "/torch/distributed/") != NULL || strstr(file, "/torch/nn/") != NULL ||
           strstr(file, "/torch/_") != NULL;
}

/* The innermost frame that is not PyTorch's own. */
static void find_place(const tdmi_value *frames, char out[128])
{
    out[0] = '\0';
    for (size_t i = 0; i < tdmi_value_count(frames) && i < 64; i++) {
        char file[256], name[48];
        const tdmi_value *frame = tdmi_value_at(frames, i);
        tdmi_value_text(tdmi_value_get(frame, "filename"), file, sizeof file);
        tdmi_value_text(tdmi_value_get(frame, "name"), name, sizeof name);
        if (file[0] == '\0' || is_of_torch(file))
            continue;
        const char *base = strrchr(file, '/');
        base = base != NULL ? base + 1 : file;
        snprintf(out, 128, "%.60s:%lld in %.40s", base, (long long)tdmi_value_int(tdmi_value_get(frame, "line"), 0),
                 name[0] != '\0' ? name : "?");
        return;
    }
}

/* "nccl:send 1->2", "nccl:recv 3<-0", "gloo:all_reduce", "nccl:_all_gather_base" */
static void read_name(const tdmi_value *name, tdmi_flight_call *call)
{
    char text[96];
    int from, to;
    tdmi_value_text(name, text, sizeof text);
    char *op = strchr(text, ':');
    snprintf(call->backend, sizeof call->backend, "%.*s", op != NULL ? (int)(op - text) : 0, text);
    op = op != NULL ? op + 1 : text;
    call->source = call->target = -1;
    if (sscanf(op, "send %7d->%7d", &from, &to) == 2 && from >= 0 && to >= 0) {
        call->source = from;
        call->target = to;
    } else if (sscanf(op, "recv %7d<-%7d", &to, &from) == 2 && from >= 0 && to >= 0) {
        call->source = from;
        call->target = to;
    }
    call->is_p2p |= call->source >= 0;
    while (*op == '_')
        op++;
    snprintf(call->op, sizeof call->op, "%.*s", (int)strcspn(op, " "), op);
}

static void read_state(const tdmi_value *entry, tdmi_flight_call *call)
{
    const tdmi_value *state = tdmi_value_get(entry, "state");
    call->state = tdmi_value_is_text(state, "completed") ? TDMI_FLIGHT_COMPLETED
                  : tdmi_value_is_text(state, "started") ? TDMI_FLIGHT_STARTED
                                                         : TDMI_FLIGHT_SCHEDULED;
}

static int64_t time_of(const tdmi_value *entry, const char *name)
{
    const int64_t ns = tdmi_value_int(tdmi_value_get(entry, name), 0);
    return ns > 0 ? ns : 0;
}

static tdm_status read_call(const tdmi_value *entry, size_t number, size_t *work, tdmi_flight_call *call)
{
    const tdmi_value *group = tdmi_value_get(entry, "process_group");
    if (entry == NULL || entry->kind != TDMI_VALUE_DICT)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: call %zu is no dict", number);
    const tdmi_value *name = tdmi_value_get(entry, "profiling_name");
    if (name == NULL || name->kind != TDMI_VALUE_TEXT)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: call %zu has no profiling_name", number);
    call->is_p2p = tdmi_value_is_true(tdmi_value_get(entry, "is_p2p"));
    read_name(name, call);
    read_state(entry, call);
    if (group != NULL) {
        tdmi_value_text(tdmi_value_at(group, 0), call->group, sizeof call->group);
        tdmi_value_text(tdmi_value_at(group, 1), call->description, sizeof call->description);
    } else
        snprintf(call->group, sizeof call->group, "%lld", (long long)tdmi_value_int(tdmi_value_get(entry, "pg_id"), 0));
    call->record = tdmi_value_int(tdmi_value_get(entry, "record_id"), (int64_t)number);
    call->sequence = tdmi_value_int(tdmi_value_get(entry, "collective_seq_id"), tdmi_value_int(tdmi_value_get(entry, "seq_id"), -1));
    call->p2p_sequence = tdmi_value_int(tdmi_value_get(entry, "p2p_seq_id"), -1);
    call->created_ns = time_of(entry, "time_created_ns");
    call->started_ns = time_of(entry, "time_discovered_started_ns");
    call->completed_ns = time_of(entry, "time_discovered_completed_ns");
    call->retired = tdmi_value_is_true(tdmi_value_get(entry, "retired"));
    call->in_elements = count_elements(tdmi_value_get(entry, "input_sizes"), work);
    call->out_elements = call->in_elements >= 0 ? count_elements(tdmi_value_get(entry, "output_sizes"), work) : -1;
    if (call->out_elements < 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: the sizes of its tensors take more than %zu steps", WORK_MAX);
    const tdmi_value *dtype = tdmi_value_at(tdmi_value_get(entry, "input_dtypes"), 0);
    tdmi_value_text(dtype != NULL ? dtype : tdmi_value_at(tdmi_value_get(entry, "output_dtypes"), 0), call->dtype, sizeof call->dtype);
    find_place(tdmi_value_get(entry, "frames"), call->place);
    return TDM_OK;
}

static tdm_status read_calls(const tdmi_value *entries, tdmi_flight_dump *dump)
{
    const size_t count = tdmi_value_count(entries);
    size_t work = 0;
    if (count > CALLS_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: %zu calls", count);
    dump->call = tdmi_calloc(count + 1, sizeof *dump->call, "flight dump");
    if (dump->call == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < count && status == TDM_OK; i++) {
        status = read_call(tdmi_value_at(entries, i), i, &work, &dump->call[i]);
        dump->calls += status == TDM_OK;
    }
    return status;
}

/* "[0, 1, 2]" as a text, or a list of numbers. */
static tdm_status read_ranks(const tdmi_value *ranks, size_t *work, tdmi_flight_group *group)
{
    size_t capacity = 0;
    const bool is_text = ranks != NULL && ranks->kind == TDMI_VALUE_TEXT;
    const size_t end = is_text ? ranks->as.text.nbytes : tdmi_value_count(ranks);
    if ((*work += end) > WORK_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: the ranks of its groups take more than %zu steps", WORK_MAX);
    for (size_t i = 0; i < end;) {
        int64_t rank = is_text ? 0 : tdmi_value_int(tdmi_value_at(ranks, i), -1);
        size_t digits = is_text ? 0 : 1;
        for (; is_text && i + digits < end && ranks->as.text.at[i + digits] >= '0' && ranks->as.text.at[i + digits] <= '9' && digits < 9;
             digits++)
            rank = rank * 10 + (ranks->as.text.at[i + digits] - '0');
        i += digits > 0 ? digits : 1;
        if (digits == 0 || rank < 0 || rank > INT32_MAX)
            continue;
        int *more = tdmi_with_room(group->rank, group->ranks, &capacity, sizeof *more, "flight dump");
        if (more == NULL)
            return TDM_ERR_NO_MEMORY;
        group->rank = more;
        group->rank[group->ranks++] = (int)rank;
    }
    return TDM_OK;
}

static tdm_status read_groups(const tdmi_value *config, tdmi_flight_dump *dump)
{
    const size_t count = config != NULL && config->kind == TDMI_VALUE_DICT ? tdmi_value_count(config) : 0;
    size_t work = 0;
    if (count > GROUPS_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the dump is damaged: %zu groups", count);
    dump->group = tdmi_calloc(count + 1, sizeof *dump->group, "flight dump");
    if (dump->group == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < count && status == TDM_OK; i++) {
        const tdmi_value *info = config->as.items.item[2 * i + 1];
        tdmi_flight_group *group = &dump->group[dump->groups++];
        tdmi_value_text(config->as.items.item[2 * i], group->name, sizeof group->name);
        status = read_ranks(tdmi_value_get(info, "ranks"), &work, group);
    }
    return status;
}

tdm_status tdmi_flight_dump_read(const uint8_t *bytes, size_t nbytes, tdmi_flight_dump *out)
{
    tdmi_values values = {.limit = VALUES_BYTES_MAX};
    tdmi_flight_dump dump = {0};
    const tdmi_value *root = NULL;
    size_t first = 0;
    while (first < nbytes && memchr(" \t\r\n", bytes[first], 4) != NULL)
        first++;
    const bool is_json = first < nbytes && (bytes[first] == '{' || bytes[first] == '[');
    tdm_status status = is_json ? tdmi_flight_json_read(bytes, nbytes, &values, &root) : tdmi_pickle_read(bytes, nbytes, &values, &root);
    const tdmi_value *entries = root != NULL && root->kind == TDMI_VALUE_DICT ? tdmi_value_get(root, "entries") : root;
    if (status == TDM_OK && root->kind == TDMI_VALUE_DICT && entries == NULL && tdmi_value_get(root, "pg_config") == NULL &&
        tdmi_value_get(root, "pg_status") == NULL)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "it is no dump of PyTorch's flight recorder: no \"entries\"");
    if (status == TDM_OK && entries != NULL && entries->kind != TDMI_VALUE_LIST)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "it is no dump of PyTorch's flight recorder: \"entries\" is no list");
    if (status == TDM_OK) {
        tdmi_value_text(tdmi_value_get(root, "version"), dump.version, sizeof dump.version);
        const tdmi_value *library = tdmi_value_get(root, "comm_lib_version");
        tdmi_value_text(library != NULL ? library : tdmi_value_get(root, "nccl_version"), dump.library, sizeof dump.library);
        status = read_calls(entries, &dump);
    }
    if (status == TDM_OK)
        status = read_groups(tdmi_value_get(root, "pg_config"), &dump);
    tdmi_values_free(&values);
    if (status != TDM_OK) {
        tdmi_flight_dump_free(&dump);
        return status;
    }
    *out = dump;
    return TDM_OK;
}

void tdmi_flight_dump_free(tdmi_flight_dump *dump)
{
    for (size_t i = 0; i < dump->groups; i++)
        tdmi_free(dump->group[i].rank);
    tdmi_free(dump->group);
    tdmi_free(dump->call);
    *dump = (tdmi_flight_dump){0};
}
