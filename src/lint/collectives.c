/* collectives.c - what all ranks have to do, what only one should, and how they meet. */
#include "lint/lint.h"

#include <string.h>

/* A group, or no group at all: then the condition may be its membership. */
static bool names_group(const tdmi_node *call)
{
    static const char *const names[] = {"group", "process_group", "no_dist"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tdmi_keyword(call, names[i]) != NULL && !tdmi_is_none(tdmi_keyword(call, names[i])))
            return true;
    return tdmi_has_unseen_arguments(call);
}

/* barrier(g), all_reduce(t, op, g), broadcast(t, src, g): the place of a group among the arguments. */
static bool has_group_argument(const tdmi_call *call)
{
    static const struct {
        const char *name;
        int place;
    } groups[] = {{"torch.distributed.barrier", 0},   {"torch.distributed.all_reduce", 2},        {"torch.distributed.broadcast", 2},
                  {"torch.distributed.reduce", 3},    {"torch.distributed.all_gather", 2},        {"torch.distributed.gather", 3},
                  {"torch.distributed.scatter", 3},   {"torch.distributed.all_gather_object", 2}, {"torch.distributed.broadcast_object_list", 2},
                  {"torch.distributed.gather_object", 3}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i].name, call->name) == 0 && tdmi_argument(call->node, groups[i].place, NULL) != NULL)
            return true;
    return names_group(call->node);
}

/* A collective in a function that runs whenever the function does. */
static const tdmi_call *certain_collective(const tdmi_script *script, const tdmi_node *function)
{
    for (const tdmi_call *call = tdmi_call_from(script, function); call < tdmi_call_from(script, tdmi_end(function)); call++) {
        if (!tdmi_is_collective(call->name) || tdmi_function_around(call->node) != function ||
            has_group_argument(call))
            continue;
        bool certain = true;
        for (const tdmi_node *at = call->node; at != function && certain; at = at->parent) {
            const uint8_t above = at->parent->kind;
            certain = above != TDMI_PY_If && above != TDMI_PY_IfExp && above != TDMI_PY_BoolOp && above != TDMI_PY_Try;
            for (const tdmi_node *before = tdmi_child(at->parent, (tdmi_in)at->field); tdmi_statement(at) == at && before < at && certain;
                 before = tdmi_sibling(before))
                certain = before->kind != TDMI_PY_If;
        }
        if (certain)
            return call;
    }
    return NULL;
}

/* The other ranks' side: a collective of the other branch, or behind a condition that is the opposite. */
static bool others_meet(const tdmi_script *script, const tdmi_call *here, const tdmi_node *condition)
{
    const tdmi_node *branch = condition->parent;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        const bool meets = tdmi_is_collective(call->name) || (call->function != NULL && certain_collective(script, call->function) != NULL);
        if (!meets || call == here)
            continue;
        if (tdmi_contains(branch, call->node) && (tdmi_are_alternatives(call->node, here->node) || !tdmi_contains(branch, here->node)))
            return true;
        const tdmi_node *other = tdmi_function_around(call->node) == tdmi_function_around(here->node) ? tdmi_rank_condition(script, call->node) : NULL;
        if (other == condition && other != NULL && tdmi_contains(branch, here->node)) /* behind an if that returns */
            return true;
        if (other != NULL && other != condition && tdmi_ranks_where(script, other) != tdmi_ranks_where(script, condition))
            return true;
    }
    return false;
}

/* model.state_dict() of FSDP's class gathers from all ranks. fully_shard's does not. */
static bool is_gathering_state_dict(const tdmi_script *script, const tdmi_call *call)
{
    return tdmi_calls_method(call->node, "state_dict") && tdmi_receiver(call->node) != NULL &&
           tdmi_may_hold(script, tdmi_receiver(call->node), tdmi_is_fsdp);
}

static const char *short_name(const tdmi_call *call)
{
    return tdmi_child(call->node, TDMI_IN_func)->text;
}

static void check_call(tdmi_lint *lint, const tdmi_call *call)
{
    const tdmi_script *script = &lint->script;
    const bool direct = tdmi_is_collective(call->name) && !has_group_argument(call), gathers = is_gathering_state_dict(script, call);
    const tdmi_node *condition = direct || gathers || call->function != NULL ? tdmi_rank_condition(script, call->node) : NULL;
    const tdmi_call *inner = condition != NULL && call->function != NULL ? certain_collective(script, call->function) : NULL;
    if (condition == NULL || (!direct && !gathers && inner == NULL) || others_meet(script, call, condition))
        return;
    if (inner != NULL)
        tdmi_lint_say(lint, TDMI_RULE_COLLECTIVE_ON_SOME_RANKS, call->node,
                      "%s() calls %s() in line %d, and the condition of line %d lets only some ranks come here", short_name(call), short_name(inner),
                      inner->node->line, condition->line);
    else
        tdmi_lint_say(lint, TDMI_RULE_COLLECTIVE_ON_SOME_RANKS, call->node, "%s%s() is a collective, and the condition of line %d lets only some ranks come here",
                      gathers ? "under FSDP " : "", short_name(call), condition->line);
}

/* ---- saving ---- */

/* Whether a function is called, or given to something that will call it, anywhere in the script. */
static bool is_used(const tdmi_script *script, const tdmi_node *function)
{
    const tdmi_syntax *syntax = script->syntax;
    if (function->parent == NULL)
        return true;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        if (tdmi_ends_in(node, function->text) && node != function)
            return true;
    return false;
}

/* Whether a caller in the script gives a function something of its rank. Nobody who calls it: nothing is known, so yes. */
static bool gets_rank(const tdmi_script *script, const tdmi_node *function)
{
    size_t count;
    const tdmi_call *const *calls = tdmi_calls_of(script, function, &count);
    for (size_t i = 0; i < count; i++)
        for (const tdmi_node *a = tdmi_child(calls[i]->node, TDMI_IN_func) + 1; a < tdmi_end(calls[i]->node); a++)
            if (tdmi_mentions_rank(script, a))
                return true;
    return count == 0;
}

/* A file of this rank's own, or no file at all. */
static bool has_own_target(const tdmi_script *script, const tdmi_node *save)
{
    const tdmi_node *path = tdmi_argument(save, 1, "f"), *value = tdmi_value_of(script, path);
    if (path == NULL || tdmi_mentions_rank(script, path) || (value != NULL && tdmi_mentions_rank(script, value)))
        return true;
    const tdmi_call *made = value != NULL ? tdmi_call_at(script, value) : NULL;
    if (made != NULL && strcmp(made->name, "io.BytesIO") == 0)
        return true;
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, path, &count);
    for (size_t i = 0; i < count; i++)
        if ((all[i].kind == TDMI_BIND_ARGUMENT && gets_rank(script, tdmi_function_around(save))) ||
            (all[i].value != NULL && tdmi_mentions_rank(script, all[i].value)))
            return true;
    return false;
}

static void check_save(tdmi_lint *lint, const tdmi_call *call)
{
    const tdmi_script *script = &lint->script;
    if (tdmi_runs_on_some_ranks(script, call->node) || has_own_target(script, call->node) || !is_used(script, tdmi_function_around(call->node)))
        return;
    tdmi_lint_say(lint, TDMI_RULE_SAVE_ON_ALL_RANKS, call->node, "every rank comes here and writes the same file");
}

/* ---- beginning ---- */

static void check_init(tdmi_lint *lint, const tdmi_node *init)
{
    const tdmi_node *backend = tdmi_argument(init, 0, "backend");
    const bool gloo = tdmi_is_text(backend, "gloo") || tdmi_is_text(backend, "mpi");
    const bool timeout = tdmi_argument(init, 2, "timeout") != NULL, device = tdmi_keyword(init, "device_id") != NULL || gloo;
    if (tdmi_has_unseen_arguments(init) || (timeout && device))
        return;
    tdmi_lint_say(lint, TDMI_RULE_INIT_WITHOUT_TIMEOUT, init, "the process group is made without %s%s%s", timeout ? "" : "timeout",
                  timeout || device ? "" : " and ", device ? "" : "device_id");
}

void tdmi_lint_collectives(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const bool ddp = tdmi_find_call(script, tdmi_is_ddp) != NULL;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (lint->said[TDMI_RULE_COLLECTIVE_ON_SOME_RANKS] < TDMI_LINT_OF_RULE_MAX)
            check_call(lint, call);
        if (ddp && strcmp(call->name, "torch.save") == 0 && lint->said[TDMI_RULE_SAVE_ON_ALL_RANKS] < TDMI_LINT_OF_RULE_MAX)
            check_save(lint, call);
        if (strcmp(call->name, "torch.distributed.init_process_group") == 0)
            check_init(lint, call->node);
    }
}
