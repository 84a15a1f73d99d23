/* amp.c - gradient scaling and autocast. */
#include "lint/lint.h"

#include <string.h>

/* scaler.scale(loss).backward() */
static bool is_scaled_backward(const tdmi_script *script, const tdmi_call *call)
{
    const tdmi_node *scaled = tdmi_is_backward(call) ? tdmi_receiver(call->node) : NULL;
    return scaled != NULL && tdmi_calls_method(scaled, "scale") && tdmi_is_scaler_variable(script, tdmi_receiver(scaled));
}

static bool is_scaler_call(const tdmi_script *script, const tdmi_call *call, const char *method)
{
    return tdmi_calls_method(call->node, method) && tdmi_is_scaler_variable(script, tdmi_receiver(call->node));
}

static bool is_clip(const tdmi_call *call)
{
    return strncmp(call->name, "torch.nn.utils.clip_grad_", 25) == 0 || strncmp(call->name, "torch.nn.utils.clip_grad.clip_grad_", 35) == 0 ||
           (tdmi_calls_method(call->node, "clip_grad_norm_") && tdmi_receiver(call->node) != NULL);
}

/* The condition that a node is under in its function; NULL: none. */
static const tdmi_node *condition_around(const tdmi_node *node)
{
    const tdmi_node *function = tdmi_function_around(node);
    for (const tdmi_node *at = node; at->parent != NULL && at != function; at = at->parent)
        if (at->parent->kind == TDMI_PY_If && at->field != TDMI_IN_test)
            return at->parent;
    return NULL;
}

/* The scaled backward before a call in its function, in no other branch; NULL: none. */
static const tdmi_call *scaled_before(const tdmi_script *script, const tdmi_node *node)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls && call->node < node; call++)
        if (is_scaled_backward(script, call) && tdmi_function_around(call->node) == tdmi_function_around(node) &&
            !tdmi_are_alternatives(call->node, node))
            return call;
    return NULL;
}

static bool calls_in_function(const tdmi_script *script, const tdmi_node *near, const char *method, const tdmi_node *before)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if ((before == NULL || call->node < before) && is_scaler_call(script, call, method) &&
            tdmi_function_around(call->node) == tdmi_function_around(near))
            return true;
    return false;
}

static void check_clip(tdmi_lint *lint, const tdmi_call *clip)
{
    const tdmi_script *script = &lint->script;
    const tdmi_call *scaled = scaled_before(script, clip->node);
    if (scaled == NULL || !calls_in_function(script, clip->node, "step", NULL) || calls_in_function(script, clip->node, "unscale_", clip->node))
        return;
    const tdmi_node *option = condition_around(scaled->node);
    if (option != NULL)
        tdmi_lint_say_as(lint, TDMI_RULE_CLIP_BEFORE_UNSCALE, TDMI_LINT_NOTE, clip->node,
                         "where the condition of line %d holds, these gradients are still scaled", option->line);
    else
        tdmi_lint_say(lint, TDMI_RULE_CLIP_BEFORE_UNSCALE, clip->node, "these gradients are still scaled: line %d scales the loss, and unscale_ is not called in between",
                      scaled->node->line);
}

static const tdmi_call *scaler_call(const tdmi_script *script, const char *method)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (is_scaler_call(script, call, method))
            return call;
    return NULL;
}

/* optimizer.step(), not through the scaler, behind a scaled backward. */
static void check_step(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    if (scaler_call(script, "step") != NULL || tdmi_find_call(script, tdmi_is_scaler) == NULL) /* made elsewhere: it may be another kind */
        return;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        const tdmi_call *scaled = tdmi_is_optimizer_step(script, call) ? scaled_before(script, call->node) : NULL;
        if (scaled != NULL) {
            tdmi_lint_say(lint, TDMI_RULE_SCALED_WITHOUT_SCALER_STEP, call->node,
                          "the loss is scaled in line %d, and the optimizer steps without scaler.step()", scaled->node->line);
            return;
        }
    }
}

/* `with torch.autocast(...)`, or a variable that holds one. */
static bool is_autocast_item(const tdmi_script *script, const tdmi_node *item)
{
    const tdmi_node *context = tdmi_child(item, TDMI_IN_context_expr), *made = tdmi_value_of(script, context);
    return made != NULL && tdmi_may_hold(script, made, tdmi_is_autocast) && !tdmi_is_bool(tdmi_keyword(made, "enabled"), false);
}

static void check_autocast(tdmi_lint *lint, const tdmi_call *backward)
{
    for (const tdmi_node *at = backward->node; at->parent != NULL && !tdmi_is_function(at); at = at->parent) {
        if (!tdmi_is_with(at) || backward->node < tdmi_child(at, TDMI_IN_body))
            continue;
        for (const tdmi_node *item = tdmi_child(at, TDMI_IN_items); item != NULL; item = tdmi_sibling(item))
            if (is_autocast_item(&lint->script, item)) {
                tdmi_lint_say(lint, TDMI_RULE_BACKWARD_IN_AUTOCAST, backward->node, "backward() is inside the autocast of line %d", at->line);
                return;
            }
    }
}

void tdmi_lint_amp(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const tdmi_call *step = scaler_call(script, "step");
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (is_clip(call))
            check_clip(lint, call);
        if (tdmi_is_backward(call))
            check_autocast(lint, call);
    }
    check_step(lint);
    if (step != NULL && scaler_call(script, "update") == NULL && tdmi_find_call(script, tdmi_is_scaler) != NULL)
        tdmi_lint_say(lint, TDMI_RULE_SCALER_WITHOUT_UPDATE, step->node, "scaler.step() is called, and scaler.update() nowhere");
}
