/* before.c - what stands before a statement in its block, and through which conditions a function is reached: once for the whole script. */
#include "lint/train.h"

#include "core/memory.h"

#include <string.h>

#define ROUNDS_MAX 8 /* functions called by functions */

/* if rank != 0: return */
static bool leaves(const tdmi_node *branch)
{
    return tdmi_last_sibling(branch)->kind == TDMI_PY_Return;
}

/* A condition whose words may speak of a first process in a way that is not known here. */
bool tdmi_may_choose_ranks(const tdmi_node *condition)
{
    static const char *const words[] = {"main", "master", "primary", "lead", "chief", "zero", "first", "rank", "save"};
    for (const tdmi_node *node = condition; node < tdmi_end(condition); node++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (tdmi_is_named(node) && strcasestr(node->text, words[i]) != NULL)
                return true;
    return false;
}

static bool may_skip(const tdmi_node *branch)
{
    for (const tdmi_node *inner = branch + 1; inner < tdmi_end(branch); inner++)
        if (inner->kind == TDMI_PY_Continue || inner->kind == TDMI_PY_Return)
            return true;
    return false;
}

/* All statements of a block, in order. */
static void look_back(tdmi_script *script, const tdmi_node *first)
{
    tdmi_before so_far = {0};
    for (const tdmi_node *statement = first; statement != NULL; statement = tdmi_sibling(statement)) {
        script->before[tdmi_number_of(script, statement)] = so_far;
        if (statement->kind != TDMI_PY_If)
            continue;
        const tdmi_node *test = tdmi_child(statement, TDMI_IN_test);
        so_far.skips |= may_skip(statement);
        if (!leaves(tdmi_child(statement, TDMI_IN_body)))
            continue;
        so_far.may_choose |= tdmi_may_choose_ranks(test);
        if (so_far.rank_condition == NULL && tdmi_ranks_where(script, test) != TDMI_ALL_RANKS)
            so_far.rank_condition = test;
    }
}

/* The condition of the if that has a node in one of its branches; NULL: none. */
static const tdmi_node *condition_above(const tdmi_node *node)
{
    const tdmi_node *above = node->parent;
    return (above->kind == TDMI_PY_If || above->kind == TDMI_PY_IfExp) && node->field != TDMI_IN_test ? tdmi_child(above, TDMI_IN_test) : NULL;
}

const tdmi_node *tdmi_rank_condition(const tdmi_script *script, const tdmi_node *node)
{
    for (const tdmi_node *at = node; at->parent != NULL && !(tdmi_is_function(at->parent) && at->field != TDMI_IN_body); at = at->parent) {
        const tdmi_node *condition = condition_above(at), *before = script->before[tdmi_number_of(script, at)].rank_condition;
        if (condition != NULL && tdmi_ranks_where(script, condition) != TDMI_ALL_RANKS)
            return condition;
        if (before != NULL)
            return before;
        if (tdmi_is_function(at->parent))
            break;
    }
    return NULL;
}

static bool may_be_chosen(const tdmi_script *script, const tdmi_node *node)
{
    for (const tdmi_node *at = node; at->parent != NULL && !(tdmi_is_function(at->parent) && at->field != TDMI_IN_body); at = at->parent) {
        const tdmi_node *condition = condition_above(at);
        if ((condition != NULL && tdmi_may_choose_ranks(condition)) || script->before[tdmi_number_of(script, at)].may_choose)
            return true;
        if (tdmi_is_function(at->parent))
            break;
    }
    return false;
}

bool tdmi_runs_on_some_ranks(const tdmi_script *script, const tdmi_node *node)
{
    return script->on_some_ranks[tdmi_number_of(script, tdmi_function_around(node))] || tdmi_rank_condition(script, node) != NULL ||
           may_be_chosen(script, node);
}

/* One round: functions all of whose calls are known by now to be on some ranks. */
static bool follow_calls(tdmi_script *script)
{
    bool more = false;
    for (size_t i = 0, count; i < script->calls; i += count) {
        const tdmi_node *function = script->by_function[i]->function;
        const tdmi_call *const *calls = tdmi_calls_of(script, function, &count);
        bool all = function != NULL && !script->on_some_ranks[tdmi_number_of(script, function)];
        for (size_t k = 0; k < count && all; k++)
            all = tdmi_runs_on_some_ranks(script, calls[k]->node);
        if (all)
            script->on_some_ranks[tdmi_number_of(script, function)] = more = true;
    }
    return more;
}

tdm_status tdmi_find_ranks(tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    static const tdmi_in blocks[] = {TDMI_IN_body, TDMI_IN_orelse, TDMI_IN_finalbody};
    script->before = tdmi_calloc(syntax->count, sizeof *script->before, "bindings");
    script->on_some_ranks = tdmi_calloc(syntax->count, sizeof *script->on_some_ranks, "bindings");
    if (script->before == NULL || script->on_some_ranks == NULL)
        return TDM_ERR_NO_MEMORY;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks && node->kind != TDMI_PY_IfExp && node->kind != TDMI_PY_Lambda; i++)
            look_back(script, tdmi_child(node, blocks[i]));
    for (int round = 0; round < ROUNDS_MAX && follow_calls(script); round++)
        ;
    return TDM_OK;
}
