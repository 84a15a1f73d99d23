/* script.c - every name that a script binds, sorted by name, scope and place, and every call. */
#include "lint/script.h"

#include "core/memory.h"
#include "lint/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- binding ---- */

typedef struct binder {
    tdmi_script *script;
    size_t capacity, texts, texts_capacity;
    const tdmi_node **global; /* Global statements, as in the script */
    size_t globals;
    bool failed;
} binder;

/* Where a name bound at `node` lives; a class body's names are seen nowhere else, so they count as the class's attributes. */
static const tdmi_node *scope_of(const binder *b, const tdmi_node *node, const char *name)
{
    const tdmi_node *function = tdmi_function_around(node);
    for (size_t i = 0; i < b->globals && i < TDMI_BINDINGS_MAX; i++)
        if (tdmi_function_around(b->global[i]) == function && strstr(b->global[i]->text, name) != NULL)
            return b->script->syntax->node;
    for (const tdmi_node *up = node; up->parent != NULL && up != function; up = up->parent)
        if (up->parent->kind == TDMI_PY_ClassDef && up->field == TDMI_IN_body)
            return up->parent;
    return function;
}

static void bind(binder *b, tdmi_binding binding)
{
    tdmi_binding *grown = tdmi_with_room(b->script->binding, b->script->bindings, &b->capacity, sizeof *grown, "bindings");
    if (grown == NULL) {
        b->failed = true;
        return;
    }
    b->script->binding = grown;
    b->script->binding[b->script->bindings++] = binding;
}

static void bind_target(binder *b, const tdmi_node *target, const tdmi_node *value)
{
    if (target->kind == TDMI_PY_Name) {
        bind(b, (tdmi_binding){.name = target->text, .scope = scope_of(b, target, target->text), .node = target, .value = value,
                               .kind = TDMI_BIND_VALUE});
    } else if (target->kind == TDMI_PY_Attribute && target[1].kind == TDMI_PY_Name && strcmp(target[1].text, "self") == 0) {
        const tdmi_node *class = tdmi_class_around(target);
        if (class != NULL)
            bind(b, (tdmi_binding){.name = target->text, .scope = class, .node = target, .value = value, .kind = TDMI_BIND_VALUE,
                                   .of_self = true});
    } else if (target->kind == TDMI_PY_Tuple || target->kind == TDMI_PY_List) {
        const bool pairs = value != NULL && (value->kind == TDMI_PY_Tuple || value->kind == TDMI_PY_List) &&
                           tdmi_children(value, TDMI_IN_elts) == tdmi_children(target, TDMI_IN_elts);
        const tdmi_node *part = pairs ? tdmi_child(value, TDMI_IN_elts) : NULL;
        for (const tdmi_node *t = tdmi_child(target, TDMI_IN_elts); t != NULL; t = tdmi_sibling(t)) {
            bind_target(b, t, part);
            part = part != NULL ? tdmi_sibling(part) : NULL;
        }
    } else if (target->kind == TDMI_PY_Starred) {
        bind_target(b, target + 1, NULL);
    }
}

/* `import a.b` binds a; `import a.b as c` binds c to a.b; `from a import b as c` binds c to a.b. */
static void bind_import(binder *b, const tdmi_node *import)
{
    const bool from = import->kind == TDMI_PY_ImportFrom, beside = from && strcmp(import->extra, "0") != 0;
    const char *module = beside ? "." : from ? import->text : ""; /* beside: another file of the script's own */
    for (const tdmi_node *alias = tdmi_child(import, TDMI_IN_names); alias != NULL; alias = tdmi_sibling(alias)) {
        const bool renamed = alias->extra[0] != '\0';
        const size_t first = renamed || from ? strlen(alias->text) : strcspn(alias->text, ".");
        char *full = b->script->names + b->texts;
        b->texts += (size_t)sprintf(full, "%s%s%.*s", module, module[0] != '\0' ? "." : "", (int)first, alias->text) + 1;
        const char *name = renamed ? alias->extra : full + strlen(full) - first;
        bind(b, (tdmi_binding){.name = name, .scope = scope_of(b, alias, name), .node = alias, .full = full, .kind = TDMI_BIND_IMPORT});
    }
}

static void bind_node(binder *b, const tdmi_node *node)
{
    const tdmi_node *part;
    switch ((tdmi_py)node->kind) {
    case TDMI_PY_Import:
    case TDMI_PY_ImportFrom:
        bind_import(b, node);
        break;
    case TDMI_PY_Assign:
        for (part = tdmi_child(node, TDMI_IN_targets); part != NULL; part = tdmi_sibling(part))
            bind_target(b, part, tdmi_child(node, TDMI_IN_value));
        break;
    case TDMI_PY_AnnAssign:
    case TDMI_PY_NamedExpr:
        if (tdmi_child(node, TDMI_IN_value) != NULL)
            bind_target(b, tdmi_child(node, TDMI_IN_target), tdmi_child(node, TDMI_IN_value));
        break;
    case TDMI_PY_AugAssign:
    case TDMI_PY_For:
    case TDMI_PY_AsyncFor:
    case TDMI_PY_comprehension:
        bind_target(b, tdmi_child(node, TDMI_IN_target), NULL);
        break;
    case TDMI_PY_withitem:
        if ((part = tdmi_child(node, TDMI_IN_optional_vars)) != NULL)
            bind_target(b, part, NULL);
        break;
    case TDMI_PY_FunctionDef:
    case TDMI_PY_AsyncFunctionDef:
    case TDMI_PY_ClassDef:
        bind(b, (tdmi_binding){.name = node->text, .scope = scope_of(b, node, node->text), .node = node, .kind = TDMI_BIND_DEFINITION});
        break;
    case TDMI_PY_arg:
        if (node->parent->parent != NULL)
            bind(b, (tdmi_binding){.name = node->text, .scope = node->parent->parent, .node = node, .kind = TDMI_BIND_ARGUMENT});
        break;
    case TDMI_PY_ExceptHandler:
        bind(b, (tdmi_binding){.name = node->text, .scope = scope_of(b, node, node->text), .node = node, .kind = TDMI_BIND_OTHER});
        break;
    default:
        break;
    }
}

static int in_order(const void *a, const void *b)
{
    const tdmi_binding *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    if (order != 0)
        return order;
    if (x->scope != y->scope)
        return x->scope < y->scope ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static tdm_status bind_all(tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    binder b = {.script = script};
    size_t texts = 1, globals = 0, calls = 0;
    for (size_t i = 0; i < syntax->count; i++) {
        const tdmi_node *node = &syntax->node[i];
        globals += node->kind == TDMI_PY_Global;
        calls += node->kind == TDMI_PY_Call;
        if (node->kind == TDMI_PY_alias)
            texts += strlen(node->text) + strlen(node->parent->text) + 3; /* the module or ".", another ".", the end */
    }
    script->names = tdmi_malloc(texts, "bindings");
    script->call = tdmi_calloc(calls + 1, sizeof *script->call, "bindings");
    b.global = tdmi_calloc(globals + 1, sizeof *b.global, "bindings");
    b.failed = script->names == NULL || script->call == NULL || b.global == NULL;
    for (size_t i = 0; i < syntax->count && !b.failed; i++)
        if (syntax->node[i].kind == TDMI_PY_Global)
            b.global[b.globals++] = &syntax->node[i];
    for (size_t i = 0; i < syntax->count && !b.failed; i++) {
        bind_node(&b, &syntax->node[i]);
        if (syntax->node[i].kind == TDMI_PY_Call)
            script->call[script->calls++].node = &syntax->node[i];
    }
    tdmi_free(b.global);
    if (b.failed)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the names of a script of %zu nodes", syntax->count);
    if (script->bindings > 0)
        qsort(script->binding, script->bindings, sizeof *script->binding, in_order);
    return TDM_OK;
}

static int by_function(const void *a, const void *b)
{
    const tdmi_call *x = *(const tdmi_call *const *)a, *y = *(const tdmi_call *const *)b;
    return x->function != y->function ? (x->function < y->function ? -1 : 1) : x < y ? -1 : x > y;
}

static tdm_status name_calls(tdmi_script *script)
{
    for (tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        char name[TDMI_NAME_BYTES];
        if (tdmi_full_name(script, tdmi_child(call->node, TDMI_IN_func), name)[0] == '\0')
            call->function = tdmi_called_function(script, call->node);
        call->name = tdmi_strdup(name, "bindings");
        if (call->name == NULL)
            return TDM_ERR_NO_MEMORY;
    }
    script->by_function = tdmi_calloc(script->calls + 1, sizeof *script->by_function, "bindings");
    if (script->by_function == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < script->calls; i++)
        script->by_function[i] = &script->call[i];
    qsort(script->by_function, script->calls, sizeof *script->by_function, by_function);
    return TDM_OK;
}

tdm_status tdmi_script_read(const tdmi_syntax *syntax, tdmi_script *out)
{
    tdmi_script script = {.syntax = syntax};
    tdm_status status = bind_all(&script);
    if (status == TDM_OK)
        status = name_calls(&script);
    if (status == TDM_OK)
        status = tdmi_find_steps(&script);
    if (status == TDM_OK)
        status = tdmi_find_ranks(&script);
    if (status != TDM_OK)
        tdmi_script_free(&script);
    else
        *out = script;
    return status;
}

void tdmi_script_free(tdmi_script *script)
{
    for (size_t i = 0; i < script->calls; i++)
        tdmi_free(script->call[i].name);
    tdmi_free(script->binding);
    tdmi_free(script->names);
    tdmi_free(script->call);
    tdmi_free(script->every_step);
    tdmi_free(script->step_function);
    tdmi_free(script->by_function);
    tdmi_free(script->before);
    tdmi_free(script->on_some_ranks);
    *script = (tdmi_script){0};
}
