/* accumulation.c - several backward() calls a step: which of them average gradients, and what their sum is.
 *
 *   by turns    for i, batch in ...:  backward();  if (i + 1) % K == 0: optimizer.step()
 *   by a loop   for batch in ...:  for k in range(K): backward();  optimizer.step() */
#include "lint/lint.h"

#include <string.h>
#include <strings.h>

/* One place where gradients are accumulated. */
typedef struct accumulation {
    const tdmi_call *backward, *step;
    const tdmi_node *test; /* by turns: the condition of the step; NULL: by a loop */
    const tdmi_node *loop; /* by a loop: that of the micro-batches */
} accumulation;

static const tdmi_node *through_variable(const tdmi_script *script, const tdmi_node *condition)
{
    const tdmi_node *value = condition->kind == TDMI_PY_Name ? tdmi_value_of(script, condition) : NULL;
    return value != NULL ? value : condition;
}

static bool has_modulo(const tdmi_node *condition)
{
    for (const tdmi_node *node = condition; node < tdmi_end(condition); node++)
        if (node->kind == TDMI_PY_BinOp && strcmp(node->text, "Mod") == 0)
            return true;
    return false;
}

/* The `if i % K == 0` between the step and the loop that has backward. */
static const tdmi_node *turn_test(const tdmi_script *script, const tdmi_node *step, const tdmi_node *backward)
{
    for (const tdmi_node *at = step; at->parent != NULL && !tdmi_contains(at->parent, backward); at = at->parent)
        if (at->parent->kind == TDMI_PY_If && at->field == TDMI_IN_body) {
            const tdmi_node *test = through_variable(script, tdmi_child(at->parent, TDMI_IN_test));
            if (has_modulo(test))
                return test;
        }
    for (const tdmi_node *at = step; at->parent != NULL; at = at->parent) /* both under one loop, but not the if */
        if (tdmi_contains(at->parent, backward)) {
            const tdmi_node *test = at->kind == TDMI_PY_If ? through_variable(script, tdmi_child(at, TDMI_IN_test)) : NULL;
            return test != NULL && has_modulo(test) ? test : NULL;
        }
    return NULL;
}

static bool counts_micro_batches(const tdmi_node *loop)
{
    const tdmi_node *iter = loop->kind == TDMI_PY_For ? tdmi_child(loop, TDMI_IN_iter) : NULL;
    if (iter == NULL)
        return false;
    for (const tdmi_node *node = loop + 1; node < tdmi_end(loop) && node->field != TDMI_IN_body; node++)
        if (tdmi_is_named(node) && (strcasestr(node->text, "accum") != NULL || strcasestr(node->text, "micro") != NULL))
            return true;
    return iter->kind == TDMI_PY_Call && tdmi_ends_in(tdmi_child(iter, TDMI_IN_func), "range");
}

static bool find(const tdmi_script *script, const tdmi_call *backward, accumulation *out)
{
    const tdmi_node *loop = tdmi_loop_around(backward->node), *function = tdmi_function_around(backward->node);
    for (const tdmi_call *step = backward; step < tdmi_call_from(script, tdmi_end(function)); step++) {
        if (!tdmi_calls_method(step->node, "step") || tdmi_function_around(step->node) != function || !tdmi_is_optimizer_step(script, step))
            continue;
        const tdmi_node *around = tdmi_loop_around(step->node);
        const tdmi_node *test = around == loop ? turn_test(script, step->node, backward->node) : NULL;
        *out = (accumulation){backward, step, test, loop};
        if (test != NULL)
            return tdmi_step_around(script, backward->node) != NULL;
        if (loop != NULL && around != NULL && around == tdmi_loop_around(loop) && counts_micro_batches(loop) &&
            !tdmi_are_alternatives(backward->node, step->node))
            return true;
    }
    return false;
}

/* ---- no_sync ---- */

/* Something in the script that decides whether DDP averages. */
static bool decides_sync(const tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    static const char *const names[] = {"no_sync", "require_backward_grad_sync", "set_requires_gradient_sync", "accumulate",
                                        "set_is_last_backward", "no_backward_sync"};
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (tdmi_ends_in(node, names[i]))
                return true;
    return false;
}

/* `condition` without its not and !=; *negated says whether there was one. */
static const tdmi_node *plain(const tdmi_node *condition, bool *negated)
{
    while (condition->kind == TDMI_PY_UnaryOp && strcmp(condition->text, "Not") == 0) {
        *negated = !*negated;
        condition++;
    }
    if (condition->kind == TDMI_PY_Compare && strcmp(condition->text, "NotEq") == 0)
        *negated = !*negated;
    return condition;
}

static bool same_expression(const tdmi_node *a, const tdmi_node *b, bool operators)
{
    if (a->size != b->size)
        return false;
    for (size_t i = 0; i < a->size; i++)
        if (a[i].kind != b[i].kind || a[i].constant != b[i].constant || a[i].number != b[i].number ||
            ((operators || a[i].kind != TDMI_PY_Compare) && strcmp(a[i].text, b[i].text) != 0))
            return false;
    return true;
}

/* The names in a condition are the same ones, so that i % K and (i + 1) % K can be told from two loops' counters. */
static bool same_names(const tdmi_node *a, const tdmi_node *b)
{
    for (int turn = 0; turn < 2; turn++) {
        for (const tdmi_node *x = a; x < tdmi_end(a); x++) {
            bool found = x->kind != TDMI_PY_Name;
            for (const tdmi_node *y = b; y < tdmi_end(b) && !found; y++)
                found = y->kind == TDMI_PY_Name && strcmp(x->text, y->text) == 0;
            if (!found)
                return false;
        }
        const tdmi_node *swapped = a;
        a = b;
        b = swapped;
    }
    return true;
}

static bool is_equality(const tdmi_node *condition)
{
    return condition->kind == TDMI_PY_Compare && (strcmp(condition->text, "Eq") == 0 || strcmp(condition->text, "NotEq") == 0);
}

/* K - 1, where the loop counts to K. */
static bool is_last_turn(const tdmi_node *number)
{
    return number->kind == TDMI_PY_BinOp && strcmp(number->text, "Sub") == 0 && tdmi_is_number(tdmi_child(number, TDMI_IN_right), 1);
}

/* Whether a condition on a loop's counter holds in its last turn (k == K - 1, k != 0, k > 0); false where that is not certain. */
static bool holds_in_last_turn(const tdmi_node *condition, bool when, const tdmi_node *loop)
{
    const tdmi_node *counter = loop->kind == TDMI_PY_For ? tdmi_child(loop, TDMI_IN_target) : NULL;
    if (counter == NULL || counter->kind != TDMI_PY_Name || condition->kind != TDMI_PY_Compare || tdmi_children(condition, TDMI_IN_comparators) != 1)
        return false;
    const tdmi_node *left = tdmi_child(condition, TDMI_IN_left), *right = tdmi_child(condition, TDMI_IN_comparators);
    const char *op = condition->text;
    if (!tdmi_ends_in(left, counter->text) || left->kind != TDMI_PY_Name)
        return false;
    if (is_last_turn(right))
        return when ? strcmp(op, "Eq") == 0 || strcmp(op, "GtE") == 0 : strcmp(op, "NotEq") == 0 || strcmp(op, "Lt") == 0;
    if (tdmi_is_number(right, 0))
        return when ? strcmp(op, "NotEq") == 0 || strcmp(op, "Gt") == 0 : strcmp(op, "Eq") == 0;
    return false;
}

/* Whether no_sync, in force where `condition` is `when`, covers the turn of the step. False where that is not certain. */
static bool covers_step(const tdmi_script *script, const tdmi_node *condition, bool when, const accumulation *at)
{
    bool negated = !when, step_negated = false;
    if (at->test == NULL)
        return holds_in_last_turn(through_variable(script, condition), when, at->loop);
    condition = plain(through_variable(script, condition), &negated);
    const tdmi_node *test = plain(at->test, &step_negated);
    if (same_expression(condition, test, false) && (is_equality(condition) || condition->kind == TDMI_PY_Name))
        return negated == step_negated;
    return is_equality(condition) && is_equality(test) && has_modulo(condition) && same_names(condition, test) && negated && !step_negated;
}

/* model.no_sync() in an expression; *condition, *when: under which condition of an IfExp. */
static const tdmi_node *no_sync_in(const tdmi_node *expression, const tdmi_node **condition, bool *when)
{
    *condition = NULL;
    if (expression == NULL)
        return NULL;
    if (expression->kind == TDMI_PY_IfExp) {
        const tdmi_node *then = tdmi_child(expression, TDMI_IN_body), *otherwise = tdmi_child(expression, TDMI_IN_orelse);
        *condition = tdmi_child(expression, TDMI_IN_test);
        *when = tdmi_calls_method(then, "no_sync");
        return *when ? then : tdmi_calls_method(otherwise, "no_sync") ? otherwise : NULL;
    }
    return tdmi_calls_method(expression, "no_sync") ? expression : NULL;
}

static const tdmi_call *call_within(const tdmi_script *script, const tdmi_node *with, bool (*is)(const tdmi_script *, const tdmi_call *))
{
    for (const tdmi_call *call = tdmi_call_from(script, tdmi_child(with, TDMI_IN_body)); call < tdmi_call_from(script, tdmi_end(with)); call++)
        if (is(script, call))
            return call;
    return NULL;
}

static bool backward_of(const tdmi_script *script, const tdmi_call *call)
{
    (void)script;
    return tdmi_is_backward(call);
}

/* A call that may run the model: the wrapped model itself, or a function of the script. */
static bool runs_model(const tdmi_script *script, const tdmi_call *call)
{
    const tdmi_node *function = tdmi_child(call->node, TDMI_IN_func);
    return call->function != NULL || tdmi_names_model(function) || tdmi_ends_in(function, "forward") || tdmi_may_hold(script, function, tdmi_is_ddp) || tdmi_may_hold(script, function, tdmi_is_fsdp);
}

static void check_forward(tdmi_lint *lint, const tdmi_node *with, const tdmi_node *no_sync, const tdmi_call *backward)
{
    const tdmi_script *script = &lint->script;
    if (call_within(script, with, runs_model) != NULL)
        return;
    const tdmi_node *loop = tdmi_loop_around(with);
    for (const tdmi_call *call = script->call; call < script->call + script->calls && call->node < with; call++)
        if (tdmi_same_variable(script, tdmi_child(call->node, TDMI_IN_func), tdmi_receiver(no_sync)) && tdmi_loop_around(call->node) == loop &&
            tdmi_function_around(call->node) == tdmi_function_around(with)) {
            tdmi_lint_say(lint, TDMI_RULE_NO_SYNC_WITHOUT_FORWARD, with,
                          "no_sync is around backward() in line %d; the model was called before, in line %d", backward->node->line, call->node->line);
            return;
        }
}

/* The optimizer's step that follows a `with no_sync()` in its loop, with no backward() that averages in between; NULL: none. */
static const tdmi_call *step_without_average(const tdmi_script *script, const tdmi_node *with)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (call->node < tdmi_end(with) || tdmi_function_around(call->node) != tdmi_function_around(with))
            continue;
        if (tdmi_is_backward(call) || call->function != NULL) /* a function may have one */
            return NULL;
        if (tdmi_is_optimizer_step(script, call))
            return tdmi_loop_around(call->node) == tdmi_loop_around(with) ? call : NULL;
    }
    return NULL;
}

/* The if around a `with no_sync()` that has no condition of its own. */
static const tdmi_node *outer_condition(const tdmi_node *with, bool *when)
{
    const tdmi_node *above = with->parent;
    if (above == NULL || above->kind != TDMI_PY_If || with->field == TDMI_IN_test)
        return NULL;
    *when = with->field == TDMI_IN_body;
    return tdmi_child(above, TDMI_IN_test);
}

static void check_with(tdmi_lint *lint, const tdmi_node *with)
{
    const tdmi_script *script = &lint->script;
    for (const tdmi_node *item = tdmi_child(with, TDMI_IN_items); item != NULL; item = tdmi_sibling(item)) {
        const tdmi_node *condition;
        bool when = true;
        accumulation at;
        const tdmi_node *context = tdmi_value_of(script, tdmi_child(item, TDMI_IN_context_expr));
        const tdmi_node *no_sync = no_sync_in(context, &condition, &when);
        const tdmi_call *backward = no_sync != NULL ? call_within(script, with, backward_of) : NULL;
        if (backward == NULL)
            continue;
        const tdmi_call *step = call_within(script, with, tdmi_is_optimizer_step);
        if (condition == NULL)
            condition = outer_condition(with, &when);
        const tdmi_call *after = condition == NULL ? step_without_average(script, with) : NULL;
        if (step != NULL && condition == NULL && !tdmi_are_alternatives(backward->node, step->node))
            tdmi_lint_say(lint, TDMI_RULE_NO_SYNC_ON_LAST, with, "the optimizer steps inside no_sync, in line %d: no gradient is ever averaged",
                          step->node->line);
        else if (step == NULL && after != NULL)
            tdmi_lint_say(lint, TDMI_RULE_NO_SYNC_ON_LAST, with, "every backward() before the step in line %d is inside no_sync: no gradient is ever averaged",
                          after->node->line);
        else if (condition != NULL && find(script, backward, &at) && covers_step(script, condition, when, &at))
            tdmi_lint_say(lint, TDMI_RULE_NO_SYNC_ON_LAST, with,
                          "no_sync holds in the turn in which the optimizer steps (line %d), and not in the others", at.step->node->line);
        else
            check_forward(lint, with, no_sync, backward);
    }
}

/* ---- the mean ---- */

static bool is_named_loss(const char *full_name)
{
    const char *of_functional = strncmp(full_name, "torch.nn.functional.", 20) == 0 ? full_name + 20 : NULL;
    const char *of_class = strncmp(full_name, "torch.nn.", 9) == 0 ? full_name + 9 : NULL;
    return of_functional != NULL ? strstr(of_functional, "loss") != NULL || strstr(of_functional, "cross_entropy") != NULL
                                 : of_class != NULL && strstr(of_class, "Loss") != NULL;
}

/* criterion(output, target), F.cross_entropy(...), outputs.loss: a mean over the micro-batch. */
static bool is_mean_loss(const tdmi_script *script, const tdmi_node *value)
{
    if (value->kind == TDMI_PY_Attribute)
        return strcmp(value->text, "loss") == 0;
    const tdmi_call *call = tdmi_call_at(script, value);
    if (call == NULL || tdmi_keyword(value, "reduction") != NULL)
        return false;
    const tdmi_node *function = tdmi_child(value, TDMI_IN_func), *criterion = tdmi_value_of(script, function);
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, function, &count);
    if (count == 1 && all[0].kind == TDMI_BIND_ARGUMENT) /* given to the function: by its name */
        return strcmp(function->text, "criterion") == 0 || strcmp(function->text, "loss_fn") == 0 || strcmp(function->text, "loss_func") == 0;
    const tdmi_call *made = criterion != NULL ? tdmi_call_at(script, criterion) : NULL;
    return is_named_loss(call->name) || (made != NULL && is_named_loss(made->name) && tdmi_keyword(criterion, "reduction") == NULL);
}

/* Gradients or losses that are divided in some other way: p.grad /= K, torch._foreach_div_(grads, K). */
static bool divides_gradients(const tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++) {
        if (node->kind == TDMI_PY_Attribute && strcmp(node->text, "grad") == 0 && node->parent->kind != TDMI_PY_Expr) {
            const tdmi_node *statement = tdmi_statement(node);
            if (statement->kind == TDMI_PY_AugAssign)
                return true;
        }
        if (node->kind == TDMI_PY_Attribute && (strcmp(node->text, "div_") == 0 || strcmp(node->text, "mul_") == 0 ||
                                                strncmp(node->text, "_foreach_", 9) == 0))
            return true;
    }
    return false;
}

static void check_mean(tdmi_lint *lint, const accumulation *at)
{
    const tdmi_script *script = &lint->script;
    const tdmi_node *loss = tdmi_loss_of(at->backward);
    if (loss == NULL || divides_gradients(script))
        return;
    size_t count = 1;
    const tdmi_binding *all = tdmi_bindings_of(script, loss, &count);
    if (all == NULL && !is_mean_loss(script, loss))
        return;
    for (size_t i = 0; all != NULL && i < count; i++)
        if (all[i].value == NULL || !is_mean_loss(script, all[i].value)) /* divided, or not known; an AugAssign has no value */
            return;
    tdmi_lint_say(lint, TDMI_RULE_LOSS_NOT_DIVIDED, at->backward->node, "the losses of several backward() calls are added before the step in line %d",
                  at->step->node->line);
}

void tdmi_lint_accumulation(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const tdmi_syntax *syntax = script->syntax;
    const bool decided = decides_sync(script) || tdmi_find_call(script, tdmi_is_ddp) == NULL;
    const tdmi_call *said = NULL;
    size_t backwards = 0;
    accumulation at;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (!tdmi_is_backward(call))
            continue;
        if (backwards++ == TDMI_LINT_OF_RULE_MAX)
            break;
        if (!find(script, call, &at) || at.step == said)
            continue;
        said = at.step; /* backward() in two branches is one */
        if (!decided)
            tdmi_lint_say(lint, TDMI_RULE_ACCUMULATION_WITHOUT_NO_SYNC, call->node,
                          "each backward() averages the gradients of all ranks; the optimizer steps once in several, in line %d", at.step->node->line);
        check_mean(lint, &at);
    }
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        if (tdmi_is_with(node))
            check_with(lint, node);
}
