/* pickle.c - the pickle machine without the opcodes that run code. Source of the format: CPython's pickletools. */
#include "flight/pickle.h"

#include "core/memory.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX ((size_t)1 << 20)

typedef struct machine {
    const uint8_t *bytes;
    size_t nbytes, at, opcode_at;
    tdmi_values *values;
    tdmi_value **stack, **memo;
    size_t depth, stack_capacity, memo_count, memo_capacity;
    size_t *mark; /* depths */
    size_t marks, mark_capacity;
} machine;

/* Opcodes that load names, make objects or call something, and what else has no place in a dump. */
static const struct {
    uint8_t opcode;
    const char *name;
} refused[] = {
    {'c', "GLOBAL"},      {'R', "REDUCE"},     {'b', "BUILD"},        {'i', "INST"},      {'o', "OBJ"},        {'P', "PERSID"},         {'Q', "BINPERSID"},
    {0x81, "NEWOBJ"},     {0x82, "EXT1"},      {0x83, "EXT2"},        {0x84, "EXT4"},     {0x92, "NEWOBJ_EX"}, {0x93, "STACK_GLOBAL"}, {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},   {0x91, "FROZENSET"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
};

static tdm_status damaged(const machine *m, const char *what)
{
    return tdmi_fail(TDM_ERR_BAD_FILE, "the pickle is damaged at byte %zu (opcode 0x%02x at byte %zu): %s", m->at, m->bytes[m->opcode_at], m->opcode_at, what);
}

static tdm_status refuse(const machine *m, uint8_t opcode)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].opcode == opcode)
            return tdmi_fail(TDM_ERR_BAD_FILE, "the pickle wants %s (opcode 0x%02x at byte %zu), which a dump of PyTorch's flight recorder never does: nothing of it was run",
                             refused[i].name, opcode, m->opcode_at);
    return damaged(m, "no such opcode");
}

static bool grow(void *array, size_t *capacity, size_t size)
{
    void *grown = tdmi_with_room(*(void **)array, *capacity, capacity, size, "flight dump");
    if (grown == NULL)
        return false;
    *(void **)array = grown;
    return true;
}

static tdm_status push(machine *m, tdmi_value *value)
{
    if (value == NULL)
        return m->values->status;
    if (m->depth == PLACES_MAX)
        return damaged(m, "more than 2^20 values on the stack");
    if (m->depth == m->stack_capacity && !grow(&m->stack, &m->stack_capacity, sizeof *m->stack))
        return TDM_ERR_NO_MEMORY;
    m->stack[m->depth++] = value;
    return TDM_OK;
}

static size_t floor_of(const machine *m)
{
    return m->marks > 0 ? m->mark[m->marks - 1] : 0;
}

static tdmi_value *pop(machine *m)
{
    return m->depth > floor_of(m) ? m->stack[--m->depth] : NULL;
}

static tdmi_value *top(const machine *m)
{
    return m->depth > floor_of(m) ? m->stack[m->depth - 1] : NULL;
}

/* A little-endian number of the pickle, and moves behind it. */
static bool take_number(machine *m, size_t nbytes, uint64_t *out)
{
    if (m->nbytes - m->at < nbytes)
        return false;
    *out = 0;
    for (size_t i = 0; i < nbytes; i++)
        *out |= (uint64_t)m->bytes[m->at + i] << (8 * i);
    m->at += nbytes;
    return true;
}

static tdm_status push_int(machine *m, int64_t number, tdmi_value_kind kind)
{
    tdmi_value *value = tdmi_values_new(m->values, kind);
    if (value != NULL)
        value->as.integer = number;
    return push(m, value);
}

static tdm_status push_real(machine *m, double number)
{
    tdmi_value *value = tdmi_values_new(m->values, TDMI_VALUE_FLOAT);
    if (value != NULL)
        value->as.real = number;
    return push(m, value);
}

/* Texts and bytes, with a length of `width` bytes in front. */
static tdm_status push_text(machine *m, size_t width)
{
    uint64_t nbytes;
    if (!take_number(m, width, &nbytes) || nbytes > m->nbytes - m->at)
        return damaged(m, "a text ends behind the file");
    tdmi_value *value = tdmi_values_new(m->values, TDMI_VALUE_TEXT);
    if (value != NULL) {
        value->as.text.at = (const char *)m->bytes + m->at;
        value->as.text.nbytes = (size_t)nbytes;
    }
    m->at += (size_t)nbytes;
    return push(m, value);
}

/* LONG1, LONG4: two's complement of any length; beyond 8 bytes the end of the range. */
static tdm_status push_long(machine *m, size_t width)
{
    uint64_t nbytes, number = 0;
    if (!take_number(m, width, &nbytes) || nbytes > m->nbytes - m->at)
        return damaged(m, "a number ends behind the file");
    const bool negative = nbytes > 0 && (m->bytes[m->at + nbytes - 1] & 0x80) != 0;
    for (size_t i = 0; i < 8; i++)
        number |= (uint64_t)(i < nbytes ? m->bytes[m->at + i] : negative ? 0xff : 0) << (8 * i);
    m->at += (size_t)nbytes;
    return push_int(m, nbytes <= 8 ? (int64_t)number : negative ? INT64_MIN : INT64_MAX, TDMI_VALUE_INT);
}

/* An argument up to the end of its line, of protocol 0. */
static bool take_line(machine *m, const char **line, size_t *nbytes)
{
    const uint8_t *end = memchr(m->bytes + m->at, '\n', m->nbytes - m->at);
    if (end == NULL)
        return false;
    *line = (const char *)m->bytes + m->at;
    *nbytes = (size_t)(end - m->bytes) - m->at;
    m->at += *nbytes + 1;
    return true;
}

/* "I12", "I01" (true), "L12L", "F1.5" */
static tdm_status push_line_number(machine *m, uint8_t opcode)
{
    char text[64], *end;
    const char *line;
    size_t nbytes;
    if (!take_line(m, &line, &nbytes) || nbytes == 0 || nbytes >= sizeof text)
        return damaged(m, "a number that is none");
    memcpy(text, line, nbytes);
    text[nbytes] = '\0';
    if (opcode == 'F') {
        const double real = strtod(text, &end);
        return *end == '\0' ? push_real(m, real) : damaged(m, "a number that is none");
    }
    if (opcode == 'I' && nbytes == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1'))
        return push_int(m, text[1] - '0', TDMI_VALUE_BOOL);
    const int64_t number = strtoll(text, &end, 10);
    return end != text && (*end == '\0' || (*end == 'L' && end[1] == '\0')) ? push_int(m, number, TDMI_VALUE_INT) : damaged(m, "a number that is none");
}

/* "V..." and "S'...'": escapes stay as they are written, for no name in a dump has one. */
static tdm_status push_line_text(machine *m, uint8_t opcode)
{
    const char *line;
    size_t nbytes;
    if (!take_line(m, &line, &nbytes))
        return damaged(m, "a text ends behind the file");
    if (opcode == 'S') {
        if (nbytes < 2 || (*line != '\'' && *line != '"') || line[nbytes - 1] != *line)
            return damaged(m, "a text without quotes");
        line++;
        nbytes -= 2;
    }
    tdmi_value *value = tdmi_values_new(m->values, TDMI_VALUE_TEXT);
    if (value != NULL) {
        value->as.text.at = line;
        value->as.text.nbytes = nbytes;
    }
    return push(m, value);
}

static tdm_status put_memo(machine *m, uint64_t place)
{
    tdmi_value *value = top(m);
    if (value == NULL || place >= PLACES_MAX)
        return damaged(m, "a memo of nothing, or too far");
    while (place >= m->memo_capacity) {
        const size_t before = m->memo_capacity;
        if (!grow(&m->memo, &m->memo_capacity, sizeof *m->memo))
            return TDM_ERR_NO_MEMORY;
        memset(m->memo + before, 0, (m->memo_capacity - before) * sizeof *m->memo);
    }
    m->memo[place] = value;
    m->memo_count = place >= m->memo_count ? (size_t)place + 1 : m->memo_count;
    return TDM_OK;
}

static tdm_status get_memo(machine *m, uint64_t place)
{
    if (place >= m->memo_count || m->memo[place] == NULL)
        return damaged(m, "a memo that was not made");
    return push(m, m->memo[place]);
}

static bool line_place(machine *m, uint64_t *place)
{
    const char *line;
    size_t nbytes;
    *place = 0;
    if (!take_line(m, &line, &nbytes) || nbytes == 0 || nbytes > 8)
        return false;
    for (size_t i = 0; i < nbytes; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        *place = *place * 10 + (uint64_t)(line[i] - '0');
    }
    return true;
}

/* What stands above the last mark goes to the end of `list`; the mark goes. */
static tdm_status drain(machine *m, tdmi_value *list)
{
    const size_t from = m->mark[m->marks - 1];
    for (size_t i = from; i < m->depth; i++)
        if (!tdmi_values_append(m->values, list, m->stack[i]))
            return m->values->status;
    m->depth = from;
    m->marks--;
    return TDM_OK;
}

/* TUPLE, LIST and DICT make a new one of it, APPENDS and SETITEMS add to the one below the mark. */
static tdm_status collect(machine *m, uint8_t opcode)
{
    const bool is_dict = opcode == 'd' || opcode == 'u';
    tdmi_value *into;
    if (m->marks == 0)
        return damaged(m, "no mark");
    const size_t from = m->mark[m->marks - 1], below = m->marks > 1 ? m->mark[m->marks - 2] : 0;
    if (is_dict && (m->depth - from) % 2 != 0)
        return damaged(m, "a key without a value");
    if (opcode == 'e' || opcode == 'u') {
        into = from > below ? m->stack[from - 1] : NULL;
        if (into == NULL || into->kind != (is_dict ? TDMI_VALUE_DICT : TDMI_VALUE_LIST))
            return damaged(m, "items for what holds none");
        return drain(m, into);
    }
    into = tdmi_values_new(m->values, is_dict ? TDMI_VALUE_DICT : TDMI_VALUE_LIST);
    if (into == NULL)
        return m->values->status;
    const tdm_status status = drain(m, into);
    return status == TDM_OK ? push(m, into) : status;
}

/* APPEND and SETITEM: one item, or a key and a value. */
static tdm_status add_one(machine *m, uint8_t opcode)
{
    tdmi_value *value = pop(m), *key = opcode == 's' ? pop(m) : value, *into = top(m);
    if (value == NULL || key == NULL || into == NULL || into->kind != (opcode == 's' ? TDMI_VALUE_DICT : TDMI_VALUE_LIST))
        return damaged(m, "an item for what holds none");
    if (opcode == 's' && !tdmi_values_append(m->values, into, key))
        return m->values->status;
    return tdmi_values_append(m->values, into, value) ? TDM_OK : m->values->status;
}

static tdm_status small_tuple(machine *m, size_t count)
{
    tdmi_value *tuple = tdmi_values_new(m->values, TDMI_VALUE_LIST);
    if (tuple == NULL)
        return m->values->status;
    if (m->depth - floor_of(m) < count)
        return damaged(m, "a tuple of nothing");
    for (size_t i = m->depth - count; i < m->depth; i++)
        if (!tdmi_values_append(m->values, tuple, m->stack[i]))
            return m->values->status;
    m->depth -= count;
    return push(m, tuple);
}

static tdm_status set_mark(machine *m)
{
    if (m->marks == PLACES_MAX)
        return damaged(m, "more than 2^20 marks");
    if (m->marks == m->mark_capacity && !grow(&m->mark, &m->mark_capacity, sizeof *m->mark))
        return TDM_ERR_NO_MEMORY;
    m->mark[m->marks++] = m->depth;
    return TDM_OK;
}

/* POP takes a mark where that is on top. */
static tdm_status drop(machine *m, bool to_mark)
{
    if (m->marks > 0 && (to_mark || m->depth == floor_of(m))) {
        m->depth = m->mark[--m->marks];
        return TDM_OK;
    }
    return !to_mark && pop(m) != NULL ? TDM_OK : damaged(m, "nothing to take away");
}

static tdm_status push_binary(machine *m, uint8_t opcode)
{
    uint64_t number;
    double real;
    const size_t width = opcode == 'K' ? 1 : opcode == 'M' ? 2 : opcode == 'J' ? 4 : 8;
    if (!take_number(m, width, &number))
        return damaged(m, "a number ends behind the file");
    if (opcode != 'G')
        return push_int(m, opcode == 'J' ? (int64_t)(int32_t)(uint32_t)number : (int64_t)number, TDMI_VALUE_INT);
    number = htole64(number);
    number = be64toh(number);
    memcpy(&real, &number, sizeof real);
    return push_real(m, real);
}

/* Opcodes with a number behind them that is no value: protocol, frame, places of the memo. */
static tdm_status step_with_number(machine *m, uint8_t opcode)
{
    uint64_t number = 0;
    const size_t width = opcode == 0x95 ? 8 : opcode == 'r' || opcode == 'j' ? 4 : 1;
    if (opcode == 'p' || opcode == 'g' ? !line_place(m, &number) : !take_number(m, width, &number))
        return damaged(m, "a number ends behind the file");
    if (opcode == 0x80)
        return number <= 5 ? TDM_OK : damaged(m, "a protocol later than 5");
    if (opcode == 0x95)
        return TDM_OK;
    return opcode == 'p' || opcode == 'q' || opcode == 'r' ? put_memo(m, number) : get_memo(m, number);
}

static tdm_status step(machine *m, uint8_t opcode)
{
    switch (opcode) {
    case '(': return set_mark(m);
    case 'N': return push(m, tdmi_values_new(m->values, TDMI_VALUE_NONE));
    case 0x88: case 0x89: return push_int(m, opcode == 0x88, TDMI_VALUE_BOOL);
    case ']': case ')': return push(m, tdmi_values_new(m->values, TDMI_VALUE_LIST));
    case '}': return push(m, tdmi_values_new(m->values, TDMI_VALUE_DICT));
    case 'J': case 'K': case 'M': case 'G': return push_binary(m, opcode);
    case 'I': case 'L': case 'F': return push_line_number(m, opcode);
    case 'S': case 'V': return push_line_text(m, opcode);
    case 'X': case 'B': case 'T': return push_text(m, 4);
    case 0x8c: case 'C': case 'U': return push_text(m, 1);
    case 0x8d: case 0x8e: case 0x96: return push_text(m, 8);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 't': case 'l': case 'd': case 'e': case 'u': return collect(m, opcode);
    case 'a': case 's': return add_one(m, opcode);
    case 0x85: case 0x86: case 0x87: return small_tuple(m, (size_t)opcode - 0x84);
    case 'p': case 'q': case 'r': case 'g': case 'h': case 'j': case 0x80: case 0x95: return step_with_number(m, opcode);
    case 0x94: return put_memo(m, m->memo_count);
    case '0': case '1': return drop(m, opcode == '1');
    case '2': return top(m) != NULL ? push(m, top(m)) : damaged(m, "nothing to double");
    default: return refuse(m, opcode);
    }
}

tdm_status tdmi_pickle_read(const uint8_t *bytes, size_t nbytes, tdmi_values *values, const tdmi_value **out)
{
    machine m = {.bytes = bytes, .nbytes = nbytes, .values = values};
    tdm_status status = TDM_OK;
    bool stopped = false;
    while (status == TDM_OK && !stopped && m.at < nbytes) {
        m.opcode_at = m.at++;
        stopped = bytes[m.opcode_at] == '.';
        if (!stopped)
            status = step(&m, bytes[m.opcode_at]);
    }
    if (status == TDM_OK && !stopped)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "the pickle ends at byte %zu without its end mark: the file is cut", nbytes);
    if (status == TDM_OK && (m.marks > 0 || m.depth != 1))
        status = damaged(&m, "it does not hold one value");
    if (status == TDM_OK)
        *out = m.stack[0];
    tdmi_free(m.stack);
    tdmi_free(m.memo);
    tdmi_free(m.mark);
    return status;
}
