/* tables.c - arrays with an index of hashes over them. An index holds places, never pointers: arrays move when they grow. */
#include "nccl_log/tables.h"

#include "core/memory.h"
#include "nccl_log/names.h"

#include <string.h>

typedef struct places {
    uint32_t *slot; /* place + 1; 0 free */
    size_t capacity;
} places;

struct tdmi_nccl_index {
    places host, process, comm, member, pair, choice, variable, message;
    uint32_t capacity[8];
    tdm_status status;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value;
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_pointer(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static void fail(tdmi_nccl_log *log, tdm_status status)
{
    if (log->index->status == TDM_OK)
        log->index->status = status;
}

/* ---- entries ---- */
enum { HOST, PROCESS, COMM, MEMBER, PAIR, CHOICE, VARIABLE, MESSAGE };

/* What all tables have in common: where the array, its count and its index are, and how an entry is compared and hashed. */
typedef struct table {
    places *index;
    void **array;
    uint32_t *count, *capacity, max;
    size_t nbytes;
    uint64_t (*hash)(const void *entry);
    bool (*same)(const void *a, const void *b);
} table;

static bool index_grow(const table *t)
{
    const size_t capacity = t->index->capacity * 2 + 64;
    uint32_t *slot = tdmi_calloc(capacity, sizeof *slot, "nccl log");
    if (slot == NULL)
        return false;
    for (uint32_t i = 0; i < *t->count; i++) {
        size_t at = t->hash((const char *)*t->array + i * t->nbytes) % capacity;
        while (slot[at] != 0)
            at = (at + 1) % capacity;
        slot[at] = i + 1;
    }
    tdmi_free(t->index->slot);
    t->index->slot = slot;
    t->index->capacity = capacity;
    return true;
}

static bool array_grow(const table *t)
{
    if (*t->count < *t->capacity)
        return true;
    const uint32_t capacity = *t->capacity * 2 + 32;
    void *more = tdmi_realloc(*t->array, capacity * t->nbytes, "nccl log");
    if (more == NULL)
        return false;
    *t->array = more;
    *t->capacity = capacity;
    return true;
}

/* The place of the entry like `key`, which is added where there is none. */
static uint32_t find_or_add(tdmi_nccl_log *log, const table *t, const void *key)
{
    if (log->index->status != TDM_OK)
        return TDMI_NCCL_NONE;
    if ((size_t)*t->count * 2 >= t->index->capacity && !index_grow(t)) {
        fail(log, TDM_ERR_NO_MEMORY);
        return TDMI_NCCL_NONE;
    }
    size_t at = t->hash(key) % t->index->capacity;
    for (; t->index->slot[at] != 0; at = (at + 1) % t->index->capacity)
        if (t->same((const char *)*t->array + (t->index->slot[at] - 1) * t->nbytes, key))
            return t->index->slot[at] - 1;
    if (*t->count >= t->max) {
        log->not_kept++;
        return TDMI_NCCL_NONE;
    }
    if (!array_grow(t)) {
        fail(log, TDM_ERR_NO_MEMORY);
        return TDMI_NCCL_NONE;
    }
    memcpy((char *)*t->array + *t->count * t->nbytes, key, t->nbytes);
    t->index->slot[at] = *t->count + 1;
    return (*t->count)++;
}

#define ENTRY_TABLE(type, which, field, counter, limit)                                                                                    \
    static uint32_t put_##field(tdmi_nccl_log *log, const type *key)                                                                       \
    {                                                                                                                                      \
        void *array = log->field;                                                                                                          \
        const table t = {&log->index->field, &array,       &log->counter, &log->index->capacity[which], limit,                             \
                         sizeof *key,        hash_##field, same_##field};                                                                  \
        const uint32_t place = find_or_add(log, &t, key);                                                                                  \
        log->field = array;                                                                                                                \
        return place;                                                                                                                      \
    }

static uint64_t hash_host(const void *entry)
{
    return mix(1, hash_pointer(((const tdmi_nccl_host *)entry)->name));
}

static bool same_host(const void *a, const void *b)
{
    return ((const tdmi_nccl_host *)a)->name == ((const tdmi_nccl_host *)b)->name;
}

static uint64_t hash_process(const void *entry)
{
    const tdmi_nccl_process *p = entry;
    return mix(mix(2, p->host), (uint64_t)p->pid);
}

static bool same_process(const void *a, const void *b)
{
    const tdmi_nccl_process *x = a, *y = b;
    return x->host == y->host && x->pid == y->pid;
}

static uint64_t hash_comm(const void *entry)
{
    const tdmi_nccl_comm *c = entry;
    return mix(mix(mix(3, c->id), (uint64_t)c->ranks), c->numbered);
}

static bool same_comm(const void *a, const void *b)
{
    const tdmi_nccl_comm *x = a, *y = b;
    return x->id == y->id && x->ranks == y->ranks && x->numbered == y->numbered;
}

static uint64_t hash_member(const void *entry)
{
    const tdmi_nccl_member *m = entry;
    return mix(mix(mix(4, m->comm), m->process), (uint64_t)m->rank);
}

static bool same_member(const void *a, const void *b)
{
    const tdmi_nccl_member *x = a, *y = b;
    return x->comm == y->comm && x->process == y->process && x->rank == y->rank;
}

static uint64_t hash_pair(const void *entry)
{
    const tdmi_nccl_pair *p = entry;
    const uint64_t flags = (uint64_t)p->kind << 2 | (uint64_t)p->gdr << 1 | (uint64_t)p->is_receive;
    return mix(mix(mix(mix(mix(p->process, p->comm), (uint64_t)p->from), (uint64_t)p->to), flags), hash_pointer(p->way));
}

static bool same_pair(const void *a, const void *b)
{
    const tdmi_nccl_pair *x = a, *y = b;
    return x->process == y->process && x->comm == y->comm && x->from == y->from && x->to == y->to && x->kind == y->kind &&
           x->gdr == y->gdr && x->is_receive == y->is_receive && x->way == y->way;
}

static uint64_t hash_choice(const void *entry)
{
    const tdmi_nccl_choice *c = entry;
    return mix(mix(mix((uint64_t)c->nbytes, hash_pointer(c->op)), hash_pointer(c->algorithm)), hash_pointer(c->protocol));
}

static bool same_choice(const void *a, const void *b)
{
    const tdmi_nccl_choice *x = a, *y = b;
    return x->nbytes == y->nbytes && x->op == y->op && x->algorithm == y->algorithm && x->protocol == y->protocol;
}

static uint64_t hash_variable(const void *entry)
{
    const tdmi_nccl_variable *v = entry;
    return mix(mix(mix(v->host, hash_pointer(v->name)), hash_pointer(v->value)), v->echoed);
}

static bool same_variable(const void *a, const void *b)
{
    const tdmi_nccl_variable *x = a, *y = b;
    return x->host == y->host && x->name == y->name && x->value == y->value && x->echoed == y->echoed;
}

static uint64_t hash_message(const void *entry)
{
    const tdmi_nccl_message *m = entry;
    return mix(mix(mix(m->kind, m->process), hash_pointer(m->text)), (uint64_t)m->rank);
}

static bool same_message(const void *a, const void *b)
{
    const tdmi_nccl_message *x = a, *y = b;
    return x->kind == y->kind && x->process == y->process && x->text == y->text && x->rank == y->rank;
}

ENTRY_TABLE(tdmi_nccl_host, HOST, host, hosts, TDMI_NCCL_HOSTS_MAX)
ENTRY_TABLE(tdmi_nccl_process, PROCESS, process, processes, TDMI_NCCL_PROCESSES_MAX)
ENTRY_TABLE(tdmi_nccl_comm, COMM, comm, comms, TDMI_NCCL_COMMS_MAX)
ENTRY_TABLE(tdmi_nccl_member, MEMBER, member, members, TDMI_NCCL_MEMBERS_MAX)
ENTRY_TABLE(tdmi_nccl_pair, PAIR, pair, pairs, TDMI_NCCL_PAIRS_MAX)
ENTRY_TABLE(tdmi_nccl_choice, CHOICE, choice, choices, TDMI_NCCL_CHOICES_MAX)
ENTRY_TABLE(tdmi_nccl_variable, VARIABLE, variable, variables, TDMI_NCCL_VARIABLES_MAX)
ENTRY_TABLE(tdmi_nccl_message, MESSAGE, message, messages, TDMI_NCCL_MESSAGES_MAX)

static uint32_t host_of(tdmi_nccl_log *log, tdmi_span name)
{
    const tdmi_nccl_host key = {.name = tdmi_nccl_name(log, name),
                                .address = "",
                                .bootstrap = "",
                                .sockets = "",
                                .adapters = "",
                                .network = "",
                                .gdr_distance = -1,
                                .gdr_level = -1};
    return put_host(log, &key);
}

bool tdmi_nccl_host_is_known(const void *arg, tdmi_span name)
{
    const tdmi_nccl_log *log = arg;
    const places *index = &log->index->host;
    const tdmi_nccl_host key = {.name = tdmi_nccl_names_find(log->names, name)};
    if (key.name == NULL || index->capacity == 0)
        return false;
    for (size_t at = hash_host(&key) % index->capacity; index->slot[at] != 0; at = (at + 1) % index->capacity)
        if (log->host[index->slot[at] - 1].name == key.name)
            return true;
    return false;
}

const char *tdmi_nccl_name(tdmi_nccl_log *log, tdmi_span text)
{
    tdm_status status = TDM_OK;
    const char *name = tdmi_nccl_names_keep(log->names, text, &status);
    if (status == TDM_ERR_NO_MEMORY)
        fail(log, status);
    log->not_kept += status == TDM_ERR_NO_SPACE;
    return name;
}

uint32_t tdmi_nccl_process_at(tdmi_nccl_log *log, const tdmi_nccl_record *record)
{
    const uint32_t host = host_of(log, record->host);
    if (host == TDMI_NCCL_NONE)
        return host;
    const tdmi_nccl_process key = {.host = host,
                                   .pid = record->pid,
                                   .rank = -1,
                                   .size = -1,
                                   .device = -1,
                                   .prefix_rank = -1,
                                   .last_member = TDMI_NCCL_NONE,
                                   .pending = TDMI_NCCL_NONE,
                                   .channels = -1,
                                   .nvls_channels = -1,
                                   .ring = ""};
    return put_process(log, &key);
}

uint32_t tdmi_nccl_comm_of(tdmi_nccl_log *log, uint64_t id, int64_t ranks, bool numbered)
{
    const tdmi_nccl_comm key = {.id = id, .ranks = ranks, .numbered = numbered, .ring = "", .first = TDMI_NCCL_NONE};
    return put_comm(log, &key);
}

tdmi_nccl_member *tdmi_nccl_member_of(tdmi_nccl_log *log, uint32_t comm, uint32_t process, int64_t rank)
{
    const tdmi_nccl_member key = {.comm = comm,
                                  .process = process,
                                  .rank = rank,
                                  .next_in_comm = TDMI_NCCL_NONE,
                                  .next_in_process = TDMI_NCCL_NONE};
    const uint32_t before = log->members, place = put_member(log, &key);
    if (place == TDMI_NCCL_NONE)
        return NULL;
    tdmi_nccl_member *member = &log->member[place];
    if (log->members > before) {
        member->next_in_comm = log->comm[comm].first;
        log->comm[comm].first = place;
        log->comm[comm].members++;
        member->next_in_process = log->process[process].last_member;
        log->process[process].last_member = place;
    }
    return member;
}

tdmi_nccl_pair *tdmi_nccl_pair_of(tdmi_nccl_log *log, const tdmi_nccl_pair *key)
{
    const uint32_t before = log->pairs, place = put_pair(log, key);
    if (place == TDMI_NCCL_NONE)
        return NULL;
    if (log->pairs > before && key->comm == TDMI_NCCL_NONE) {
        log->pair[place].next = log->process[key->process].pending;
        log->process[key->process].pending = place;
    }
    return &log->pair[place];
}

tdmi_nccl_choice *tdmi_nccl_choice_of(tdmi_nccl_log *log, const tdmi_nccl_choice *key)
{
    const uint32_t place = put_choice(log, key);
    return place != TDMI_NCCL_NONE ? &log->choice[place] : NULL;
}

tdmi_nccl_variable *tdmi_nccl_variable_add(tdmi_nccl_log *log, const tdmi_nccl_variable *key)
{
    const uint32_t place = put_variable(log, key);
    return place != TDMI_NCCL_NONE ? &log->variable[place] : NULL;
}

tdmi_nccl_message *tdmi_nccl_message_add(tdmi_nccl_log *log, const tdmi_nccl_message *key)
{
    const uint32_t place = put_message(log, key);
    return place != TDMI_NCCL_NONE ? &log->message[place] : NULL;
}

tdm_status tdmi_nccl_tables_create(tdmi_nccl_log *log)
{
    log->index = tdmi_calloc(1, sizeof *log->index, "nccl log");
    log->names = tdmi_nccl_names_create();
    return log->index != NULL && log->names != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

tdm_status tdmi_nccl_tables_status(const tdmi_nccl_log *log)
{
    return log->index->status;
}

void tdmi_nccl_tables_free(tdmi_nccl_log *log)
{
    if (log->index != NULL) {
        places *all[] = {&log->index->host, &log->index->process, &log->index->comm,     &log->index->member,
                         &log->index->pair, &log->index->choice,  &log->index->variable, &log->index->message};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            tdmi_free(all[i]->slot);
    }
    tdmi_free(log->index);
    tdmi_nccl_names_destroy(log->names);
    void *arrays[] = {log->host, log->process, log->comm, log->member, log->pair, log->choice, log->variable, log->message};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        tdmi_free(arrays[i]);
}
