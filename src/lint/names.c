/* names.c - what a name in a script stands for. */
#include "lint/script.h"

#include <stdio.h>
#include <string.h>

#define FOLLOWED_MAX 8 /* copies of copies */

const tdmi_node *tdmi_class_around(const tdmi_node *node)
{
    for (; node->parent != NULL; node = node->parent)
        if (node->parent->kind == TDMI_PY_ClassDef && node->field == TDMI_IN_body)
            return node->parent;
    return NULL;
}

static bool is_self_attribute(const tdmi_node *node)
{
    return node->kind == TDMI_PY_Attribute && node[1].kind == TDMI_PY_Name && strcmp(node[1].text, "self") == 0;
}

/* Where (name, scope) is in the order of the bindings; `behind`: where it ends. */
static const tdmi_binding *place_of(const tdmi_script *script, const char *name, const tdmi_node *scope, bool behind)
{
    size_t low = 0, high = script->bindings;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const tdmi_binding *at = &script->binding[middle];
        const int order = strcmp(at->name, name);
        if (order < 0 || (order == 0 && (behind ? at->scope <= scope : at->scope < scope)))
            low = middle + 1;
        else
            high = middle;
    }
    return script->binding + low;
}

static const tdmi_binding *bindings_in(const tdmi_script *script, const char *name, const tdmi_node *scope, size_t *count_out)
{
    const tdmi_binding *first = place_of(script, name, scope, false);
    *count_out = scope != NULL ? (size_t)(place_of(script, name, scope, true) - first) : 0;
    return first;
}

/* The same, where a name is not bound too often. */
static const tdmi_binding *certain(const tdmi_binding *all, size_t *count)
{
    if (*count <= TDMI_BINDINGS_MAX)
        return all;
    *count = 0;
    return NULL;
}

const tdmi_binding *tdmi_bindings_of(const tdmi_script *script, const tdmi_node *expression, size_t *count_out)
{
    *count_out = 0;
    if (expression == NULL)
        return NULL;
    if (is_self_attribute(expression))
        return certain(bindings_in(script, expression->text, tdmi_class_around(expression), count_out), count_out);
    if (expression->kind != TDMI_PY_Name)
        return NULL;
    const tdmi_node *function = tdmi_function_around(expression);
    for (const tdmi_node *up = expression; up->parent != NULL && up != function; up = up->parent)
        if (up->parent->kind == TDMI_PY_ClassDef && up->field == TDMI_IN_body) { /* straight in a class body */
            const tdmi_binding *of_class = bindings_in(script, expression->text, up->parent, count_out);
            if (*count_out > 0)
                return certain(of_class, count_out);
        }
    for (const tdmi_node *scope = function; scope != NULL; scope = scope->parent != NULL ? tdmi_function_around(scope) : NULL) {
        const tdmi_binding *here = bindings_in(script, expression->text, scope, count_out);
        if (*count_out > 0)
            return certain(here, count_out);
    }
    return NULL;
}

/* The import among the ways in which a name is bound; of several (try: ... except ImportError: ...) that of torch. */
static const tdmi_binding *import_of(const tdmi_script *script, const tdmi_node *name)
{
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, name, &count), *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (all[i].kind == TDMI_BIND_IMPORT && (found == NULL || strncmp(all[i].full, "torch", 5) == 0))
            found = &all[i];
    return found;
}

/* Names that torch offers in several places -> the first spelling of each. A text ending in '.' is a prefix. */
static const struct {
    const char *spelled, *first;
} same[] = {
    {"torch.nn.parallel.distributed.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"},
    {"torch.nn.parallel.DataParallel", "torch.nn.DataParallel"},
    {"torch.nn.parallel.data_parallel.DataParallel", "torch.nn.DataParallel"},
    {"torch.nn.modules.batchnorm.", "torch.nn."},
    {"torch.utils.data.dataloader.", "torch.utils.data."},
    {"torch.utils.data.distributed.", "torch.utils.data."},
    {"torch.utils.data.dataset.", "torch.utils.data."},
    {"torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."},
    {"torch.distributed._composable.fsdp.fully_shard.", "torch.distributed.fsdp."},
    {"torch.distributed._composable.fsdp.", "torch.distributed.fsdp."},
    {"torch.distributed._composable.fully_shard", "torch.distributed.fsdp.fully_shard"},
    {"torch.distributed.distributed_c10d.", "torch.distributed."},
    {"torch.distributed.checkpoint.state_dict_saver.", "torch.distributed.checkpoint."},
    {"torch.distributed.checkpoint.state_dict_loader.", "torch.distributed.checkpoint."},
    {"torch.cuda.amp.grad_scaler.", "torch.cuda.amp."},
    {"torch.cuda.amp.autocast_mode.", "torch.cuda.amp."},
    {"torch.amp.grad_scaler.", "torch.amp."},
    {"torch.amp.autocast_mode.", "torch.amp."},
    {"torch.amp.autocast", "torch.autocast"},
    {"torch.optim.adadelta.", "torch.optim."},
    {"torch.optim.adagrad.", "torch.optim."},
    {"torch.optim.adam.", "torch.optim."},
    {"torch.optim.adamax.", "torch.optim."},
    {"torch.optim.adamw.", "torch.optim."},
    {"torch.optim.nadam.", "torch.optim."},
    {"torch.optim.radam.", "torch.optim."},
    {"torch.optim.rmsprop.", "torch.optim."},
    {"torch.optim.sgd.", "torch.optim."},
};

static void spell_first(char name[TDMI_NAME_BYTES])
{
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const size_t length = strlen(same[i].spelled);
        const bool prefix = same[i].spelled[length - 1] == '.';
        if (strncmp(name, same[i].spelled, length) == 0 && (prefix || name[length] == '\0')) {
            char rest[TDMI_NAME_BYTES];
            snprintf(rest, sizeof rest, "%s", name + length);
            snprintf(name, TDMI_NAME_BYTES, "%s%s", same[i].first, rest);
        }
    }
}

/* An Attribute's value follows it in preorder; deep chains are no names. */
static bool is_chain(const tdmi_node *expression)
{
    int length = 0;
    while (expression->kind == TDMI_PY_Attribute && length++ < 16)
        expression++;
    return expression->kind == TDMI_PY_Name;
}

static bool put_name(const tdmi_script *script, const tdmi_node *expression, char name[TDMI_NAME_BYTES], int followed)
{
    if (expression->kind == TDMI_PY_Attribute) {
        if (!put_name(script, expression + 1, name, followed))
            return false;
        const size_t used = strlen(name);
        snprintf(name + used, TDMI_NAME_BYTES - used, ".%s", expression->text);
        return strlen(name) < TDMI_NAME_BYTES - 1;
    }
    if (expression->kind != TDMI_PY_Name || followed > FOLLOWED_MAX)
        return false;
    const tdmi_binding *import = import_of(script, expression);
    if (import != NULL) {
        snprintf(name, TDMI_NAME_BYTES, "%s", import->full);
        return true;
    }
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, expression, &count);
    if (count != 1 || all[0].value == NULL || !is_chain(all[0].value))
        return false;
    return put_name(script, all[0].value, name, followed + 1); /* DDP = torch.nn.parallel.DistributedDataParallel */
}

const char *tdmi_full_name(const tdmi_script *script, const tdmi_node *expression, char name[TDMI_NAME_BYTES])
{
    name[0] = '\0';
    if (expression == NULL || !is_chain(expression) || !put_name(script, expression, name, 0))
        name[0] = '\0';
    else
        spell_first(name);
    return name;
}

bool tdmi_calls_method(const tdmi_node *call, const char *name)
{
    return call->kind == TDMI_PY_Call && tdmi_ends_in(tdmi_child(call, TDMI_IN_func), name);
}

const tdmi_node *tdmi_receiver(const tdmi_node *call)
{
    const tdmi_node *function = call->kind == TDMI_PY_Call ? tdmi_child(call, TDMI_IN_func) : NULL;
    return function != NULL && function->kind == TDMI_PY_Attribute ? tdmi_child(function, TDMI_IN_value) : NULL;
}

static const tdmi_node *method_of(const tdmi_script *script, const tdmi_node *class, const char *name)
{
    size_t count;
    const tdmi_binding *all = bindings_in(script, name, class, &count);
    for (size_t i = count; i-- > 0;)
        if (all[i].kind == TDMI_BIND_DEFINITION && tdmi_is_function(all[i].node))
            return all[i].node;
    return NULL;
}

/* The only method of that name in the script. */
static const tdmi_node *only_method(const tdmi_script *script, const char *name)
{
    const tdmi_node *found = NULL;
    const tdmi_binding *first = place_of(script, name, NULL, false), *end = script->binding + script->bindings;
    for (const tdmi_binding *at = first; at < end && strcmp(at->name, name) == 0; at++) {
        if (at - first == TDMI_BINDINGS_MAX)
            return NULL;
        if (at->kind != TDMI_BIND_DEFINITION || at->scope->kind != TDMI_PY_ClassDef)
            continue;
        if (found != NULL)
            return NULL;
        found = at->node;
    }
    return found;
}

const tdmi_node *tdmi_called_function(const tdmi_script *script, const tdmi_node *call)
{
    size_t count;
    const tdmi_node *function = tdmi_child(call, TDMI_IN_func);
    if (function->kind == TDMI_PY_Attribute) {
        const tdmi_node *class = is_self_attribute(function) ? tdmi_class_around(function) : NULL;
        const tdmi_node *own = class != NULL ? method_of(script, class, function->text) : NULL;
        return own != NULL ? own : only_method(script, function->text);
    }
    const tdmi_binding *all = tdmi_bindings_of(script, function, &count);
    if (count != 1 || all[0].kind != TDMI_BIND_DEFINITION)
        return NULL;
    return all[0].node->kind == TDMI_PY_ClassDef ? method_of(script, all[0].node, "__init__") : all[0].node;
}

bool tdmi_same_variable(const tdmi_script *script, const tdmi_node *a, const tdmi_node *b)
{
    if (a == NULL || b == NULL || a->kind != b->kind || strcmp(a->text, b->text) != 0)
        return false;
    if (a->kind == TDMI_PY_Name) {
        size_t count_a, count_b;
        const tdmi_binding *x = tdmi_bindings_of(script, a, &count_a), *y = tdmi_bindings_of(script, b, &count_b);
        return count_a > 0 && count_b > 0 ? x == y : count_a == count_b && tdmi_function_around(a) == tdmi_function_around(b);
    }
    if (is_self_attribute(a) && is_self_attribute(b))
        return tdmi_class_around(a) == tdmi_class_around(b);
    return a->kind == TDMI_PY_Attribute && is_chain(a) && tdmi_same_variable(script, a + 1, b + 1);
}

const tdmi_node *tdmi_value_of(const tdmi_script *script, const tdmi_node *expression)
{
    for (int followed = 0; expression != NULL && followed < FOLLOWED_MAX; followed++) {
        size_t count;
        if (expression->kind != TDMI_PY_Name && !is_self_attribute(expression))
            return expression;
        const tdmi_binding *all = tdmi_bindings_of(script, expression, &count);
        if (count != 1)
            return NULL;
        expression = all[0].value;
    }
    return NULL;
}

/* DDP(...), DDP(...).to(...), DDP(...) if distributed else ... */
static bool holds(const tdmi_script *script, const tdmi_node *value, bool (*is)(const char *full_name))
{
    for (int depth = 0; value != NULL && depth < FOLLOWED_MAX; depth++) {
        if (value->kind == TDMI_PY_IfExp)
            return holds(script, tdmi_child(value, TDMI_IN_body), is) || holds(script, tdmi_child(value, TDMI_IN_orelse), is);
        if (value->kind != TDMI_PY_Call)
            return false;
        if (is(tdmi_call_at(script, value)->name))
            return true;
        value = tdmi_receiver(value);
    }
    return false;
}

bool tdmi_may_hold(const tdmi_script *script, const tdmi_node *expression, bool (*is)(const char *full_name))
{
    size_t count;
    if (expression != NULL && holds(script, expression, is))
        return true;
    const tdmi_binding *all = tdmi_bindings_of(script, expression, &count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].value != NULL && holds(script, all[i].value, is))
            return true;
        size_t copies;
        const tdmi_binding *of = tdmi_bindings_of(script, all[i].value, &copies); /* self.model = model */
        for (size_t k = 0; k < copies; k++)
            if (of[k].value != NULL && holds(script, of[k].value, is))
                return true;
    }
    return false;
}

const tdmi_call *tdmi_call_from(const tdmi_script *script, const tdmi_node *node)
{
    size_t low = 0, high = script->calls;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (script->call[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return script->call + low;
}

const tdmi_call *tdmi_call_at(const tdmi_script *script, const tdmi_node *node)
{
    const tdmi_call *call = tdmi_call_from(script, node);
    return call < script->call + script->calls && call->node == node ? call : NULL;
}

const tdmi_call *const *tdmi_calls_of(const tdmi_script *script, const tdmi_node *function, size_t *count_out)
{
    size_t low = 0, high = script->calls;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (script->by_function[middle]->function < function)
            low = middle + 1;
        else
            high = middle;
    }
    size_t count = 0;
    while (low + count < script->calls && script->by_function[low + count]->function == function)
        count++;
    *count_out = count;
    return script->by_function + low;
}

const tdmi_call *tdmi_find_call(const tdmi_script *script, bool (*is)(const char *full_name))
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (is(call->name))
            return call;
    return NULL;
}

bool tdmi_has_method_call(const tdmi_script *script, const char *name)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (tdmi_calls_method(call->node, name))
            return true;
    return false;
}
