/* shape.c - what each kind of node has to have below it, so that rules may take it for granted. */
#include "lint/shape.h"

#define PARTS_MAX 3

/* Fields that a kind cannot be without, the first one in front of all others; TDMI_IN_OTHER ends them. */
static const struct need {
    uint8_t kind, field[PARTS_MAX];
} needs[] = {
    {TDMI_PY_Attribute, {TDMI_IN_value, TDMI_IN_OTHER}},
    {TDMI_PY_Call, {TDMI_IN_func, TDMI_IN_OTHER}},
    {TDMI_PY_Subscript, {TDMI_IN_value, TDMI_IN_slice, TDMI_IN_OTHER}},
    {TDMI_PY_Starred, {TDMI_IN_value, TDMI_IN_OTHER}},
    {TDMI_PY_UnaryOp, {TDMI_IN_operand, TDMI_IN_OTHER}},
    {TDMI_PY_BinOp, {TDMI_IN_left, TDMI_IN_right, TDMI_IN_OTHER}},
    {TDMI_PY_BoolOp, {TDMI_IN_values, TDMI_IN_OTHER}},
    {TDMI_PY_Compare, {TDMI_IN_left, TDMI_IN_comparators, TDMI_IN_OTHER}},
    {TDMI_PY_IfExp, {TDMI_IN_test, TDMI_IN_body, TDMI_IN_orelse}},
    {TDMI_PY_If, {TDMI_IN_test, TDMI_IN_body, TDMI_IN_OTHER}},
    {TDMI_PY_While, {TDMI_IN_test, TDMI_IN_body, TDMI_IN_OTHER}},
    {TDMI_PY_For, {TDMI_IN_target, TDMI_IN_iter, TDMI_IN_body}},
    {TDMI_PY_AsyncFor, {TDMI_IN_target, TDMI_IN_iter, TDMI_IN_body}},
    {TDMI_PY_With, {TDMI_IN_items, TDMI_IN_body, TDMI_IN_OTHER}},
    {TDMI_PY_AsyncWith, {TDMI_IN_items, TDMI_IN_body, TDMI_IN_OTHER}},
    {TDMI_PY_withitem, {TDMI_IN_context_expr, TDMI_IN_OTHER}},
    {TDMI_PY_Assign, {TDMI_IN_targets, TDMI_IN_value, TDMI_IN_OTHER}},
    {TDMI_PY_AugAssign, {TDMI_IN_target, TDMI_IN_value, TDMI_IN_OTHER}},
    {TDMI_PY_AnnAssign, {TDMI_IN_target, TDMI_IN_OTHER}},
    {TDMI_PY_NamedExpr, {TDMI_IN_target, TDMI_IN_value, TDMI_IN_OTHER}},
    {TDMI_PY_comprehension, {TDMI_IN_target, TDMI_IN_iter, TDMI_IN_OTHER}},
    {TDMI_PY_keyword, {TDMI_IN_value, TDMI_IN_OTHER}},
};

/* What may only be below what. */
static bool is_placed(const tdmi_node *node)
{
    const uint8_t above = node->parent != NULL ? node->parent->kind : TDMI_PY_OTHER;
    if (node->kind == TDMI_PY_Module || node->parent == NULL)
        return node->kind == TDMI_PY_Module && node->parent == NULL;
    if (node->field == TDMI_IN_names || node->kind == TDMI_PY_alias)
        return node->kind == TDMI_PY_alias && (above == TDMI_PY_Import || above == TDMI_PY_ImportFrom);
    if (node->kind == TDMI_PY_arg)
        return above == TDMI_PY_arguments && node->parent->parent != NULL && tdmi_is_function(node->parent->parent);
    if (node->field == TDMI_IN_keywords || node->kind == TDMI_PY_keyword)
        return node->kind == TDMI_PY_keyword && (above == TDMI_PY_Call || above == TDMI_PY_ClassDef);
    if (node->field == TDMI_IN_items || node->kind == TDMI_PY_withitem)
        return node->kind == TDMI_PY_withitem && tdmi_is_with(node->parent);
    return true;
}

bool tdmi_is_well_shaped(const tdmi_node *node)
{
    if (!is_placed(node))
        return false;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (needs[i].kind != node->kind)
            continue;
        if (node->size < 2 || node[1].field != needs[i].field[0])
            return false;
        for (size_t k = 1; k < PARTS_MAX && needs[i].field[k] != TDMI_IN_OTHER; k++)
            if (tdmi_child(node, (tdmi_in)needs[i].field[k]) == NULL)
                return false;
    }
    return true;
}
