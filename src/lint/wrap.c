/* wrap.c - DataParallel, DDP and FSDP: what they are given, and in which order. */
#include "lint/lint.h"

#include <string.h>

static void check_data_parallel(tdmi_lint *lint, const tdmi_call *call)
{
    if (tdmi_find_call(&lint->script, tdmi_is_ddp) != NULL)
        tdmi_lint_say_as(lint, TDMI_RULE_DATA_PARALLEL, TDMI_LINT_NOTE, call->node, "DataParallel is this script's way without a process group");
    else
        tdmi_lint_say(lint, TDMI_RULE_DATA_PARALLEL, call->node, "the model is wrapped in DataParallel");
}

/* ---- the device ---- */

/* .to(device), .cuda(): moves a model. A dtype alone does not. */
static bool is_move(const tdmi_script *script, const tdmi_node *call)
{
    char name[TDMI_NAME_BYTES];
    if (tdmi_receiver(call) == NULL)
        return false;
    if (tdmi_calls_method(call, "cuda"))
        return true;
    const tdmi_node *device = tdmi_calls_method(call, "to") ? tdmi_argument(call, 0, "device") : NULL;
    if (device == NULL || tdmi_is_text(device, "cpu"))
        return false;
    tdmi_full_name(script, device, name);
    return name[0] == '\0' || strncmp(name, "torch.device", 12) == 0;
}

/* An expression that moves what it makes: Net().to(device), Net(device=...), load(..., device_map=...). */
static bool is_moved(const tdmi_script *script, const tdmi_node *value)
{
    for (const tdmi_node *node = value; node != NULL && node < tdmi_end(value); node++)
        if ((node->kind == TDMI_PY_Call && is_move(script, node)) ||
            (node->kind == TDMI_PY_keyword && (strncmp(node->text, "device", 6) == 0 || strcmp(node->text, "map_location") == 0)))
            return true;
    return false;
}

static bool sets_default_device(const tdmi_script *script)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (strcmp(call->name, "torch.set_default_device") == 0 || strcmp(call->name, "torch.set_default_tensor_type") == 0 ||
            (strcmp(call->name, "torch.device") == 0 && call->node->parent->kind == TDMI_PY_withitem))
            return true;
    return false;
}

/* Whether the model that DDP is given is seen to be made here, and nowhere moved before. */
static bool is_unmoved(const tdmi_script *script, const tdmi_node *model, const tdmi_node *ddp)
{
    if (model == NULL || is_moved(script, model))
        return false;
    if (model->kind == TDMI_PY_Call)
        return true;
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, model, &count);
    bool made = false;
    for (size_t i = 0; i < count; i++) {
        if (all[i].kind != TDMI_BIND_VALUE || all[i].value == NULL)
            return false;
        if (all[i].node < ddp && !tdmi_contains(all[i].value, ddp)) {
            if (all[i].value->kind != TDMI_PY_Call || is_moved(script, all[i].value))
                return false;
            made = true;
        }
    }
    for (const tdmi_call *call = script->call; call < script->call + script->calls && call->node < ddp; call++)
        if (is_move(script, call->node) && tdmi_same_variable(script, tdmi_receiver(call->node), model))
            return false;
    return made;
}

/* The variable that an expression is assigned to; NULL: none. */
static const tdmi_node *assigned_to(const tdmi_node *expression)
{
    const tdmi_node *assign = expression->parent;
    return assign != NULL && assign->kind == TDMI_PY_Assign && expression->field == TDMI_IN_value ? tdmi_child(assign, TDMI_IN_targets) : NULL;
}

static void check_device(tdmi_lint *lint, const tdmi_call *ddp)
{
    const tdmi_script *script = &lint->script;
    const tdmi_node *model = tdmi_argument(ddp->node, 0, "module"), *variable = assigned_to(ddp->node);
    if (sets_default_device(script) || !is_unmoved(script, model, ddp->node))
        return;
    const tdmi_node *method = ddp->node->parent, *outer = method != NULL ? method->parent : NULL;
    if (method != NULL && method->kind == TDMI_PY_Attribute && outer->kind == TDMI_PY_Call && is_move(script, outer)) {
        tdmi_lint_say(lint, TDMI_RULE_DDP_BEFORE_TO, outer, "the model is moved when DDP has it already");
        return;
    }
    for (const tdmi_call *call = ddp + 1; variable != NULL && call < script->call + script->calls; call++) {
        const tdmi_node *moved = is_move(script, call->node) ? tdmi_receiver(call->node) : NULL;
        if (moved != NULL && tdmi_function_around(call->node) == tdmi_function_around(ddp->node) && !tdmi_are_alternatives(ddp->node, call->node) &&
            (tdmi_same_variable(script, moved, variable) || tdmi_same_variable(script, moved, model))) {
            tdmi_lint_say(lint, TDMI_RULE_DDP_BEFORE_TO, call->node, "the model is moved here, and line %d has given it to DDP before", ddp->node->line);
            return;
        }
    }
}

/* ---- orders ---- */

/* model.parameters() somewhere in the first argument: the model; NULL: not seen. */
static const tdmi_node *model_of_optimizer(const tdmi_node *optimizer)
{
    const tdmi_node *params = tdmi_argument(optimizer, 0, "params");
    for (const tdmi_node *node = params; node != NULL && node < tdmi_end(params); node++)
        if (tdmi_calls_method(node, "parameters") && tdmi_receiver(node) != NULL)
            return tdmi_receiver(node);
    return NULL;
}

static void check_optimizer(tdmi_lint *lint, const tdmi_call *shard)
{
    const tdmi_script *script = &lint->script;
    const tdmi_node *model = tdmi_argument(shard->node, 0, "module");
    const tdmi_call *early = NULL;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (!tdmi_is_optimizer(call->name) || tdmi_function_around(call->node) != tdmi_function_around(shard->node))
            continue;
        if (call->node > shard->node)
            return; /* made again */
        if (tdmi_same_variable(script, model_of_optimizer(call->node), model) && !tdmi_are_alternatives(call->node, shard->node))
            early = call;
    }
    if (early != NULL)
        tdmi_lint_say(lint, TDMI_RULE_OPTIMIZER_BEFORE_FSDP, early->node, "the optimizer takes the parameters that %s replaces in line %d",
                      tdmi_is_fsdp(shard->name) ? "FSDP" : "fully_shard", shard->node->line);
}

static bool is_compile(const char *full_name)
{
    return strcmp(full_name, "torch.compile") == 0;
}

static void check_compile(tdmi_lint *lint, const tdmi_call *ddp)
{
    const tdmi_script *script = &lint->script;
    const tdmi_node *model = tdmi_argument(ddp->node, 0, "module");
    const tdmi_call *inner = model != NULL ? tdmi_call_at(script, model) : NULL;
    if (inner != NULL && is_compile(inner->name)) {
        tdmi_lint_say(lint, TDMI_RULE_COMPILE_BEFORE_DDP, inner->node, "the model is compiled before DDP wraps it");
        return;
    }
    for (const tdmi_call *call = script->call; call < ddp; call++)
        if (tdmi_function_around(call->node) == tdmi_function_around(ddp->node) && !tdmi_are_alternatives(call->node, ddp->node) &&
            ((is_compile(call->name) && tdmi_same_variable(script, assigned_to(call->node), model)) ||
             (tdmi_calls_method(call->node, "compile") && tdmi_same_variable(script, tdmi_receiver(call->node), model)))) {
            tdmi_lint_say(lint, TDMI_RULE_COMPILE_BEFORE_DDP, call->node, "the model is compiled before DDP wraps it in line %d", ddp->node->line);
            return;
        }
}

/* ---- options of DDP ---- */

/* Something that people do when memory runs out. */
static const tdmi_call *memory_cure(const tdmi_script *script)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (strcmp(call->name, "torch.cuda.empty_cache") == 0 || strcmp(call->name, "torch.utils.checkpoint.checkpoint") == 0 ||
            tdmi_calls_method(call->node, "gradient_checkpointing_enable"))
            return call;
    return NULL;
}

static void check_ddp_options(tdmi_lint *lint, const tdmi_call *ddp)
{
    const tdmi_node *unused = tdmi_keyword(ddp->node, "find_unused_parameters"), *cap = tdmi_keyword(ddp->node, "bucket_cap_mb");
    const tdmi_call *cure = memory_cure(&lint->script);
    if (tdmi_is_bool(unused, true) && tdmi_is_bool(tdmi_keyword(ddp->node, "static_graph"), true))
        tdmi_lint_say_as(lint, TDMI_RULE_FIND_UNUSED_PARAMETERS, TDMI_LINT_NOTE, unused, "static_graph=True finds unused parameters once; this finds them again in every step");
    else if (tdmi_is_bool(unused, true) && cure != NULL)
        tdmi_lint_say_as(lint, TDMI_RULE_FIND_UNUSED_PARAMETERS, TDMI_LINT_WARNING, unused,
                         "DDP looks for unused parameters in every step; if that is meant to save memory, as line %d is, it does not", cure->node->line);
    else if (tdmi_is_bool(unused, true))
        tdmi_lint_say(lint, TDMI_RULE_FIND_UNUSED_PARAMETERS, unused, "DDP looks for unused parameters in every step");
    if (tdmi_is_number(cap, 25))
        tdmi_lint_say(lint, TDMI_RULE_BUCKET_CAP_DEFAULT, cap, "bucket_cap_mb=25 is the default, but said explicitly it takes the small first bucket away");
}

void tdmi_lint_wrap(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    size_t wrapped = 0;
    for (const tdmi_call *call = script->call; call < script->call + script->calls && wrapped < TDMI_LINT_OF_RULE_MAX; call++) {
        wrapped += tdmi_is_data_parallel(call->name) || tdmi_is_fsdp(call->name) || tdmi_is_fully_shard(call->name) || tdmi_is_ddp(call->name);
        if (tdmi_is_data_parallel(call->name))
            check_data_parallel(lint, call);
        if (tdmi_is_fsdp(call->name) || tdmi_is_fully_shard(call->name))
            check_optimizer(lint, call);
        if (tdmi_is_ddp(call->name)) {
            check_device(lint, call);
            check_compile(lint, call);
            check_ddp_options(lint, call);
        }
    }
}
