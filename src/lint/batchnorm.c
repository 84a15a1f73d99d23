/* batchnorm.c - BatchNorm under DDP, where a rank's batch is known and tiny. */
#include "lint/lint.h"

#include <string.h>

#define TINY_BATCH 8

static bool normalises_batches(const char *full_name)
{
    static const char *const models[] = {"resnet", "resnext", "wide_resnet", "densenet", "mobilenet", "efficientnet", "googlenet", "inception",
                                         "mnasnet", "shufflenet", "regnet"};
    if (strcmp(full_name, "torch.nn.BatchNorm1d") == 0 || strcmp(full_name, "torch.nn.BatchNorm2d") == 0 ||
        strcmp(full_name, "torch.nn.BatchNorm3d") == 0)
        return true;
    for (size_t i = 0; strncmp(full_name, "torchvision.models.", 19) == 0 && i < sizeof models / sizeof *models; i++)
        if (strncmp(full_name + 19, models[i], strlen(models[i])) == 0)
            return true;
    return false;
}

static bool mentions_sync_batchnorm(const tdmi_script *script)
{
    const tdmi_syntax *syntax = script->syntax;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count; node++)
        if (strstr(node->text, "SyncBatchNorm") != NULL || strcmp(node->text, "convert_sync_batchnorm") == 0)
            return true;
    return false;
}

/* parser.add_argument("--batch-size", default=N): the default of args.batch_size; -1: not found. */
static double default_of(const tdmi_script *script, const char *attribute)
{
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++) {
        if (!tdmi_calls_method(call->node, "add_argument"))
            continue;
        for (const tdmi_node *name = tdmi_child(call->node, TDMI_IN_args); name != NULL; name = tdmi_sibling(name)) {
            const char *text = name->constant == TDMI_STR ? name->text + strspn(name->text, "-") : "";
            size_t i = 0;
            while (text[i] != '\0' && (text[i] == '-' ? '_' : text[i]) == attribute[i])
                i++;
            const tdmi_node *value = text[i] == '\0' && attribute[i] == '\0' && i > 0 ? tdmi_keyword(call->node, "default") : NULL;
            if (value != NULL && value->constant == TDMI_NUMBER)
                return value->number;
        }
    }
    return -1;
}

static double batch_size_of(const tdmi_script *script, const tdmi_node *loader)
{
    const tdmi_node *size = tdmi_argument(loader, 1, "batch_size"), *value = tdmi_value_of(script, size);
    if (size == NULL)
        return -1;
    if (value != NULL && value->constant == TDMI_NUMBER)
        return value->number;
    return size->kind == TDMI_PY_Attribute ? default_of(script, size->text) : -1;
}

void tdmi_lint_batchnorm(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const tdmi_call *ddp = tdmi_find_call(script, tdmi_is_ddp);
    double batch = 0;
    if (ddp == NULL || tdmi_find_call(script, normalises_batches) == NULL || mentions_sync_batchnorm(script))
        return;
    for (const tdmi_call *call = script->call; call < script->call + script->calls; call++)
        if (tdmi_is_loader(call->name)) { /* the largest: validation may well have a small one */
            const double here = batch_size_of(script, call->node);
            if (here < 1)
                return;
            batch = here > batch ? here : batch;
        }
    if (batch >= 1 && batch <= TINY_BATCH)
        tdmi_lint_say(lint, TDMI_RULE_SYNC_BATCHNORM_MISSING, ddp->node, "a rank's batch has %.0f samples, and the model has BatchNorm", batch);
}
