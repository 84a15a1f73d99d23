/* config.c - bounds of sizes, and reading config.json with them. */
#include "models/config.h"

#include "core/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int *size_in(tdmi_model_config *config, const tdmi_config_size *size)
{
    return (int *)(void *)((char *)config + size->at);
}

static bool fits(const tdmi_config_size *size, long long value)
{
    return value >= size->min && value <= size->max;
}

const char *tdmi_config_fault(const tdmi_model_config *config, const tdmi_config_size *sizes, int count, char *text, size_t size)
{
    tdmi_model_config copy = *config;
    for (int i = 0; i < count; i++) {
        const int value = *size_in(&copy, &sizes[i]);
        if (fits(&sizes[i], value))
            continue;
        if (sizes[i].max == 0)
            snprintf(text, size, "%s is %d, but this model has none", sizes[i].option, value);
        else
            snprintf(text, size, "%s is %d, expected %d to %d", sizes[i].option, value, sizes[i].min, sizes[i].max);
        return text;
    }
    if (!(config->dropout >= 0 && config->dropout < 1)) {
        snprintf(text, size, "dropout is %g, expected at least 0 and less than 1", config->dropout);
        return text;
    }
    return NULL;
}

struct tdmi_config_json {
    json_t *root;
};

tdm_status tdmi_config_open(const char *json, const char *model_type, tdmi_config_json **out)
{
    json_error_t error;
    json_t *root = json_loads(json, 0, &error);
    if (root == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "config.json, line %d: %s", error.line, error.text);
    tdmi_config_json *config = tdmi_calloc(1, sizeof *config, "config.json");
    if (config == NULL) {
        json_decref(root);
        return TDM_ERR_NO_MEMORY;
    }
    config->root = root;
    tdm_status st = TDM_OK;
    if (!json_is_object(root))
        st = tdmi_fail(TDM_ERR_BAD_FILE, "config.json holds no JSON object");
    else if (model_type != NULL && strcmp(tdmi_config_model_type(config), model_type) != 0)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "config.json is of model_type \"%.64s\", expected \"%s\"",
                       tdmi_config_model_type(config), model_type);
    if (st != TDM_OK)
        tdmi_config_close(config);
    else
        *out = config;
    return st;
}

void tdmi_config_close(tdmi_config_json *json)
{
    if (json == NULL)
        return;
    json_decref(json->root);
    tdmi_free(json);
}

const char *tdmi_config_model_type(const tdmi_config_json *json)
{
    return tdmi_config_string(json, "model_type", "");
}

static tdm_status read_sizes(const tdmi_config_json *json, const tdmi_config_rules *rules, tdmi_model_config *out)
{
    for (int i = 0; i < rules->count; i++) {
        const tdmi_config_size *size = &rules->sizes[i];
        if (size->key == NULL)
            continue;
        const json_t *value = json_object_get(json->root, size->key);
        if ((value == NULL || json_is_null(value)) && size->or_key != NULL)
            value = json_object_get(json->root, size->or_key);
        if (value == NULL)
            return tdmi_fail(TDM_ERR_BAD_FILE, "config.json has no %s (%s)", size->key, size->option);
        if (!json_is_integer(value))
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s of config.json is no whole number", size->key);
        if (!fits(size, json_integer_value(value)))
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s of config.json is %lld, expected %d to %d", size->key,
                             (long long)json_integer_value(value), size->min, size->max);
        *size_in(out, size) = (int)json_integer_value(value);
    }
    return TDM_OK;
}

double tdmi_config_real(const tdmi_config_json *json, const char *key, double otherwise)
{
    const json_t *value = json_object_get(json->root, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

bool tdmi_config_bool(const tdmi_config_json *json, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(json->root, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const char *tdmi_config_string(const tdmi_config_json *json, const char *key, const char *otherwise)
{
    const json_t *value = json_object_get(json->root, key);
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

tdm_status tdmi_config_read(const char *json, const tdmi_config_rules *rules, tdmi_model_config *out)
{
    tdmi_config_json *parsed = NULL;
    tdmi_model_config config = {0};
    char text[160];
    tdm_status st = tdmi_config_open(json, rules->model_type, &parsed);
    if (st == TDM_OK)
        st = read_sizes(parsed, rules, &config);
    if (st == TDM_OK) {
        config.dropout = tdmi_config_real(parsed, rules->dropout_key, 0);
        if (tdmi_config_fault(&config, rules->sizes, rules->count, text, sizeof text) != NULL)
            st = tdmi_fail(TDM_ERR_BAD_FILE, "config.json: %s", text);
    }
    if (st == TDM_OK && rules->check != NULL)
        st = rules->check(parsed, &config);
    tdmi_config_close(parsed);
    if (st == TDM_OK)
        *out = config;
    return st;
}
