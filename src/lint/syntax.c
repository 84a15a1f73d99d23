/* syntax.c - JSON lines into nodes: [kind, field, parent, line, column, value, extra]. */
#include "lint/syntax.h"

#include "core/memory.h"
#include "lint/shape.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MIN 16 /* no node's line is shorter: bounds what a head may promise */

static const char *const kinds[] = {
#define NAME(name) #name,
    TDMI_PY_MAP(NAME)
};
static const char *const fields[] = {
    TDMI_IN_MAP(NAME)
#undef NAME
};

static uint8_t place_of(const char *name, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return (uint8_t)i;
}

/* Puts a text behind the others; the block is as large as the input, and no text is longer than its JSON. */
static const char *keep(const json_t *value, char **at)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        return "";
    const size_t nbytes = json_string_length(value) + 1;
    char *text = *at;
    memcpy(text, json_string_value(value), nbytes);
    *at += nbytes;
    return text;
}

static bool is_line(const json_t *line)
{
    if (!json_is_array(line) || json_array_size(line) != 7 || !json_is_string(json_array_get(line, 0)) ||
        !json_is_string(json_array_get(line, 1)) || !json_is_string(json_array_get(line, 6)))
        return false;
    for (size_t i = 2; i < 5; i++)
        if (!json_is_integer(json_array_get(line, i)) || json_integer_value(json_array_get(line, i)) < -1 ||
            json_integer_value(json_array_get(line, i)) > INT32_MAX)
            return false;
    return true;
}

static void take_constant(const json_t *value, const char *type, tdmi_node *node)
{
    node->constant = json_is_string(value)              ? TDMI_STR
                     : json_is_number(value)            ? TDMI_NUMBER
                     : json_is_boolean(value)           ? TDMI_BOOL
                     : strcmp(type, "NoneType") == 0    ? TDMI_NONE
                                                        : TDMI_OTHER_CONSTANT;
    node->is_true = json_is_true(value);
    node->number = json_number_value(value);
}

/* Node i; its parent has to be the node before it or an ancestor of that one, as in any preorder. */
static bool take_node(const json_t *line, tdmi_node *all, size_t i, char **texts)
{
    if (!is_line(line))
        return false;
    tdmi_node *node = &all[i];
    const json_int_t parent = json_integer_value(json_array_get(line, 2));
    if (i == 0 ? parent != -1 : parent < 0 || parent >= (json_int_t)i)
        return false;
    node->kind = place_of(json_string_value(json_array_get(line, 0)), kinds, TDMI_PY_OTHER);
    node->field = place_of(json_string_value(json_array_get(line, 1)), fields, TDMI_IN_OTHER);
    node->line = (int)json_integer_value(json_array_get(line, 3));
    node->column = (int)json_integer_value(json_array_get(line, 4));
    node->size = 1;
    node->text = keep(json_array_get(line, 5), texts);
    node->extra = keep(json_array_get(line, 6), texts);
    if (node->kind == TDMI_PY_Constant)
        take_constant(json_array_get(line, 5), node->extra, node);
    if (i == 0)
        return node->kind == TDMI_PY_Module;
    const tdmi_node *above = &all[i - 1];
    while (above != NULL && above != &all[parent])
        above = above->parent;
    node->parent = &all[parent];
    return above != NULL;
}

static tdm_status read_head(const char *bytes, size_t nbytes, size_t *count_out, tdmi_syntax *out)
{
    json_error_t error;
    json_t *head = json_loadb(bytes, nbytes, 0, &error);
    const char *refused = json_string_value(json_object_get(head, "error"));
    const char *python = json_string_value(json_object_get(head, "python"));
    const json_int_t count = json_integer_value(json_object_get(head, "nodes"));
    tdm_status status = TDM_OK;
    if (refused != NULL)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "%.300s (Python %.20s)", refused, python != NULL ? python : "?");
    else if (python == NULL || count < 1 || count > INT32_MAX)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "the parser's output has no head: is python3 CPython 3.8 or newer?");
    else
        snprintf(out->python, sizeof out->python, "%s", python);
    *count_out = (size_t)count;
    json_decref(head);
    return status;
}

static tdm_status read_nodes(const char *at, const char *end, size_t count, tdmi_syntax *out)
{
    char *texts = out->text;
    for (size_t i = 0; i < count; i++) {
        json_error_t error;
        const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        json_t *line = stop != NULL ? json_loadb(at, (size_t)(stop - at), 0, &error) : NULL;
        const bool good = line != NULL && take_node(line, out->node, i, &texts);
        json_decref(line);
        if (!good)
            return tdmi_fail(TDM_ERR_BAD_FILE, "node %zu of %zu in the parser's output is damaged", i, count);
        out->count = i + 1;
        at = stop + 1;
    }
    for (size_t i = count; i-- > 1;)
        out->node[i].parent->size += out->node[i].size;
    for (size_t i = 0; i < count; i++)
        if (!tdmi_is_well_shaped(&out->node[i]))
            return tdmi_fail(TDM_ERR_BAD_FILE, "node %zu in the parser's output lacks a part: is python3 CPython 3.8 or newer?", i);
    return TDM_OK;
}

tdm_status tdmi_syntax_read(const char *bytes, size_t nbytes, tdmi_syntax *out)
{
    tdmi_syntax syntax = {0};
    size_t count = 0;
    const char *stop = memchr(bytes, '\n', nbytes);
    const size_t head = stop != NULL ? (size_t)(stop - bytes) : nbytes;
    tdm_status status = read_head(bytes, head, &count, &syntax);
    if (status != TDM_OK)
        return status;
    if (count > nbytes / LINE_BYTES_MIN)
        return tdmi_fail(TDM_ERR_BAD_FILE, "the parser promised %zu nodes and wrote %zu bytes", count, nbytes);
    syntax.node = tdmi_calloc(count, sizeof *syntax.node, "syntax tree");
    syntax.text = tdmi_malloc(nbytes, "syntax tree");
    status = syntax.node == NULL || syntax.text == NULL ? TDM_ERR_NO_MEMORY
                                                        : read_nodes(stop != NULL ? stop + 1 : bytes + nbytes, bytes + nbytes, count, &syntax);
    if (status != TDM_OK)
        tdmi_syntax_free(&syntax);
    else
        *out = syntax;
    return status;
}

void tdmi_syntax_free(tdmi_syntax *syntax)
{
    tdmi_free(syntax->node);
    tdmi_free(syntax->text);
    *syntax = (tdmi_syntax){0};
}

/* ---- finding one's way ---- */

static const tdmi_node *next_child(const tdmi_node *parent, const tdmi_node *from, uint8_t field)
{
    for (const tdmi_node *child = from; child < tdmi_end(parent); child = tdmi_end(child))
        if (child->field == field)
            return child;
    return NULL;
}

const tdmi_node *tdmi_child(const tdmi_node *node, tdmi_in field)
{
    return next_child(node, node + 1, (uint8_t)field);
}

const tdmi_node *tdmi_sibling(const tdmi_node *node)
{
    return node->parent != NULL ? next_child(node->parent, tdmi_end(node), node->field) : NULL;
}

const tdmi_node *tdmi_last_sibling(const tdmi_node *node)
{
    for (const tdmi_node *next = tdmi_sibling(node); next != NULL; next = tdmi_sibling(next))
        node = next;
    return node;
}

size_t tdmi_children(const tdmi_node *node, tdmi_in field)
{
    size_t count = 0;
    for (const tdmi_node *child = tdmi_child(node, field); child != NULL; child = tdmi_sibling(child))
        count++;
    return count;
}

const tdmi_node *tdmi_keyword(const tdmi_node *call, const char *name)
{
    for (const tdmi_node *k = tdmi_child(call, TDMI_IN_keywords); k != NULL; k = tdmi_sibling(k))
        if (strcmp(k->text, name) == 0)
            return tdmi_child(k, TDMI_IN_value);
    return NULL;
}

const tdmi_node *tdmi_argument(const tdmi_node *call, int place, const char *name)
{
    const tdmi_node *given = name != NULL ? tdmi_keyword(call, name) : NULL;
    if (given != NULL || place < 0)
        return given;
    const tdmi_node *argument = tdmi_child(call, TDMI_IN_args);
    for (int i = 0; argument != NULL; i++, argument = tdmi_sibling(argument)) {
        if (argument->kind == TDMI_PY_Starred)
            return NULL;
        if (i == place)
            return argument;
    }
    return NULL;
}

bool tdmi_has_unseen_arguments(const tdmi_node *call)
{
    for (const tdmi_node *k = tdmi_child(call, TDMI_IN_keywords); k != NULL; k = tdmi_sibling(k))
        if (k->text[0] == '\0')
            return true;
    for (const tdmi_node *a = tdmi_child(call, TDMI_IN_args); a != NULL; a = tdmi_sibling(a))
        if (a->kind == TDMI_PY_Starred)
            return true;
    return false;
}

bool tdmi_is_number(const tdmi_node *node, double value)
{
    if (node == NULL)
        return false;
    if (node->kind == TDMI_PY_UnaryOp && strcmp(node->text, "USub") == 0)
        return value < 0 && tdmi_is_number(tdmi_child(node, TDMI_IN_operand), -value);
    return node->constant == TDMI_NUMBER && node->number == value;
}

bool tdmi_is_bool(const tdmi_node *node, bool value)
{
    return node != NULL && node->constant == TDMI_BOOL && node->is_true == value;
}

bool tdmi_is_none(const tdmi_node *node)
{
    return node != NULL && node->constant == TDMI_NONE;
}

bool tdmi_is_text(const tdmi_node *node, const char *text)
{
    return node != NULL && node->constant == TDMI_STR && strcmp(node->text, text) == 0;
}

bool tdmi_ends_in(const tdmi_node *node, const char *name)
{
    return node != NULL && tdmi_is_named(node) && strcmp(node->text, name) == 0;
}

static bool is_statement(const tdmi_node *node)
{
    if (node->field == TDMI_IN_handlers)
        return true;
    if (node->field != TDMI_IN_body && node->field != TDMI_IN_orelse && node->field != TDMI_IN_finalbody)
        return false;
    return node->parent->kind != TDMI_PY_IfExp && node->parent->kind != TDMI_PY_Lambda;
}

const tdmi_node *tdmi_statement(const tdmi_node *node)
{
    while (node->parent != NULL && !is_statement(node))
        node = node->parent;
    return node;
}

const tdmi_node *tdmi_function_around(const tdmi_node *node)
{
    for (; node->parent != NULL; node = node->parent)
        if (tdmi_is_function(node->parent) && node->field == TDMI_IN_body)
            return node->parent;
    return node;
}

const tdmi_node *tdmi_loop_around(const tdmi_node *node)
{
    for (; node->parent != NULL; node = node->parent) {
        if (tdmi_is_function(node->parent) && node->field == TDMI_IN_body)
            return NULL;
        if (tdmi_is_loop(node->parent) && (node->field == TDMI_IN_body || (node->parent->kind == TDMI_PY_While && node->field == TDMI_IN_test)))
            return node->parent;
    }
    return NULL;
}

bool tdmi_are_alternatives(const tdmi_node *a, const tdmi_node *b)
{
    const tdmi_node *above = a;
    while (above != NULL && !tdmi_contains(above, b))
        above = above->parent;
    if (above == NULL || (above->kind != TDMI_PY_If && above->kind != TDMI_PY_IfExp && above->kind != TDMI_PY_Try))
        return false;
    const tdmi_node *of_a = above + 1, *of_b = above + 1;
    while (!tdmi_contains(of_a, a))
        of_a = tdmi_end(of_a);
    while (!tdmi_contains(of_b, b))
        of_b = tdmi_end(of_b);
    return of_a->field != of_b->field && of_a->field != TDMI_IN_test && of_b->field != TDMI_IN_test && of_b->field != TDMI_IN_finalbody;
}
