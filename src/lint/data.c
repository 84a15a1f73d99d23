/* data.c - samplers, loaders, workers, copies to the GPU. */
#include "lint/lint.h"

#include <string.h>
#include <strings.h>

/* The variable that a call's result is assigned to, or the name of its keyword: "val_loader". "": none. */
static const char *result_name(const tdmi_node *call)
{
    for (const tdmi_node *at = call; at->parent != NULL; at = at->parent) {
        if (at->parent->kind == TDMI_PY_keyword)
            return at->parent->text;
        if (at->parent->kind == TDMI_PY_Assign && at->field == TDMI_IN_value) {
            const tdmi_node *target = tdmi_child(at->parent, TDMI_IN_targets);
            return tdmi_is_named(target) ? target->text : "";
        }
        if (at->kind != TDMI_PY_Call && at->kind != TDMI_PY_IfExp)
            return "";
    }
    return "";
}

static bool is_for_evaluation(const tdmi_node *call)
{
    const char *name = result_name(call);
    return strcasestr(name, "val") != NULL || strcasestr(name, "test") != NULL || strcasestr(name, "eval") != NULL;
}

/* for epoch in ..., for e in range(epochs) */
static bool has_epochs(const tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++) {
        const tdmi_node *head = tdmi_is_loop(node) && node->kind != TDMI_PY_While ? tdmi_child(node, TDMI_IN_target) : NULL;
        for (const tdmi_node *part = head; part != NULL && part < tdmi_end(node) && part->field != TDMI_IN_body; part++)
            if (tdmi_is_named(part) && strcasestr(part->text, "epoch") != NULL)
                return true;
    }
    return false;
}

static void check_set_epoch(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    if (tdmi_has_method_call(script, "set_epoch") || !script->trains || !has_epochs(script))
        return;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (tdmi_is_distributed_sampler(call->name) && !is_for_evaluation(call->node) && !tdmi_has_unseen_arguments(call->node) &&
            !tdmi_is_bool(tdmi_argument(call->node, 3, "shuffle"), false))
            tdmi_lint_say(lint, TDMI_RULE_SAMPLER_WITHOUT_SET_EPOCH, call->node, "set_epoch is never called: every epoch has the same order");
}

static void check_shuffle(tdmi_lint *lint, const tdmi_node *loader)
{
    const tdmi_node *sampler = tdmi_argument(loader, 3, "sampler"), *batches = tdmi_argument(loader, 4, "batch_sampler");
    const tdmi_node *shuffle = tdmi_argument(loader, 2, "shuffle");
    if (!tdmi_is_bool(shuffle, true))
        return;
    if (sampler != NULL && !tdmi_is_none(sampler))
        tdmi_lint_say(lint, TDMI_RULE_SAMPLER_AND_SHUFFLE, loader, "DataLoader has a sampler and shuffle=True");
    else if (batches != NULL && !tdmi_is_none(batches))
        tdmi_lint_say(lint, TDMI_RULE_SAMPLER_AND_SHUFFLE, loader, "DataLoader has a batch_sampler and shuffle=True");
}

/* Tensors that are there already need no workers. */
static bool is_in_memory(const tdmi_script *script, const tdmi_node *loader)
{
    const tdmi_node *dataset = tdmi_value_of(script, tdmi_argument(loader, 0, "dataset"));
    const tdmi_call *made = dataset != NULL ? tdmi_call_at(script, dataset) : NULL;
    return made != NULL && strcmp(made->name, "torch.utils.data.TensorDataset") == 0;
}

static void check_workers(tdmi_lint *lint, const tdmi_node *loader)
{
    const tdmi_script *script = &lint->script;
    const tdmi_node *workers = tdmi_argument(loader, 5, "num_workers");
    const bool none = tdmi_is_number(workers, 0);
    if (!script->trains || !script->uses_cuda || is_in_memory(script, loader) ||
        (workers == NULL ? tdmi_has_unseen_arguments(loader) : !none))
        return;
    if (none && !is_for_evaluation(loader))
        tdmi_lint_say_as(lint, TDMI_RULE_NO_LOADER_WORKERS, TDMI_LINT_WARNING, loader, "DataLoader has num_workers=0");
    else
        tdmi_lint_say(lint, TDMI_RULE_NO_LOADER_WORKERS, loader, none ? "DataLoader has num_workers=0" : "DataLoader has no num_workers: 0 is the default");
}

/* ---- non_blocking ---- */

/* Whether every loader of the script is known to give pageable memory. */
static bool nothing_is_pinned(const tdmi_script *script)
{
    bool any = false;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (tdmi_calls_method(call->node, "pin_memory"))
            return false;
        if (!tdmi_is_loader(call->name))
            continue;
        const tdmi_node *pin = tdmi_argument(call->node, 7, "pin_memory");
        if (tdmi_has_unseen_arguments(call->node) || (pin != NULL && !tdmi_is_bool(pin, false)))
            return false;
        any = true;
    }
    return any;
}

static void check_non_blocking(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    if (!nothing_is_pinned(script))
        return;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if ((tdmi_calls_method(call->node, "to") || tdmi_calls_method(call->node, "cuda")) && tdmi_receiver(call->node) != NULL &&
            tdmi_is_bool(tdmi_keyword(call->node, "non_blocking"), true) && tdmi_runs_each_step(script, call->node, false)) {
            tdmi_lint_say(lint, TDMI_RULE_NON_BLOCKING_UNPINNED, call->node,
                          "the batch is copied with non_blocking=True, and no DataLoader of the script has pin_memory=True");
            return;
        }
}

/* ---- seeds ---- */

static bool is_seeding(const char *name)
{
    return strcmp(name, "random.seed") == 0 || strcmp(name, "numpy.random.seed") == 0 || strcmp(name, "torch.manual_seed") == 0;
}

/* A constant, or a name that the function does not bind: the same in every worker. */
static bool is_fixed(const tdmi_script *script, const tdmi_node *seed, const tdmi_node *function)
{
    for (const tdmi_node *node = seed; node < tdmi_end(seed); node++) {
        size_t count;
        if (node->kind == TDMI_PY_Call)
            return false;
        const tdmi_binding *all = node->kind == TDMI_PY_Name ? tdmi_bindings_of(script, node, &count) : NULL;
        if (all != NULL && all[0].scope == function)
            return false;
    }
    return true;
}

static void check_seeding_in(tdmi_lint *lint, const tdmi_node *function, const char *where)
{
    const tdmi_script *script = &lint->script;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        const tdmi_node *seed = is_seeding(call->name) && tdmi_contains(function, call->node) ? tdmi_argument(call->node, 0, NULL) : NULL;
        if (seed != NULL && is_fixed(script, seed, function))
            tdmi_lint_say(lint, TDMI_RULE_SAME_SEED_IN_WORKERS, call->node, "%s seeds with the same value %s", where,
                          function->kind != TDMI_PY_Lambda && strcmp(function->text, "__getitem__") == 0 ? "for every sample" : "in every worker");
    }
}

static bool is_random_transform(const char *full_name)
{
    return strncmp(full_name, "torchvision.transforms.", 23) == 0 && strstr(full_name, ".Random") != NULL;
}

/* Whether each rank starts from the same: a constant, an option, a variable that holds one. An argument may have the rank in it. */
static bool is_same_on_ranks(const tdmi_script *script, const tdmi_node *seed)
{
    const tdmi_node *value = tdmi_value_of(script, seed);
    if (value == NULL || tdmi_mentions_rank(script, value))
        return false;
    return value->constant == TDMI_NUMBER || (value->kind == TDMI_PY_Attribute && value[1].kind == TDMI_PY_Name);
}

/* The workers of every rank are seeded from torch's generator in the rank's own process. */
static void check_seed_of_ranks(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    if (!script->distributed || tdmi_find_call(script, is_random_transform) == NULL || tdmi_find_call(script, tdmi_is_loader) == NULL)
        return;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        const tdmi_node *seed = strcmp(call->name, "torch.manual_seed") == 0 ? tdmi_argument(call->node, 0, "seed") : NULL;
        if (seed != NULL && is_same_on_ranks(script, seed)) {
            tdmi_lint_say_as(lint, TDMI_RULE_SAME_SEED_IN_WORKERS, TDMI_LINT_NOTE, call->node,
                             "all ranks start from the same seed, and with them their workers' augmentation");
            return;
        }
    }
}

static void check_worker_seeds(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const tdmi_syntax *syntax = script->syntax;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        const tdmi_node *start = tdmi_is_loader(call->name) ? tdmi_argument(call->node, 10, "worker_init_fn") : NULL;
        size_t count = 0;
        const tdmi_binding *all = start != NULL ? tdmi_bindings_of(script, start, &count) : NULL;
        if (start != NULL && start->kind == TDMI_PY_Lambda)
            check_seeding_in(lint, start, "worker_init_fn");
        else if (count == 1 && all[0].kind == TDMI_BIND_DEFINITION && tdmi_is_function(all[0].node))
            check_seeding_in(lint, all[0].node, "worker_init_fn");
    }
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        if (node->kind == TDMI_PY_FunctionDef && strcmp(node->text, "__getitem__") == 0)
            check_seeding_in(lint, node, "__getitem__");
}

void tdmi_lint_data(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    check_set_epoch(lint);
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (tdmi_is_loader(call->name)) {
            check_shuffle(lint, call->node);
            check_workers(lint, call->node);
        }
    check_non_blocking(lint);
    check_worker_seeds(lint);
    check_seed_of_ranks(lint);
}
