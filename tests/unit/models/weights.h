/* weights.h - compares a model's initial weights with PyTorch's, and with the parameters of its graph. */
#ifndef TESTS_MODELS_WEIGHTS_H
#define TESTS_MODELS_WEIGHTS_H

#include "core/memory.h"
#include "golden_init.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct weights_check {
    const golden_weights *golden;
    tdmi_graph *g;
    bool seen[64];
} weights_check;

static inline tdm_status weights_take(void *arg, const char *name, const float *values, size_t count)
{
    weights_check *c = arg;
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *bytes = (const void *)values;
    for (size_t i = 0; i < count * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    int at = 0;
    while (at < c->golden->count && strcmp(c->golden->of[at].name, name) != 0)
        at++;
    if (at == c->golden->count || c->seen[at] || c->golden->of[at].count != count || c->golden->of[at].hash != hash)
        return tdmi_fail(TDM_ERR_INTERNAL, "%s (%zu values) differs from PyTorch's", name, count);
    c->seen[at] = true;
    const tdmi_id t = tdmi_graph_find(c->g, name);
    if (t < 0 || c->g->tensor[t].role != TDMI_ROLE_PARAMETER || tdmi_shape_count(&c->g->tensor[t].shape) != count)
        return tdmi_fail(TDM_ERR_INTERNAL, "%s is no parameter of the graph with %zu values", name, count);
    return TDM_OK;
}

static inline void weights_compare_in(const tdmi_model *model, const golden_weights *golden, float *room, size_t room_count)
{
    weights_check c = {.golden = golden, .g = model->build(&golden->config, 1, TDMI_BUILD_LOSS, true)};
    assert_int_equal(tdmi_graph_status(c.g), TDM_OK);
    if (model->init(&golden->config, golden->seed, room, room_count, weights_take, &c) != TDM_OK)
        fail_msg("%s", tdm_error_text());
    size_t count = 0;
    for (int i = 0; i < golden->count; i++) {
        if (!c.seen[i])
            fail_msg("%s was not initialised", golden->of[i].name);
        count += golden->of[i].count;
    }
    assert_int_equal(count, tdmi_graph_parameter_count(c.g));
    tdmi_graph_destroy(c.g);
}

/* Drawn in memory of the model's own, and in some that is given. */
static inline void weights_compare(const tdmi_model *model, const golden_weights *golden)
{
    enum { ROOM = 1 << 20 };
    float *room = calloc(ROOM, sizeof *room);
    weights_compare_in(model, golden, room, 1);
    assert_true(room[0] == 0);
    weights_compare_in(model, golden, room, ROOM);
    assert_true(room[0] != 0 || room[1] != 0);
    free(room);
}

/* The build fails with this text. */
static inline void expect_build_error(const tdmi_model *model, tdmi_model_config config, int batch, const char *text)
{
    tdmi_graph *g = model->build(&config, batch, TDMI_BUILD_LOSS, true);
    assert_non_null(g);
    assert_int_equal(tdmi_graph_status(g), TDM_ERR_INVALID);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, tdm_error_text());
    tdmi_graph_destroy(g);
}

static inline void expect_config_error(const tdmi_model *model, const char *json, const char *text)
{
    tdmi_model_config untouched = {.layers = -7};
    assert_int_equal(model->config_parse(json, &untouched), TDM_ERR_BAD_FILE);
    assert_int_equal(untouched.layers, -7);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, tdm_error_text());
}

#endif
