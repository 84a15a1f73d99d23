/* op.c - names and rules of operations, and the table of those that callers made.
 *
 * A slot's state is one word: the operation's number, whether it was freed, and how many calls use it. Fields of a slot are
 * written under the lock while its state is 0, and read by whoever found the number in the state. */
#include "coll/op.h"

#include "core/dtype.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 1024, NAME_MAX_BYTES = 32, SCALAR_BYTES = 8 };
#define SLOT_BITS 10 /* of SLOTS */
#define TURNS 0x7ffffu /* times a slot is used before its numbers come again */
#define FREED ((uint64_t)1 << 31)
#define USES (FREED - 1)
#define WIRE_FUNCTION 0xfe

typedef struct slot {
    _Atomic uint64_t state; /* number << 32 | FREED | uses; 0: empty. Release of the maker pairs with acquire of users */
    uint32_t turn;          /* guarded by lock */
    tdm_op_fn fn;
    void *context;
    tdm_dtype dtype;
    unsigned char scalar[SCALAR_BYTES];
    char name[NAME_MAX_BYTES];
} slot;

static slot slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for making; a leaf */

static const char *const names[TDM_OP_COUNT] = {
#define ROW(NAME, name) name,
    TDM_OP_MAP(ROW)
#undef ROW
};

static slot *slot_of(tdm_op op)
{
    return &slots[(unsigned)op & (SLOTS - 1)];
}

static bool lives(uint64_t state, tdm_op op)
{
    return state >> 32 == (uint32_t)op && (state & FREED) == 0;
}

static bool is_made(tdm_op op)
{
    return (tdmi_op_is_function(op) || tdmi_op_prepares(op)) &&
           lives(atomic_load_explicit(&slot_of(op)->state, memory_order_acquire), op);
}

/* ---- names ---- */

const char *tdm_op_name(tdm_op op)
{
    if ((unsigned)op < TDM_OP_COUNT)
        return names[op];
    return is_made(op) ? slot_of(op)->name : "unknown";
}

bool tdm_op_parse(const char *name, tdm_op *out)
{
    for (int i = 0; i < TDM_OP_COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (tdm_op)i;
            return true;
        }
    return false;
}

uint8_t tdmi_op_wire_code(tdm_op op)
{
    return (uint8_t)(tdmi_op_is_function(op) ? WIRE_FUNCTION : (unsigned)tdmi_op_base(op));
}

const char *tdmi_op_wire_name(uint8_t code)
{
    return code == WIRE_FUNCTION ? "a user's operation" : code < TDM_OP_COUNT ? names[code] : "unknown";
}

/* ---- rules ---- */

tdm_dtype tdmi_accumulate_dtype(tdm_dtype dtype, tdm_op op)
{
    switch (dtype) {
    case TDM_BF16:
    case TDM_F16: return TDM_F32;
    case TDM_I8:
    case TDM_U8:
    case TDM_I32:
    case TDM_U32: return op == TDM_AVG ? TDM_I64 : dtype;
    case TDM_I64:
    case TDM_U64: return op == TDM_AVG ? TDMI_I128 : dtype;
    default: return dtype;
    }
}

tdm_status tdmi_op_refuse(tdm_dtype dtype, tdm_op op, const char *what, const char *engine, const char *reason)
{
    return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s: %s of %s does not exist on engine %s; %s", what, tdm_op_name(op),
                     tdm_dtype_name(dtype), engine, reason);
}

/* Why a built-in operation does not exist for a dtype; NULL: it does. */
static const char *why_not(tdm_dtype dtype, tdm_op op)
{
    const bool is_float = dtype == TDM_F32 || dtype == TDM_F64 || dtype == TDM_F16 || dtype == TDM_BF16;
    switch (op) {
    case TDM_MIN:
    case TDM_MAX: return dtype == TDM_C64 ? "complex numbers have no order" : NULL;
    case TDM_BAND:
    case TDM_BOR:
    case TDM_BXOR: return is_float || dtype == TDM_C64 ? "bitwise operations are for integers and bool" : NULL;
    case TDM_AVG: return dtype == TDM_BOOL ? "truth values have none; take it of a type of numbers" : NULL;
    default: return NULL;
    }
}

tdm_status tdmi_op_check(tdm_dtype dtype, tdm_op op, const char *what, const char *engine)
{
    if ((unsigned)dtype >= TDM_DTYPE_COUNT)
        return tdmi_fail(TDM_ERR_INVALID, "%s: %d is no dtype", what, (int)dtype);
    if ((unsigned)op < TDM_OP_COUNT) {
        const char *reason = why_not(dtype, op);
        return reason == NULL ? TDM_OK : tdmi_op_refuse(dtype, op, what, engine, reason);
    }
    if (!is_made(op))
        return tdmi_fail(TDM_ERR_INVALID, "%s: %d is no operation; it was freed or never made", what, (int)op);
    if (tdmi_op_prepares(op) && slot_of(op)->dtype != dtype)
        return tdmi_fail(TDM_ERR_INVALID, "%s: %s was made for %s and cannot be used with %s", what, slot_of(op)->name,
                         tdm_dtype_name(slot_of(op)->dtype), tdm_dtype_name(dtype));
    return TDM_OK;
}

/* ---- use ---- */

bool tdmi_op_hold(tdm_op op)
{
    if ((unsigned)op < TDM_OP_COUNT)
        return true;
    if (!is_made(op))
        return false;
    _Atomic uint64_t *state = &slot_of(op)->state;
    uint64_t found = atomic_load_explicit(state, memory_order_relaxed);
    while (lives(found, op))
        if (atomic_compare_exchange_weak_explicit(state, &found, found + 1, memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

void tdmi_op_release(tdm_op op)
{
    if ((unsigned)op < TDM_OP_COUNT)
        return;
    _Atomic uint64_t *state = &slot_of(op)->state;
    uint64_t found = atomic_load_explicit(state, memory_order_relaxed), left;
    do
        left = (found & (FREED | USES)) == (FREED | 1) ? 0 : found - 1;
    while (!atomic_compare_exchange_weak_explicit(state, &found, left, memory_order_release, memory_order_relaxed));
}

void tdmi_op_run(tdm_op op, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    const slot *s = slot_of(op);
    s->fn(s->context, a, b, out, count, dtype);
}

const void *tdmi_op_scalar(tdm_op op)
{
    return slot_of(op)->scalar;
}

/* ---- making and freeing ---- */

/* Takes an empty slot and publishes it. */
static tdm_status make(unsigned kind, const slot *content, const char *name, tdm_op *out)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < SLOTS; i++) {
        slot *s = &slots[i];
        if (atomic_load_explicit(&s->state, memory_order_acquire) != 0) /* pairs with the release of the last user */
            continue;
        s->turn = (s->turn + 1) & TURNS;
        s->fn = content->fn;
        s->context = content->context;
        s->dtype = content->dtype;
        memcpy(s->scalar, content->scalar, sizeof s->scalar);
        snprintf(s->name, sizeof s->name, "%s", name);
        const uint32_t number = kind | s->turn << SLOT_BITS | i;
        atomic_store_explicit(&s->state, (uint64_t)number << 32, memory_order_release);
        pthread_mutex_unlock(&lock);
        *out = (tdm_op)number;
        return TDM_OK;
    }
    pthread_mutex_unlock(&lock);
    return tdmi_fail(TDM_ERR_NO_SPACE, "no room for operation %s: %d exist; free those no longer used with tdm_op_free", name,
                     (int)SLOTS);
}

tdm_status tdm_op_create(tdm_op_fn fn, void *context, const char *name, tdm_op *out)
{
    if (fn == NULL || out == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_op_create: %s is NULL", fn == NULL ? "the function" : "out");
    const slot content = {.fn = fn, .context = context};
    return make(TDMI_OP_FUNCTION, &content, name != NULL ? name : "user", out);
}

tdm_status tdm_op_create_premul(tdm_dtype dtype, const void *scalar, tdm_op *out)
{
    if (scalar == NULL || out == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_op_create_premul: %s is NULL", scalar == NULL ? "the scalar" : "out");
    if ((unsigned)dtype >= TDM_DTYPE_COUNT)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_op_create_premul: %d is no dtype", (int)dtype);
    if (dtype == TDM_BOOL)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "tdm_op_create_premul: premultiplied sum of bool does not exist on any engine; truth "
                         "values are not multiplied");
    slot content = {.dtype = dtype};
    memcpy(content.scalar, scalar, tdm_dtype_size(tdmi_accumulate_dtype(dtype, TDM_SUM)));
    return make(TDMI_OP_PREMUL, &content, "premultiplied sum", out);
}

tdm_status tdm_op_free(tdm_op op)
{
    if ((unsigned)op < TDM_OP_COUNT)
        return tdmi_fail(TDM_ERR_INVALID, "tdm_op_free: %s is built in", names[op]);
    if (is_made(op)) {
        _Atomic uint64_t *state = &slot_of(op)->state;
        uint64_t found = atomic_load_explicit(state, memory_order_relaxed);
        while (lives(found, op)) {
            const uint64_t left = (found & USES) == 0 ? 0 : found | FREED; /* else the last call empties it */
            if (atomic_compare_exchange_weak_explicit(state, &found, left, memory_order_release, memory_order_relaxed))
                return TDM_OK;
        }
    }
    return tdmi_fail(TDM_ERR_INVALID, "tdm_op_free: %d is no operation; it was freed or never made", (int)op);
}
