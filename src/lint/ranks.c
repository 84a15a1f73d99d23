/* ranks.c - conditions on the rank: which code runs on some ranks only. */
#include "lint/train.h"

#include <ctype.h>
#include <string.h>

static bool ends_with(const char *text, const char *tail)
{
    const size_t a = strlen(text), b = strlen(tail);
    return a >= b && strcmp(text + a - b, tail) == 0;
}

/* rank, local_rank, global_rank, dp_rank, RANK, LOCAL_RANK */
static bool names_rank(const char *text)
{
    return strcmp(text, "rank") == 0 || ends_with(text, "_rank") || strcmp(text, "RANK") == 0 || ends_with(text, "_RANK");
}

/* The number of a process on its machine, under other names. */
static bool names_process(const char *text)
{
    return names_rank(text) || strcmp(text, "gpu_id") == 0 || strcmp(text, "gpu") == 0 || strcmp(text, "proc_id") == 0 ||
           strcmp(text, "process_id") == 0 || strcmp(text, "process_index") == 0;
}

/* is_main, main_process, is_rank0, is_global_zero: true on one rank */
static bool names_first_rank(const char *text)
{
    static const char *const names[] = {"is_main", "is_main_process", "main_process", "is_master", "is_master_process", "master_process",
                                        "is_rank0", "is_rank_0", "is_rank_zero", "rank_zero", "is_global_zero", "is_local_main_process",
                                        "is_first_rank", "is_chief", "is_coordinator", "on_main_process"};
    while (*text == '_')
        text++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    return false;
}

/* int(os.environ["RANK"]), os.environ.get("RANK", 0), os.getenv("LOCAL_RANK") */
static bool reads_rank(const tdmi_node *expression)
{
    for (const tdmi_node *node = expression; node < tdmi_end(expression); node++)
        if (node->constant == TDMI_STR && names_rank(node->text) && isupper((unsigned char)node->text[0]))
            return true;
    return false;
}

bool tdmi_is_rank(const tdmi_script *script, const tdmi_node *expression)
{
    if (expression == NULL)
        return false;
    if (expression->kind == TDMI_PY_BinOp) /* rank % gpus_per_node */
        return strcmp(expression->text, "Mod") == 0 && tdmi_is_rank(script, tdmi_child(expression, TDMI_IN_left));
    if (tdmi_is_named(expression)) {
        if (names_process(expression->text))
            return true;
        const tdmi_node *value = tdmi_value_of(script, expression);
        return value != NULL && value != expression && value->kind == TDMI_PY_Call && tdmi_is_rank(script, value);
    }
    if (expression->kind != TDMI_PY_Call)
        return false;
    const tdmi_node *function = tdmi_child(expression, TDMI_IN_func);
    return tdmi_ends_in(function, "get_rank") || tdmi_ends_in(function, "get_local_rank") || tdmi_ends_in(function, "get_node_local_rank") ||
           ((tdmi_ends_in(function, "int") || tdmi_ends_in(function, "get") || tdmi_ends_in(function, "getenv")) && reads_rank(expression));
}

bool tdmi_mentions_rank(const tdmi_script *script, const tdmi_node *expression)
{
    for (const tdmi_node *node = expression; node < tdmi_end(expression); node++)
        if ((tdmi_is_named(node) && (strcasestr(node->text, "rank") != NULL || names_first_rank(node->text))) || tdmi_is_rank(script, node))
            return true;
    return false;
}

/* A whole number of a constant, -1 included. */
static bool whole(const tdmi_node *node, double *out)
{
    const bool minus = node->kind == TDMI_PY_UnaryOp && strcmp(node->text, "USub") == 0;
    const tdmi_node *number = minus ? tdmi_child(node, TDMI_IN_operand) : node;
    *out = minus ? -number->number : number->number;
    return number->constant == TDMI_NUMBER;
}

static tdmi_ranks opposite(tdmi_ranks ranks)
{
    return ranks == TDMI_SOME_RANKS ? TDMI_OTHER_RANKS : ranks == TDMI_OTHER_RANKS ? TDMI_SOME_RANKS : TDMI_ALL_RANKS;
}

/* rank in (-1, 0): -1 stands for a job of one process. */
static tdmi_ranks membership(const tdmi_node *list)
{
    bool any = false, zero = false;
    if (list->kind != TDMI_PY_Tuple && list->kind != TDMI_PY_List && list->kind != TDMI_PY_Set)
        return TDMI_ALL_RANKS;
    for (const tdmi_node *element = tdmi_child(list, TDMI_IN_elts); element != NULL; element = tdmi_sibling(element)) {
        double value;
        if (!whole(element, &value))
            return TDMI_ALL_RANKS;
        any |= value >= 0;
        zero |= value == 0;
    }
    return zero ? TDMI_SOME_RANKS : any ? TDMI_OTHER_RANKS : TDMI_ALL_RANKS;
}

static tdmi_ranks comparison(const tdmi_script *script, const tdmi_node *compare)
{
    const tdmi_node *left = tdmi_child(compare, TDMI_IN_left), *right = tdmi_child(compare, TDMI_IN_comparators);
    const char *op = compare->text;
    double value;
    if (tdmi_children(compare, TDMI_IN_comparators) != 1)
        return TDMI_ALL_RANKS;
    if (!tdmi_is_rank(script, left)) { /* 0 == rank */
        const tdmi_node *swapped = left;
        left = right;
        right = swapped;
        if (strcmp(op, "Eq") != 0 && strcmp(op, "NotEq") != 0)
            return TDMI_ALL_RANKS;
    }
    if (!tdmi_is_rank(script, left))
        return TDMI_ALL_RANKS;
    if (strcmp(op, "In") == 0)
        return membership(right);
    if (strcmp(op, "NotIn") == 0)
        return opposite(membership(right));
    if (reads_rank(right) || !whole(right, &value) || value < 0)
        return tdmi_is_text(right, "0") ? (strcmp(op, "Eq") == 0 ? TDMI_SOME_RANKS : TDMI_OTHER_RANKS) : TDMI_ALL_RANKS;
    if (strcmp(op, "Eq") == 0)
        return value == 0 ? TDMI_SOME_RANKS : TDMI_OTHER_RANKS;
    if (strcmp(op, "NotEq") == 0)
        return value == 0 ? TDMI_OTHER_RANKS : TDMI_SOME_RANKS;
    if (strcmp(op, "Gt") == 0 || (strcmp(op, "GtE") == 0 && value > 0))
        return TDMI_OTHER_RANKS;
    if (strcmp(op, "LtE") == 0 || (strcmp(op, "Lt") == 0 && value > 0))
        return TDMI_SOME_RANKS;
    return TDMI_ALL_RANKS;
}

/* master_process = rank == 0, in one branch of the script; True in the other, of one process. */
static tdmi_ranks variable(const tdmi_script *script, const tdmi_node *name)
{
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, name, &count);
    tdmi_ranks found = names_first_rank(name->text) ? TDMI_SOME_RANKS : TDMI_ALL_RANKS;
    for (size_t i = 0; i < count; i++)
        if (all[i].value != NULL && (all[i].value->kind == TDMI_PY_Compare || all[i].value->kind == TDMI_PY_BoolOp)) {
            const tdmi_ranks here = tdmi_ranks_where(script, all[i].value);
            if (here != TDMI_ALL_RANKS)
                found = here;
        } else if (all[i].value == NULL || all[i].value->constant == TDMI_NO_CONSTANT) {
            return names_first_rank(name->text) ? TDMI_SOME_RANKS : TDMI_ALL_RANKS;
        }
    return found;
}

tdmi_ranks tdmi_ranks_where(const tdmi_script *script, const tdmi_node *condition)
{
    tdmi_ranks all = TDMI_ALL_RANKS;
    switch ((tdmi_py)condition->kind) {
    case TDMI_PY_UnaryOp:
        return strcmp(condition->text, "Not") == 0 ? opposite(tdmi_ranks_where(script, condition + 1)) : TDMI_ALL_RANKS;
    case TDMI_PY_Compare:
        return comparison(script, condition);
    case TDMI_PY_BoolOp: /* and: one is enough; or: each has to say it */
        for (const tdmi_node *part = tdmi_child(condition, TDMI_IN_values); part != NULL; part = tdmi_sibling(part)) {
            const tdmi_ranks here = tdmi_ranks_where(script, part);
            if (strcmp(condition->text, "And") == 0 ? here != TDMI_ALL_RANKS : here == TDMI_ALL_RANKS)
                return here;
            all = here;
        }
        return all;
    case TDMI_PY_Call: {
        const tdmi_node *function = tdmi_child(condition, TDMI_IN_func);
        if (tdmi_is_rank(script, condition)) /* `if get_rank():` */
            return TDMI_OTHER_RANKS;
        return tdmi_is_named(function) && names_first_rank(function->text) ? TDMI_SOME_RANKS : TDMI_ALL_RANKS;
    }
    case TDMI_PY_Name:
    case TDMI_PY_Attribute: /* `if not rank:` */
        return names_rank(condition->text) ? TDMI_OTHER_RANKS : variable(script, condition);
    default:
        return TDMI_ALL_RANKS;
    }
}
