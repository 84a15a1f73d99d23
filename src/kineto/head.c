/* head.c - the document's own members: who recorded this, on what. They may stand before the events or behind them, once or twice (the last
 * one counts). */
#include "kineto/reader.h"

#include "core/memory.h"
#include "kineto/decode.h"
#include "kineto/number.h"

#include <pthread.h>
#include <string.h>

enum { RANKS_MAX = 1 << 20, DEVICES_MAX = 1024, GROUPS_MAX = 65536 };

/* X(NAME, key). Of the document, of distributedInfo, of a process group, of a device. */
#define HEAD_MAP(X)                                                                                                    \
    X(DISTRIBUTED, "distributedInfo") X(DEVICES, "deviceProperties") X(BASE, "baseTimeNanoseconds")                    \
    X(SCHEMA, "schemaVersion") X(RECORD_SHAPES, "record_shapes") X(PROFILE_MEMORY, "profile_memory")                   \
    X(WITH_STACK, "with_stack") X(WITH_FLOPS, "with_flops") X(WITH_MODULES, "with_modules")                            \
    X(CUPTI, "cupti_version") X(CUDA_RUNTIME, "cuda_runtime_version") X(CUDA_DRIVER, "cuda_driver_version")            \
    X(ROCTRACER, "roctracer_version") X(HIP_RUNTIME, "hip_runtime_version") X(HIP_DRIVER, "hip_driver_version")        \
    X(HOST_NAME, "host_name") X(TRACE_NAME, "traceName")                                                               \
    X(BACKEND, "backend") X(RANK, "rank") X(WORLD_SIZE, "world_size") X(GROUPS, "pg_config")                           \
    X(NCCL_VERSION, "nccl_version")                                                                                    \
    X(GROUP_NAME, "pg_name") X(GROUP_DESC, "pg_desc") X(GROUP_BACKEND, "backend_config") X(GROUP_SIZE, "pg_size")      \
    X(GROUP_RANKS, "ranks")                                                                                            \
    X(DEVICE_ID, "id") X(DEVICE_NAME, "name") X(DEVICE_MEMORY, "totalGlobalMem") X(MAJOR, "computeMajor")              \
    X(MINOR, "computeMinor") X(MULTIPROCESSORS, "numSms") X(WARP, "warpSize")                                          \
    X(THREADS_PER_BLOCK, "maxThreadsPerBlock") X(THREADS_PER_MULTIPROCESSOR, "maxThreadsPerMultiprocessor")

enum {
#define HEAD_ENUM(NAME, key) HEAD_##NAME,
    HEAD_MAP(HEAD_ENUM)
#undef HEAD_ENUM
    HEAD_OTHER,
};
_Static_assert((int)HEAD_OTHER < (int)TDMI_FIELDS, "they are fields, too");

static const tdmi_word head_word[] = {
#define WORD(NAME, key) {key, HEAD_##NAME},
    HEAD_MAP(WORD)
#undef WORD
    {"uid", HEAD_GROUP_DESC},                /* early 2024 */
    {"computeProperties", HEAD_DEVICES},     /* 2021 */
    {"major", HEAD_MAJOR},
    {"minor", HEAD_MINOR},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tdmi_words words; /* written once under `once` */

static void make_words(void)
{
    tdmi_words_init(&words, head_word, sizeof head_word / sizeof *head_word, HEAD_OTHER);
}

/* A piece of JSON: its text and index. */
typedef struct piece {
    const uint8_t *text;
    const uint32_t *token;
} piece;

static int64_t number(tdmi_reader *r, const tdmi_fields *f, int field, int64_t none)
{
    int64_t value;
    return tdmi_field_int(f, field, &value, &r->trace->wrong[TDMI_WRONG_BAD_NUMBER]) ? value : none;
}

static int small(tdmi_reader *r, const tdmi_fields *f, int field, int none)
{
    return tdmi_field_int32(f, field, none, &r->trace->wrong[TDMI_WRONG_BAD_NUMBER]);
}

/* [0, 1, 2], or the same as a string; "..." ends it. */
static tdm_status read_ranks(const tdmi_fields *f, int field, tdmi_process_group *out)
{
    if (!tdmi_has(f, field))
        return TDM_OK;
    const tdmi_value v = f->value[field];
    size_t at = v.at + (f->text[v.at] == '"'), capacity = 0;
    if (f->text[at] != '[')
        return TDM_OK;
    for (at++; at < v.end && out->rank_count < RANKS_MAX; at++) {
        int64_t rank;
        at = tdmi_skip_space(f->text, at);
        if (at >= v.end || tdmi_number_int(f->text + at, &rank) != TDMI_NUMBER_GOOD || rank < 0 || rank > INT32_MAX)
            break;
        int32_t *grown = tdmi_with_room(out->rank, out->rank_count, &capacity, sizeof *grown, "trace groups");
        if (grown == NULL)
            return TDM_ERR_NO_MEMORY;
        out->rank = grown;
        out->rank[out->rank_count++] = (int32_t)rank;
        while (at < v.end && f->text[at] != ',')
            at++;
    }
    return TDM_OK;
}

static tdm_status read_group(tdmi_reader *r, const tdmi_fields *f, size_t *capacity)
{
    tdmi_trace *t = r->trace;
    if (t->group_count >= GROUPS_MAX)
        return TDM_OK;
    if (TDMI_READER_ROOM(t->group, t->group_count, *capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    tdmi_process_group *g = &t->group[t->group_count++];
    *g = (tdmi_process_group){.name = TDMI_NONE, .desc = TDMI_NONE, .backend = TDMI_NONE, .size = small(r, f, HEAD_GROUP_SIZE, -1)};
    tdm_status status = tdmi_reader_text(r, f, HEAD_GROUP_NAME, &g->name);
    if (status == TDM_OK)
        status = tdmi_reader_text(r, f, HEAD_GROUP_DESC, &g->desc);
    if (status == TDM_OK)
        status = tdmi_reader_text(r, f, HEAD_GROUP_BACKEND, &g->backend);
    return status == TDM_OK ? read_ranks(f, HEAD_GROUP_RANKS, g) : status;
}

static tdm_status read_device(tdmi_reader *r, const tdmi_fields *f, size_t *capacity)
{
    tdmi_trace *t = r->trace;
    if (t->device_count >= DEVICES_MAX)
        return TDM_OK;
    if (TDMI_READER_ROOM(t->device, t->device_count, *capacity) != TDM_OK)
        return TDM_ERR_NO_MEMORY;
    tdmi_device *d = &t->device[t->device_count++];
    *d = (tdmi_device){.id = small(r, f, HEAD_DEVICE_ID, -1),
                       .name = TDMI_NONE,
                       .memory_bytes = number(r, f, HEAD_DEVICE_MEMORY, 0),
                       .major = small(r, f, HEAD_MAJOR, 0),
                       .minor = small(r, f, HEAD_MINOR, 0),
                       .multiprocessors = small(r, f, HEAD_MULTIPROCESSORS, 0),
                       .warp_size = small(r, f, HEAD_WARP, 0),
                       .max_threads_per_multiprocessor = small(r, f, HEAD_THREADS_PER_MULTIPROCESSOR, 0),
                       .max_threads_per_block = small(r, f, HEAD_THREADS_PER_BLOCK, 0)};
    return tdmi_reader_text(r, f, HEAD_DEVICE_NAME, &d->name);
}

/* Each object of the array whose [ is token `at`. */
static tdm_status each_object(tdmi_reader *r, piece p, size_t at, tdm_status (*read)(tdmi_reader *, const tdmi_fields *, size_t *))
{
    size_t capacity = 0;
    tdmi_fields f = {0};
    if (p.text[p.token[at]] != '[')
        return TDM_OK;
    for (at++; p.text[p.token[at]] == '{';) {
        at = tdmi_fields_walk(&words, p.text, p.token, at, &f, NULL);
        if (at == 0)
            return TDM_OK;
        const tdm_status status = read(r, &f, &capacity);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}

/* The token whose offset is `offset`. */
static size_t token_at(piece p, size_t at, uint32_t offset)
{
    while (p.token[at] < offset)
        at++;
    return at;
}

static void drop_groups(tdmi_trace *t)
{
    for (size_t i = 0; i < t->group_count; i++)
        tdmi_free(t->group[i].rank);
    tdmi_free(t->group);
    t->group = NULL;
    t->group_count = 0;
}

static tdm_status read_distributed(tdmi_reader *r, piece p, size_t at)
{
    tdmi_trace *t = r->trace;
    tdmi_fields f = {0};
    if (tdmi_fields_walk(&words, p.text, p.token, at, &f, NULL) == 0)
        return TDM_OK;
    t->rank = small(r, &f, HEAD_RANK, -1);
    t->world_size = small(r, &f, HEAD_WORLD_SIZE, -1);
    if (t->rank < -1)
        t->rank = -1;
    t->backend = t->nccl_version = TDMI_NONE;
    drop_groups(t);
    tdm_status status = tdmi_reader_text(r, &f, HEAD_BACKEND, &t->backend);
    if (status == TDM_OK)
        status = tdmi_reader_text(r, &f, HEAD_NCCL_VERSION, &t->nccl_version);
    if (status == TDM_OK && tdmi_first(&f, HEAD_GROUPS) == '[')
        status = each_object(r, p, token_at(p, at, f.value[HEAD_GROUPS].at), read_group);
    return status;
}

/* The same as a string that holds JSON. */
static tdm_status read_distributed_text(tdmi_reader *r, const uint8_t *raw, size_t nbytes)
{
    bool repaired;
    uint8_t *text = tdmi_calloc(1, TDMI_DECODED_MAX(nbytes) + 64, "trace head");
    if (text == NULL)
        return TDM_ERR_NO_MEMORY;
    const size_t length = tdmi_decode(raw, nbytes, text, &repaired);
    memset(text + length, 0, 64);
    uint32_t *token = tdmi_calloc(length + 80, sizeof *token, "trace head");
    if (token == NULL) {
        tdmi_free(text);
        return TDM_ERR_NO_MEMORY;
    }
    tdmi_index_state state = {0};
    const size_t count = tdmi_index_plain(text, 0, length, &state, token);
    for (size_t i = count; i < length + 80; i++)
        token[i] = (uint32_t)length;
    const tdm_status status = text[token[0]] == '{' ? read_distributed(r, (piece){text, token}, 0) : TDM_OK;
    tdmi_free(token);
    tdmi_free(text);
    return status;
}

static bool is_set(const tdmi_fields *f, int field)
{
    const uint8_t first = tdmi_first(f, field);
    return first == 't' || (first >= '1' && first <= '9');
}

static void read_scalar(tdmi_reader *r, const tdmi_fields *f, uint8_t key)
{
    tdmi_trace *t = r->trace;
    switch (key) {
    case HEAD_BASE:
        t->base_ns = number(r, f, key, 0);
        break;
    case HEAD_SCHEMA:
        t->schema = number(r, f, key, 0);
        break;
    case HEAD_RECORD_SHAPES:
        t->record_shapes = is_set(f, key);
        break;
    case HEAD_PROFILE_MEMORY:
        t->profile_memory = is_set(f, key);
        break;
    case HEAD_WITH_STACK:
        t->with_stack = is_set(f, key);
        break;
    case HEAD_WITH_FLOPS:
        t->with_flops = is_set(f, key);
        break;
    case HEAD_WITH_MODULES:
        t->with_modules = is_set(f, key);
        break;
    case HEAD_CUPTI:
        t->cupti_version = number(r, f, key, 0);
        break;
    case HEAD_CUDA_RUNTIME:
        t->cuda_runtime_version = number(r, f, key, 0);
        break;
    case HEAD_CUDA_DRIVER:
        t->cuda_driver_version = number(r, f, key, 0);
        break;
    case HEAD_ROCTRACER:
    case HEAD_HIP_RUNTIME:
    case HEAD_HIP_DRIVER:
        t->vendor = TDMI_VENDOR_AMD;
        break;
    default:
        break;
    }
}

bool tdmi_reader_is_head(const uint8_t *key, size_t nbytes)
{
    pthread_once(&once, make_words);
    return tdmi_words_find(&words, key, nbytes) <= HEAD_TRACE_NAME;
}

/* A member of distributedInfo that is read by itself. */
static tdm_status read_distributed_member(tdmi_reader *r, const tdmi_fields *f, uint8_t key)
{
    tdmi_trace *t = r->trace;
    if (key == HEAD_RANK)
        t->rank = small(r, f, key, -1);
    else if (key == HEAD_WORLD_SIZE)
        t->world_size = small(r, f, key, -1);
    else if (key == HEAD_BACKEND)
        return tdmi_reader_text(r, f, key, &t->backend);
    else if (key == HEAD_NCCL_VERSION)
        return tdmi_reader_text(r, f, key, &t->nccl_version);
    return TDM_OK;
}

tdm_status tdmi_reader_head(tdmi_reader *r, const tdmi_head_member *m)
{
    tdmi_trace *t = r->trace;
    const piece p = {r->scanner.text, r->scanner.token};
    pthread_once(&once, make_words);
    const uint8_t key = tdmi_words_find(&words, p.text + m->key_at, m->key_nbytes);
    const uint8_t first = p.text[m->value.at];
    tdmi_fields f = {.text = p.text};
    f.has = (uint64_t)1 << key;
    f.value[key] = m->value;
    if (r->in_distributed)
        return read_distributed_member(r, &f, key);
    if (key > HEAD_TRACE_NAME)
        return TDM_OK;
    if (key == HEAD_DISTRIBUTED && first == '{')
        return read_distributed(r, p, m->token);
    if (key == HEAD_DISTRIBUTED && first == '"')
        return read_distributed_text(r, p.text + m->value.at + 1, m->value.end - m->value.at - 1);
    if (key == HEAD_DEVICES) {
        tdmi_free(t->device);
        t->device = NULL;
        t->device_count = 0;
        return each_object(r, p, m->token, read_device);
    }
    if (key == HEAD_HOST_NAME)
        return tdmi_reader_text(r, &f, key, &t->host_name);
    if (key == HEAD_TRACE_NAME)
        return tdmi_reader_text(r, &f, key, &t->trace_name);
    read_scalar(r, &f, key);
    return TDM_OK;
}
