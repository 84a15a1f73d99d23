/* train.c - from the calls to backward() outwards: what runs once a training step. */
#include "lint/train.h"

#include "core/memory.h"

#include <string.h>
#include <strings.h>

bool tdmi_is_backward(const tdmi_call *call)
{
    return strcmp(call->name, "torch.autograd.backward") == 0 || (tdmi_calls_method(call->node, "backward") && tdmi_receiver(call->node) != NULL);
}

const tdmi_node *tdmi_loss_of(const tdmi_call *backward)
{
    const tdmi_node *loss = tdmi_receiver(backward->node);
    return loss != NULL && tdmi_calls_method(loss, "scale") ? tdmi_argument(loss, 0, NULL) : loss;
}

/* `site` runs once a step: marks what it belongs to, and gives the function whose calls are the next sites. */
static const tdmi_node *mark(tdmi_script *script, const tdmi_node *site)
{
    const tdmi_node *loop = tdmi_loop_around(site);
    if (loop != NULL) {
        script->every_step[tdmi_number_of(script, loop)] = true;
        return NULL;
    }
    const tdmi_node *function = tdmi_function_around(site);
    if (function->parent == NULL || function->kind == TDMI_PY_Lambda || script->step_function[tdmi_number_of(script, function)])
        return NULL;
    script->step_function[tdmi_number_of(script, function)] = true;
    return function;
}

/* From each call to backward() up through the callers. */
static void mark_all(tdmi_script *script, const tdmi_node **waiting)
{
    size_t count = 0;
    for (size_t i = 0; i < script->calls; i++) {
        const tdmi_node *function = tdmi_is_backward(&script->call[i]) ? mark(script, script->call[i].node) : NULL;
        if (function != NULL)
            waiting[count++] = function;
    }
    while (count > 0) {
        const tdmi_node *called = waiting[--count];
        size_t calls;
        const tdmi_call *const *of = tdmi_calls_of(script, called, &calls);
        for (size_t i = 0; i < calls; i++) {
            const tdmi_node *function = mark(script, of[i]->node);
            if (function != NULL)
                waiting[count++] = function;
        }
    }
}

/* The innermost loop of steps around a node inside its function; NULL: none. */
static const tdmi_node *step_loop_around(const tdmi_script *script, const tdmi_node *node)
{
    const tdmi_node *loop = tdmi_loop_around(node);
    while (loop != NULL && !script->every_step[tdmi_number_of(script, loop)])
        loop = tdmi_loop_around(loop);
    return loop;
}

/* A function that nothing calls in a loop of steps is no step: keeps those that are called in one, and what they call in turn. */
static void keep_called(tdmi_script *script, bool *in_loop, const tdmi_node **waiting)
{
    size_t count = 0;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (call->function != NULL && script->step_function[tdmi_number_of(script, call->function)] &&
            !in_loop[tdmi_number_of(script, call->function)] && step_loop_around(script, call->node) != NULL) {
            in_loop[tdmi_number_of(script, call->function)] = true;
            waiting[count++] = call->function;
        }
    while (count > 0) {
        const tdmi_node *function = waiting[--count];
        for (const tdmi_call *call = tdmi_call_from(script, function); call < tdmi_call_from(script, tdmi_end(function)); call++)
            if (call->function != NULL && script->step_function[tdmi_number_of(script, call->function)] &&
                !in_loop[tdmi_number_of(script, call->function)] && tdmi_function_around(call->node) == function) {
                in_loop[tdmi_number_of(script, call->function)] = true;
                waiting[count++] = call->function;
            }
    }
    memcpy(script->step_function, in_loop, script->syntax->count * sizeof *in_loop);
}

/* It makes a process group, wraps a model or calls collectives: one of many ranks. */
static bool is_distributed(const char *full_name)
{
    return strcmp(full_name, "torch.distributed.init_process_group") == 0 || strcmp(full_name, "torch.distributed.init_device_mesh") == 0 ||
           strcmp(full_name, "torch.distributed.device_mesh.init_device_mesh") == 0 || tdmi_is_ddp(full_name) || tdmi_is_fsdp(full_name) ||
           tdmi_is_fully_shard(full_name) || tdmi_is_distributed_sampler(full_name) || tdmi_is_collective(full_name);
}

static void find_facts(tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    for (size_t i = 0; i < script->calls && !script->trains; i++)
        script->trains = tdmi_is_backward(&script->call[i]);
    script->distributed = tdmi_find_call(script, is_distributed) != NULL;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count && !script->uses_cuda; node++)
        script->uses_cuda = (node->constant == TDMI_STR && (strncmp(node->text, "cuda", 4) == 0 || strcmp(node->text, "nccl") == 0)) ||
                            (node->kind == TDMI_PY_Attribute && strcmp(node->text, "cuda") == 0);
}

tdm_status tdmi_find_steps(tdmi_script *script)
{
    const size_t count = script->syntax->count;
    const tdmi_node **waiting = tdmi_calloc(count + 1, sizeof *waiting, "bindings");
    script->every_step = tdmi_calloc(count, sizeof *script->every_step, "bindings");
    script->step_function = tdmi_calloc(count, sizeof *script->step_function, "bindings");
    bool *in_loop = tdmi_calloc(count, sizeof *in_loop, "bindings");
    const bool room = waiting != NULL && in_loop != NULL && script->every_step != NULL && script->step_function != NULL;
    if (room) {
        mark_all(script, waiting);
        keep_called(script, in_loop, waiting);
        find_facts(script);
    }
    tdmi_free(waiting);
    tdmi_free(in_loop);
    return room ? TDM_OK : TDM_ERR_NO_MEMORY;
}

bool tdmi_names_model(const tdmi_node *expression)
{
    return tdmi_ends_in(expression, "model") || tdmi_ends_in(expression, "net") || tdmi_ends_in(expression, "ddp_model");
}

bool tdmi_is_scaler_variable(const tdmi_script *script, const tdmi_node *expression)
{
    return expression != NULL && (tdmi_may_hold(script, expression, tdmi_is_scaler) ||
                                  (tdmi_is_named(expression) && strcasestr(expression->text, "scaler") != NULL));
}

bool tdmi_is_optimizer_step(const tdmi_script *script, const tdmi_call *call)
{
    const tdmi_node *receiver = tdmi_receiver(call->node);
    if (receiver == NULL || !tdmi_calls_method(call->node, "step"))
        return false;
    if (receiver->kind == TDMI_PY_Subscript)
        receiver = tdmi_child(receiver, TDMI_IN_value);
    return tdmi_may_hold(script, receiver, tdmi_is_optimizer) || tdmi_is_scaler_variable(script, receiver) ||
           (tdmi_is_named(receiver) && (strncasecmp(receiver->text, "opt", 3) == 0 || strcasestr(receiver->text, "optim") != NULL));
}

const tdmi_node *tdmi_step_around(const tdmi_script *script, const tdmi_node *node)
{
    const tdmi_node *loop = step_loop_around(script, node), *function = tdmi_function_around(node);
    if (loop != NULL)
        return loop;
    return script->step_function[tdmi_number_of(script, function)] ? function : NULL;
}

/* Whether a condition selects ranks and nothing else: `rank == 0 and step % 100 == 0` selects steps too. */
static bool selects_ranks_only(const tdmi_script *script, const tdmi_node *condition)
{
    if (condition->kind == TDMI_PY_BoolOp && strcmp(condition->text, "And") == 0) {
        for (const tdmi_node *part = tdmi_child(condition, TDMI_IN_values); part != NULL; part = tdmi_sibling(part))
            if (!selects_ranks_only(script, part))
                return false;
        return true;
    }
    return tdmi_ranks_where(script, condition) != TDMI_ALL_RANKS;
}

bool tdmi_runs_each_step(const tdmi_script *script, const tdmi_node *node, bool always)
{
    const tdmi_node *step = tdmi_step_around(script, node);
    if (step == NULL || !always)
        return step != NULL;
    for (const tdmi_node *at = node; at != step; at = at->parent) {
        const tdmi_node *above = at->parent;
        const bool branch = at->field == TDMI_IN_body || at->field == TDMI_IN_orelse;
        if ((above->kind == TDMI_PY_If || above->kind == TDMI_PY_IfExp) && branch && !selects_ranks_only(script, tdmi_child(above, TDMI_IN_test)))
            return false;
        if (at->field == TDMI_IN_handlers || (above->kind == TDMI_PY_BoolOp && above + 1 != at))
            return false;
        if (script->before[tdmi_number_of(script, at)].skips)
            return false;
    }
    return true;
}
