/* fuzz_model_config.c - any bytes as config.json: what is understood must be sound, and written again must read the same. */
#include "core/memory.h"
#include "models/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const tdmi_model *model, const char *json)
{
    tdmi_model_config config, again;
    if (model->config_parse(json, &config) != TDM_OK)
        return;
    char *written = model->config_json(&config);
    if (config.layers < 1 || config.width < 1 || config.seq < 1 || config.vocab < 1 || config.dropout < 0 || config.dropout >= 1)
        abort();
    if (model->config_parse(written, &again) != TDM_OK || config.dropout != again.dropout)
        abort();
    config.dropout = again.dropout; /* -0 reads back as 0 */
    if (memcmp(&config, &again, sizeof config) != 0)
        abort();
    tdmi_free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *json = tdmi_malloc(size + 1, "fuzz");
    memcpy(json, data, size);
    json[size] = '\0';
    (void)tdmi_model_of_config(json);
    check(tdmi_model_find("gpt2"), json);
    check(tdmi_model_find("mlp"), json);
    tdmi_free(json);
    return 0;
}
