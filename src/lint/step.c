/* step.c - what should not be in every training step. */
#include "lint/lint.h"

#include <string.h>

static bool empties_cache(const char *full_name)
{
    return strcmp(full_name, "torch.cuda.empty_cache") == 0 || strcmp(full_name, "torch.cuda.memory.empty_cache") == 0 ||
           strcmp(full_name, "torch.accelerator.empty_cache") == 0 || strcmp(full_name, "torch.xpu.empty_cache") == 0;
}

/* An expression that is a loss: what some backward() of its function starts from. */
static bool is_loss(const tdmi_script *script, const tdmi_node *expression)
{
    if (expression->kind != TDMI_PY_Name)
        return false;
    const tdmi_node *function = tdmi_function_around(expression);
    size_t backwards = 0;
    for (const tdmi_call *call = tdmi_call_from(script, function); call < tdmi_call_from(script, tdmi_end(function)) && backwards < TDMI_LINT_OF_RULE_MAX; call++) {
        if (!tdmi_is_backward(call) || tdmi_function_around(call->node) != function)
            continue;
        backwards++;
        if (tdmi_same_variable(script, tdmi_loss_of(call), expression))
            return true;
    }
    return false;
}

static bool is_printing(const tdmi_call *call)
{
    const tdmi_node *function = tdmi_child(call->node, TDMI_IN_func), *receiver = tdmi_receiver(call->node);
    static const char *const methods[] = {"info", "debug", "warning", "write", "set_postfix", "set_description", "add_scalar", "log"};
    if (function->kind == TDMI_PY_Name)
        return strcmp(function->text, "print") == 0;
    for (size_t i = 0; receiver != NULL && i < sizeof methods / sizeof *methods; i++)
        if (strcmp(function->text, methods[i]) == 0)
            return strncmp(call->name, "torch.", 6) != 0 && strncmp(call->name, "math.", 5) != 0 && strncmp(call->name, "numpy.", 6) != 0;
    return false;
}

/* A tensor's value in what is printed: the loss, or something that item() is called on. */
static const tdmi_node *printed_value(const tdmi_script *script, const tdmi_node *call)
{
    for (const tdmi_node *node = call + 1; node < tdmi_end(call); node++) {
        if (tdmi_calls_method(node, "item") && tdmi_receiver(node) != NULL)
            return node;
        if (node->kind == TDMI_PY_Attribute) { /* loss.grad_fn, loss.shape, loss.detach(): not the value by itself */
            node += node->size - 1;
            continue;
        }
        if (is_loss(script, node))
            return node;
    }
    return NULL;
}

/* loss.item(), loss.cpu(), float(loss) */
static bool fetches(const tdmi_script *script, const tdmi_call *call)
{
    const tdmi_node *receiver = tdmi_receiver(call->node), *argument = tdmi_argument(call->node, 0, NULL);
    if (tdmi_calls_method(call->node, "item"))
        return receiver != NULL && argument == NULL;
    if (tdmi_calls_method(call->node, "cpu"))
        return receiver != NULL && call->name[0] == '\0' && argument == NULL;
    return tdmi_child(call->node, TDMI_IN_func)->kind == TDMI_PY_Name && tdmi_calls_method(call->node, "float") && argument != NULL &&
           is_loss(script, argument);
}

/* One finding for each loop: the rest of its fetches are in the number. */
static void check_fetches(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const tdmi_node *said[16];
    size_t saids = 0;
    for (const tdmi_call *call = script->call; call < script->call + script->calls && saids < sizeof said / sizeof *said; call++) {
        const tdmi_node *value = is_printing(call) && tdmi_runs_each_step(script, call->node, true) ? printed_value(script, call->node) : NULL;
        if (value == NULL && !(fetches(script, call) && tdmi_runs_each_step(script, call->node, true)))
            continue;
        const tdmi_node *step = tdmi_step_around(script, call->node);
        bool again = false;
        for (size_t i = 0; i < saids; i++)
            again |= said[i] == step;
        if (again)
            continue;
        said[saids++] = step;
        if (value != NULL && tdmi_rank_condition(script, call->node) == NULL && tdmi_ends_in(tdmi_child(call->node, TDMI_IN_func), "print"))
            tdmi_lint_say_as(lint, TDMI_RULE_SYNC_EVERY_STEP, TDMI_LINT_WARNING, call->node, "every rank prints a tensor's value in every step");
        else if (value != NULL)
            tdmi_lint_say(lint, TDMI_RULE_SYNC_EVERY_STEP, call->node, "a tensor's value is logged in every step");
        else
            tdmi_lint_say(lint, TDMI_RULE_SYNC_EVERY_STEP, call->node, "%s() is called in every step", tdmi_child(call->node, TDMI_IN_func)->text);
    }
}

void tdmi_lint_step(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (empties_cache(call->name) && tdmi_runs_each_step(script, call->node, true))
            tdmi_lint_say(lint, TDMI_RULE_EMPTY_CACHE_IN_LOOP, call->node, "the allocator's memory is given back in every step");
    if (script->uses_cuda)
        check_fetches(lint);
}
