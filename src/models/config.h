/* config.h - a model's sizes: their bounds, and config.json. */
#ifndef TDMI_MODELS_CONFIG_H
#define TDMI_MODELS_CONFIG_H

#include "models/model.h"

/* One size of a model: where it lies in its config, what the user and config.json call it, what it may be. */
typedef struct tdmi_config_size {
    const char *option; /* "layers" */
    const char *key;    /* "n_layer"; NULL: not in config.json */
    const char *or_key; /* its value where key is missing, or NULL: it must be there */
    size_t at;          /* offsetof(tdmi_model_config, layers) */
    int min, max;       /* 0 0: the model has no use for it */
} tdmi_config_size;

/* NULL, or "layers is 0, expected 1 to 1024" in text[size]. Looks at the sizes and the dropout. */
const char *tdmi_config_fault(const tdmi_model_config *config, const tdmi_config_size *sizes, int count, char *text, size_t size);

typedef struct tdmi_config_json tdmi_config_json; /* a parsed config.json */

/* Whose config.json: the fields of a model that read it. */
typedef struct tdmi_config_rules {
    const char *model_type;
    const tdmi_config_size *sizes;
    int count;
    const char *dropout_key;
    tdm_status (*check)(const tdmi_config_json *json, const tdmi_model_config *config); /* what else must hold; NULL: nothing */
} tdmi_config_rules;
/* TDM_ERR_BAD_FILE names the key that is missing, no whole number, out of bounds or unknown here; *out is whole or untouched. */
tdm_status tdmi_config_read(const char *json, const tdmi_config_rules *rules, tdmi_model_config *out);
/* TDM_ERR_BAD_FILE unless it is a JSON object whose model_type is this one (NULL: any). */
tdm_status tdmi_config_open(const char *json, const char *model_type, tdmi_config_json **out);
void tdmi_config_close(tdmi_config_json *json);
const char *tdmi_config_model_type(const tdmi_config_json *json); /* "" if it has none */
/* Values of optional keys; `otherwise` where the key is missing or null, or of another type. The text is borrowed from json. */
double tdmi_config_real(const tdmi_config_json *json, const char *key, double otherwise);
bool tdmi_config_bool(const tdmi_config_json *json, const char *key, bool otherwise);
const char *tdmi_config_string(const tdmi_config_json *json, const char *key, const char *otherwise);

#endif
