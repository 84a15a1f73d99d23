/* environment.c - variables that are set in the script, in the launch line or in a file of settings; and how the job is started. */
#include "lint/lint.h"
#include "nccl_log/variables.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where a setting was found: a node of the script, or a setting of the launch. */
typedef struct place {
    const tdmi_node *node;
    const tdmi_setting *setting;
} place;

static const char *const set_by_torchrun[] = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"};

__attribute__((format(printf, 5, 6))) static void say(tdmi_lint *lint, tdmi_rule_number rule, tdmi_lint_severity severity, place at,
                                                      const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (at.node != NULL)
        tdmi_lint_say_as(lint, rule, severity, at.node, "%s", text);
    else
        tdmi_lint_say_of_launch(lint, rule, at.setting->file, at.setting->line, at.setting->column, "%s", text);
}

/* A variable that NCCL never had, but somebody else reads. */
static void check_owner(tdmi_lint *lint, const char *name, const char *owner, place at)
{
    const bool sharp = strncmp(name, "NCCL_SHARP_", 11) == 0, of_torch = strncmp(owner, "PyTorch", 7) == 0;
    if (of_torch || sharp || strstr(owner, "plugin") != NULL) /* what builds and images set harms nobody */
        say(lint, TDMI_RULE_MISPLACED_VARIABLE, sharp ? TDMI_LINT_WARNING : TDMI_LINT_NOTE, at, "%s is no variable of NCCL's: %s reads it%s", name,
            owner, sharp ? ", where it is installed and NCCL_COLLNET_ENABLE=1" : of_torch ? "" : " alone");
}

static void check_nccl(tdmi_lint *lint, const char *name, place at)
{
    const tdmi_nccl_known_variable *known = tdmi_nccl_variable_known(name), *near = tdmi_nccl_variable_nearest(name);
    const char *owner = tdmi_nccl_variable_owner(name);
    if (known != NULL && known->until != 0)
        say(lint, TDMI_RULE_UNKNOWN_VARIABLE, TDMI_LINT_NOTE, at, "NCCL reads %s no more after 2.%d.%d%s%s", name, known->until / 100 % 100,
            known->until % 100, known->instead != NULL ? "; now it is " : "", known->instead != NULL ? known->instead : "");
    else if (known == NULL && owner != NULL)
        check_owner(lint, name, owner, at);
    else if (known == NULL)
        say(lint, TDMI_RULE_UNKNOWN_VARIABLE, TDMI_LINT_WARNING, at, "nothing reads %s%s%s%s", name, near != NULL ? "; did you mean " : "",
            near != NULL ? near->name : "", near != NULL ? "?" : "");
}

static void check_torch(tdmi_lint *lint, const char *name, place at)
{
    char near[80];
    if (lint->said[TDMI_RULE_UNKNOWN_VARIABLE] == TDMI_LINT_OF_RULE_MAX || strlen(name) >= sizeof near || tdmi_lists_have(tdmi_torch_variables, name))
        return;
    /* Anybody may call a variable of his own TORCH_SOMETHING; the others are torch's. */
    const bool certain = strncmp(name, "TORCHINDUCTOR_", 14) == 0 || strncmp(name, "TORCHDYNAMO_", 12) == 0 ||
                         strncmp(name, "TORCH_NCCL_", 11) == 0 || strncmp(name, "TORCHELASTIC_", 13) == 0;
    const bool found = tdmi_near_word(tdmi_torch_variables, name, near, sizeof near);
    if (certain || found)
        say(lint, TDMI_RULE_UNKNOWN_VARIABLE, TDMI_LINT_WARNING, at, "nothing reads %s%s%s%s", name, found ? "; did you mean " : "",
            found ? near : "", found ? "?" : "");
}

static void check_name(tdmi_lint *lint, const char *name, place at)
{
    if (strncmp(name, "NCCL_", 5) == 0)
        check_nccl(lint, name, at);
    else if (strncmp(name, "TORCH", 5) == 0)
        check_torch(lint, name, at);
}

/* What is read once, when the process group or the library begins. */
static void check_time(tdmi_lint *lint, const char *name, const tdmi_node *at)
{
    const tdmi_script *script = &lint->script;
    const bool of_group = strncmp(name, "NCCL_", 5) == 0 || strncmp(name, "TORCH_NCCL_", 11) == 0 || strcmp(name, "MASTER_ADDR") == 0 ||
                          strcmp(name, "MASTER_PORT") == 0;
    for (const tdmi_call *call = script->call; of_group && call < script->call + script->calls && call->node < at; call++)
        if (strcmp(call->name, "torch.distributed.init_process_group") == 0 && tdmi_function_around(call->node) == tdmi_function_around(at) &&
            tdmi_statement(call->node)->parent == tdmi_statement(at)->parent) {
            tdmi_lint_say(lint, TDMI_RULE_MISPLACED_VARIABLE, at, "%s is read by init_process_group, which line %d has called already", name,
                          call->node->line);
            return;
        }
    if (strcmp(name, "OMP_NUM_THREADS") != 0)
        return;
    for (const tdmi_node *node = script->syntax->node; node < at; node++)
        if (node->kind == TDMI_PY_alias && strcmp(node->text, "torch") == 0 && node->parent->parent == script->syntax->node &&
            node->parent->kind == TDMI_PY_Import) {
            tdmi_lint_say(lint, TDMI_RULE_MISPLACED_VARIABLE, at,
                          "OMP_NUM_THREADS is read when torch is imported, in line %d; behind it call torch.set_num_threads", node->line);
            return;
        }
}

static void check_set(tdmi_lint *lint, const tdmi_node *name)
{
    if (name == NULL || name->constant != TDMI_STR)
        return;
    check_name(lint, name->text, (place){.node = name});
    check_time(lint, name->text, name);
}

static bool is_environ(const tdmi_script *script, const tdmi_node *expression)
{
    char name[TDMI_NAME_BYTES];
    return strcmp(tdmi_full_name(script, expression, name), "os.environ") == 0;
}

static void check_dict(tdmi_lint *lint, const tdmi_node *dict)
{
    if (dict == NULL || dict->kind != TDMI_PY_Dict)
        return;
    for (const tdmi_node *key = tdmi_child(dict, TDMI_IN_keys); key != NULL; key = tdmi_sibling(key))
        check_set(lint, key);
}

/* os.environ[NAME] = ..., os.environ |= {...} */
static void check_assignments(tdmi_lint *lint)
{
    const tdmi_syntax *syntax = lint->script.syntax;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++) {
        if (node->kind == TDMI_PY_AugAssign && is_environ(&lint->script, tdmi_child(node, TDMI_IN_target)))
            check_dict(lint, tdmi_child(node, TDMI_IN_value));
        if (node->kind != TDMI_PY_Assign)
            continue;
        for (const tdmi_node *target = tdmi_child(node, TDMI_IN_targets); target != NULL; target = tdmi_sibling(target))
            if (target->kind == TDMI_PY_Subscript && is_environ(&lint->script, tdmi_child(target, TDMI_IN_value)))
                check_set(lint, tdmi_child(target, TDMI_IN_slice));
    }
}

/* os.environ.setdefault(NAME, ...), os.putenv(NAME, ...), os.environ.update({...}, NAME=...) */
static void check_calls(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (strcmp(call->name, "os.environ.setdefault") == 0 || strcmp(call->name, "os.putenv") == 0)
            check_set(lint, tdmi_argument(call->node, 0, NULL));
        if (strcmp(call->name, "os.environ.update") != 0)
            continue;
        check_dict(lint, tdmi_argument(call->node, 0, NULL));
        for (const tdmi_node *k = tdmi_child(call->node, TDMI_IN_keywords); k != NULL; k = tdmi_sibling(k))
            check_name(lint, k->text, (place){.node = k});
    }
}

static bool mentions_text(const tdmi_syntax *syntax, const char *text)
{
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        if (tdmi_is_text(node, text))
            return true;
    return false;
}

static void check_launcher(tdmi_lint *lint)
{
    const tdmi_launch *launch = &lint->launch;
    const tdmi_script *script = &lint->script;
    if (launch->launcher == TDMI_TORCH_LAUNCH)
        tdmi_lint_say_of_launch(lint, TDMI_RULE_DEPRECATED_LAUNCHER, NULL, 0, launch->word[launch->program].column,
                                "the job is started by torch.distributed.launch");
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (strncmp(call->name, "subprocess.", 11) != 0 && strncmp(call->name, "os.", 3) != 0)
            continue;
        for (const tdmi_node *node = call->node; node < tdmi_end(call->node); node++)
            if (node->constant == TDMI_STR && strstr(node->text, "torch.distributed.launch") != NULL)
                tdmi_lint_say(lint, TDMI_RULE_DEPRECATED_LAUNCHER, node, "it starts torch.distributed.launch");
    }
}

static void check_local_rank(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    if (mentions_text(script->syntax, "LOCAL_RANK"))
        return;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (!tdmi_calls_method(call->node, "add_argument"))
            continue;
        for (const tdmi_node *name = tdmi_child(call->node, TDMI_IN_args); name != NULL; name = tdmi_sibling(name))
            if (tdmi_is_text(name, "--local_rank") || tdmi_is_text(name, "--local-rank")) {
                tdmi_lint_say_as(lint, TDMI_RULE_LOCAL_RANK_ARGUMENT,
                                 lint->launch.launcher == TDMI_TORCHRUN ? TDMI_LINT_WARNING : TDMI_LINT_NOTE, call->node,
                                 "%s is an argument, and LOCAL_RANK is never read", name->text);
                break;
            }
    }
}

static void check_threads(tdmi_lint *lint)
{
    const tdmi_launch *launch = &lint->launch;
    const bool torchrun = tdmi_is_torch_launcher(launch->launcher);
    if ((!torchrun && launch->launcher != TDMI_MANY_PROCESSES) || launch->processes == 1 || tdmi_launch_setting(launch, "OMP_NUM_THREADS") != NULL ||
        mentions_text(lint->script.syntax, "OMP_NUM_THREADS") || tdmi_has_method_call(&lint->script, "set_num_threads"))
        return;
    tdmi_lint_say_of_launch(lint, TDMI_RULE_OMP_NUM_THREADS, NULL, 0, launch->word[launch->program].column,
                            torchrun ? "OMP_NUM_THREADS is not set: torchrun gives every rank 1 thread"
                                     : "OMP_NUM_THREADS is not set: every rank may start as many threads as the machine has cores");
}

void tdmi_lint_environment(tdmi_lint *lint)
{
    const tdmi_launch *launch = &lint->launch;
    check_assignments(lint);
    check_calls(lint);
    for (size_t i = 0; i < launch->settings; i++) {
        const place at = {.setting = &launch->setting[i]};
        check_name(lint, launch->setting[i].name, at);
        for (size_t k = 0; launch->launcher == TDMI_TORCHRUN && k < sizeof set_by_torchrun / sizeof *set_by_torchrun; k++)
            if (strcmp(launch->setting[i].name, set_by_torchrun[k]) == 0)
                say(lint, TDMI_RULE_MISPLACED_VARIABLE, TDMI_LINT_WARNING, at, "%s is set by torchrun for each rank: this value is lost",
                    launch->setting[i].name);
    }
    check_launcher(lint);
    check_local_rank(lint);
    check_threads(lint);
}
