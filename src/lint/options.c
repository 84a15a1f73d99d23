/* options.c - keyword arguments and launcher options that do not exist. */
#include "lint/lint.h"

#include <string.h>

/* Options of torchrun, those of PyTorch 1.9 to 2.13; `_` may stand for `-`. */
static const char torchrun_options[] =
    "nnodes nproc-per-node node-rank master-addr master-port local-addr rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone "
    "max-restarts monitor-interval start-method role module no-python run-path log-dir redirects tee local-ranks-filter logs-specs "
    "event-log-handler numa-binding signals-to-handle duplicate-stdout-filters duplicate-stderr-filters shutdown-timeout virtual-local-rank "
    "use-env help";

/* What people look for under an option that is not there. */
static const struct {
    const char *option, *place;
} elsewhere[] = {
    {"compression", "gradients are compressed by a hook: ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)"},
    {"grad_compression", "gradients are compressed by a hook: ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)"},
    {"compress", "gradients are compressed by a hook: ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)"},
    {"gradient_accumulation_steps", "accumulation is a loop around forward and backward, with no_sync"},
    {"accumulation_steps", "accumulation is a loop around forward and backward, with no_sync"},
    {"clip_grad_norm", "gradients are clipped by torch.nn.utils.clip_grad_norm_ before step()"},
    {"max_grad_norm", "gradients are clipped by torch.nn.utils.clip_grad_norm_ before step()"},
};

static const char *place_of(const char *option)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].option, option) == 0)
            return elsewhere[i].place;
    return NULL;
}

static void check_call(tdmi_lint *lint, const tdmi_call *call)
{
    char near[64];
    const char *known = tdmi_known_options(call->name);
    if (known == NULL || lint->said[TDMI_RULE_UNKNOWN_OPTION] == TDMI_LINT_OF_RULE_MAX)
        return;
    for (const tdmi_node *k = tdmi_child(call->node, TDMI_IN_keywords); k != NULL; k = tdmi_sibling(k)) {
        if (k->text[0] == '\0' || tdmi_list_has(known, k->text))
            continue;
        const char *place = place_of(k->text);
        if (place != NULL)
            tdmi_lint_say(lint, TDMI_RULE_UNKNOWN_OPTION, k, "%s has no option %.60s: %s", call->name, k->text, place);
        else if (tdmi_near_word((const char *const[]){known, NULL}, k->text, near, sizeof near))
            tdmi_lint_say(lint, TDMI_RULE_UNKNOWN_OPTION, k, "%s has no option %.60s; did you mean %s?", call->name, k->text, near);
        else
            tdmi_lint_say(lint, TDMI_RULE_UNKNOWN_OPTION, k, "%s has no option %.60s", call->name, k->text);
    }
}

/* argparse takes the beginning of an option's name for it. */
static bool begins_an_option(const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = torchrun_options; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, length) == 0)
            return true;
    }
    return false;
}

static void check_launch(tdmi_lint *lint)
{
    const tdmi_launch *launch = &lint->launch;
    if (!tdmi_is_torch_launcher(launch->launcher) || launch->script == launch->words)
        return;
    for (size_t i = launch->program + 1; i < launch->script; i++) {
        char name[64], near[64];
        const char *word = launch->word[i].text;
        if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
            continue;
        tdmi_launch_option(word + 2, name, sizeof name);
        if (begins_an_option(name))
            continue;
        const bool found = tdmi_near_word((const char *const[]){torchrun_options, NULL}, name, near, sizeof near);
        tdmi_lint_say_of_launch(lint, TDMI_RULE_UNKNOWN_OPTION, NULL, 0, launch->word[i].column, "torchrun has no option --%s%s%s%s", name,
                                found ? "; did you mean --" : "", found ? near : "", found ? "?" : "");
    }
}

void tdmi_lint_options(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        check_call(lint, call);
    check_launch(lint);
}
