/* registry.c - the models there are. A new one is one file that fills a tdmi_model (mlp.c is the shortest to copy), its
 * header, and its line in the list below: sizes and presets, the graph, initial weights, files. */
#include "models/model.h"

#include "models/config.h"
#include "models/gpt2.h"
#include "models/mlp.h"

#include <stdio.h>
#include <string.h>

static const tdmi_model *const models[] = {&tdmi_gpt2, &tdmi_mlp};
#define MODELS (sizeof models / sizeof models[0])

/* "gpt2, mlp" */
static const char *names(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < MODELS && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", models[i]->name);
    return text;
}

const tdmi_model *tdmi_model_find(const char *name)
{
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    char text[128];
    (void)tdmi_fail(TDM_ERR_INVALID, "there is no model \"%.64s\"; there are: %s", name, names(text, sizeof text));
    return NULL;
}

const tdmi_model *tdmi_model_of_config(const char *json)
{
    tdmi_config_json *parsed = NULL;
    if (tdmi_config_open(json, NULL, &parsed) != TDM_OK)
        return NULL;
    const char *type = tdmi_config_model_type(parsed);
    const tdmi_model *found = NULL;
    for (size_t i = 0; i < MODELS && found == NULL; i++)
        if (strcmp(models[i]->name, type) == 0)
            found = models[i];
    char text[128];
    if (found == NULL)
        (void)tdmi_fail(TDM_ERR_BAD_FILE, "config.json is of model_type \"%.64s\"; known are: %s", type, names(text, sizeof text));
    tdmi_config_close(parsed);
    return found;
}

tdm_status tdmi_model_preset_find(const tdmi_model *model, const char *name, tdmi_model_config *out)
{
    char text[256] = "";
    size_t used = 0;
    for (int i = 0; i < model->preset_count; i++) {
        if (name == NULL || strcmp(model->presets[i].name, name) == 0) {
            *out = model->presets[i].config;
            return TDM_OK;
        }
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "", model->presets[i].name);
    }
    return tdmi_fail(TDM_ERR_INVALID, "%s has no preset \"%.64s\"; there are: %s", model->name, name, text);
}
